"""The docker command line: what its errors mean, and files for root alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from containers.supervisor.gemma4_supervisor.docker import reason_with_remedy
from containers.supervisor.gemma4_supervisor.whole_file import write_whole


class TestDocker:
    @pytest.mark.parametrize(
        ("said", "expected"),
        [
            ("Error response from daemon: manifest for i:t not found: manifest unknown", "There is no such image"),
            ("denied: Permission artifactregistry.repositories.downloadArtifacts denied", "artifactregistry.reader"),
            ("failed to register layer: write /x: no space left on device", "The boot disk is full"),
            ("net/http: TLS handshake timeout", "Private Google Access"),
            ("failed to connect to the docker API at unix:///var/run/docker.sock", "Docker is not running"),
            ("", "printed no reason"),
        ],
    )
    def test_what_docker_says_comes_with_what_to_do(self, said: str, expected: str) -> None:
        assert expected in reason_with_remedy("pull", said)

    @pytest.mark.parametrize(
        "said",
        [
            "docker: Error response from daemon: Conflict.\nSee 'docker run --help'.\n",
            "docker: Error response from daemon: Conflict.\n\nRun 'docker run --help' for more information\n",
            "WARNING: the daemon is old\ndocker: Conflict.\n\nRun 'docker run --help' for more information\n",
        ],
    )
    def test_where_docker_says_how_to_read_on_that_is_not_the_reason(self, said: str) -> None:
        assert reason_with_remedy("run", said) == "docker run: Conflict."

    def test_a_private_file_is_private_from_its_first_byte(self, tmp_path: Path) -> None:
        path = tmp_path / "token"
        path.write_text("old")
        path.chmod(0o644)
        write_whole(path, "new")
        assert path.read_text() == "new"
        assert path.stat().st_mode & 0o777 == 0o600
