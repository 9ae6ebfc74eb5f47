"""Pinning resolves what a tag or a branch means, and status reads what a check left in the state: no server is woken."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from infra.catalog import Lock, write_lock
from infra.errors import GoogleError, SettingsError
from infra.google.upstream_versions import image_digest, model_revision
from infra.ops.commands import pin as pin_command
from infra.ops.endpoint.stack_state import CheckRecord, state_in
from tests.projects import assert_has_its_form

DIGEST = "sha256:" + "a" * 64
COMMIT = "b" * 40


class Registry(BaseHTTPRequestHandler):
    """A registry that wants an anonymous token first, and a hub with one gated model."""

    def do_HEAD(self) -> None:
        if self.headers.get("Authorization") != "Bearer anonymous":
            where = f"http://{self.headers['Host']}/token"
            self._answer(
                401, b"", {"WWW-Authenticate": f'Bearer realm="{where}",service="registry",scope="repository:x:pull"'}
            )
        elif self.path.endswith("/manifests/v1"):
            self._answer(200, b"", {"Docker-Content-Digest": DIGEST})
        else:
            self._answer(404, b"", {})

    def do_GET(self) -> None:
        if self.path.startswith("/token?service=registry"):
            self._answer(200, json.dumps({"token": "anonymous"}).encode(), {})
        elif self.path == "/api/models/google/open" or self.headers.get("Authorization") == "Bearer hf_right":
            self._answer(200, json.dumps({"sha": COMMIT}).encode(), {})
        else:
            self._answer(401, b"{}", {})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


class TestResolving:
    def test_a_tag_is_its_digest(self, registry: str) -> None:
        assert image_digest("vllm/vllm-openai", "v1", registry=registry) == DIGEST

    def test_a_tag_that_does_not_exist_is_named(self, registry: str) -> None:
        with pytest.raises(GoogleError, match="no image vllm/vllm-openai:v9"):
            image_digest("vllm/vllm-openai", "v9", registry=registry)

    def test_a_model_is_its_commit(self, registry: str) -> None:
        assert model_revision("google/open", hub=registry) == COMMIT

    def test_a_gated_model_needs_the_token_and_never_shows_it(self, registry: str) -> None:
        assert model_revision("google/gated", token="hf_right", hub=registry) == COMMIT
        with pytest.raises(GoogleError, match="HF_TOKEN") as caught:
            model_revision("google/gated", token="hf_wrong", hub=registry)
        assert "hf_wrong" not in str(caught.value)

    def test_a_netrc_entry_does_not_replace_the_token(
        self, registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password other\n")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        assert model_revision("google/gated", token="hf_right", hub=registry) == COMMIT
        assert image_digest("vllm/vllm-openai", "v1", registry=registry) == DIGEST

    def test_nobody_there_is_one_sentence(self) -> None:
        with pytest.raises(GoogleError, match="this needs the internet"):
            model_revision("google/open", hub="http://127.0.0.1:9")


class TestPin:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        write_lock(Lock(images={"tpu": DIGEST}), tmp_path)
        return tmp_path

    def test_what_cannot_be_resolved_is_counted_and_the_rest_is_written(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def no_hub(*_: object, **__: object) -> str:
            raise GoogleError("nobody answers")

        monkeypatch.setattr(pin_command, "image_digest", lambda *_: DIGEST)
        monkeypatch.setattr(pin_command, "model_revision", no_hub)
        assert pin_command.pin(["gpu", "gemma-4-12b-it"], directory=folder) == 1
        assert json.loads((folder / "lock.json").read_text())["images"]["gpu"] == DIGEST
        assert "gemma-4-12b-it: not pinned: nobody answers" in capsys.readouterr().out
        assert pin_command.pin(["gpu", "gemma-4-12b-it"], directory=folder, as_json=True) == 1
        said = capsys.readouterr().out
        assert_has_its_form(("pin", "--json"), said)
        assert ([*json.loads(said)["pinned"]], [*json.loads(said)["failed"]]) == (["gpu"], ["gemma-4-12b-it"])

    def test_without_a_network_nothing_is_written_and_each_host_is_tried_once(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        asked = []

        def silent(name: str, *_: object, **__: object) -> str:
            asked.append(name)
            raise GoogleError(f"{name} could not be reached.", reason="UNREACHABLE")

        monkeypatch.setattr(pin_command, "image_digest", silent)
        monkeypatch.setattr(pin_command, "model_revision", silent)
        before = (folder / "lock.json").read_text()
        assert pin_command.pin([], directory=folder) > 10
        said = capsys.readouterr()
        assert (len(asked), (folder / "lock.json").read_text()) == (2, before)
        assert "tpu: not asked, since nobody answered before" in said.out
        assert said.err.splitlines()[1:] == [f"nothing was pinned; {folder / 'lock.json'} is as it was"]

    def test_an_unknown_name_pins_nothing(self, folder: Path) -> None:
        before = (folder / "lock.json").read_text()
        with pytest.raises(SettingsError, match="gpuu: is not an image or a model"):
            pin_command.pin(["gpuu"], directory=folder)
        assert (folder / "lock.json").read_text() == before


class TestStatus:
    RESULT: ClassVar[dict[str, Any]] = {"vllm_version": "0.32.0", "kv_tokens": 5, "notes": []}
    CHECK: ClassVar[dict[str, Any]] = {
        "type": "pulumi-python:dynamic/gemma4:ServingCheck",
        "urn": "urn:pulumi:l4::gemma4::a$b::serving-check",
        "outputs": {"url": "https://x", "path": "/members/blue", "expected": {"spec_hash": "spec-1"}, "result": RESULT},
    }

    def test_checks_are_found_in_the_state(self) -> None:
        state = {"deployment": {"resources": [{"type": "gcp:storage/bucket:Bucket"}, self.CHECK]}}
        expected = CheckRecord("serving-check", "https://x/members/blue", "spec-1", "", self.RESULT)
        assert state_in(state).checks == (expected,)

    def test_an_empty_state_has_none(self) -> None:
        assert state_in({"deployment": None}).checks == ()
