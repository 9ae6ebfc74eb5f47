"""`gemma4 diagnose` on real vLLM servers: one that is well, one that breaks on its first request, and two that do not start."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from infra.ops.commands.diagnose import diagnose_answer, saved_log_answer
from tests.lab import servers
from tests.lab.servers import LAB

pytestmark = [pytest.mark.lab, pytest.mark.skipif(LAB is None, reason=servers.NO_LAB)]
_LIMIT_S = 600.0


@pytest.fixture(scope="module")
def lab() -> Path:
    assert LAB is not None
    return LAB


def found_in(log: Path) -> list[str]:
    """Return what a saved log shows."""
    return [one.id for one in saved_log_answer(str(log)).findings]


def after_its_end(log: Path) -> list[str]:
    """Return what a log shows once its server has given up."""
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        if found := found_in(log):
            time.sleep(3)  # for the lines that come after the error
            return found_in(log) or found
        time.sleep(1)
    raise AssertionError(log.read_text(errors="replace")[-3000:])


@pytest.mark.parametrize(
    ("flags", "failure"),
    [
        (("--max-model-len", "1000000"), "context-beyond-model"),
        (("--kv-cache-memory-bytes", "1M"), "kv-cache-too-small"),
    ],
)
def test_a_server_that_does_not_start_is_explained(
    lab: Path, tmp_path: Path, flags: tuple[str, ...], failure: str
) -> None:
    with servers.running(lab / "tiny", tmp_path, *flags) as server:
        assert after_its_end(server.log) == [failure]


def test_a_server_that_is_well_is_called_so_with_its_log(lab: Path, tmp_path: Path) -> None:
    with servers.running(lab / "tiny", tmp_path) as server:
        servers.wait_until_healthy(server)
        answer = diagnose_answer(url=server.url)
        assert (answer.healthy, answer.findings) == (True, [])
        assert "KV cache in use" in answer.looked[0].seen
        assert found_in(server.log) == []
        asked = diagnose_answer(url=server.url, ask=True)
        assert asked.model_summary is not None, asked.looked


def test_a_server_that_breaks_on_its_first_request_is_explained_by_answer_and_log(lab: Path, tmp_path: Path) -> None:
    model = servers.quantised(lab / "tiny", tmp_path / "w4a16")
    flags = ("--load-format", "dummy", "--kv-cache-dtype", "fp8")
    with servers.running(model, tmp_path, *flags, path=servers.fp8_everywhere(tmp_path / "plugin")) as server:
        servers.wait_until_healthy(server)
        answer = diagnose_answer(url=server.url)
        assert [one.id for one in answer.findings] == ["engine-breaks"]
        assert found_in(server.log) == ["kv-scales-missing"]
