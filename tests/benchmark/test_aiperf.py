"""aiperf's command line, environment and records; how it fails, and that nothing of it is left behind."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from infra.benchmark import aiperf
from infra.benchmark.aiperf import Load, find, read_records, run, version
from infra.errors import Gemma4Error, SettingsError
from tests.fakes.aiperf import write_aiperf

LOAD = Load("http://127.0.0.1:1", "gemma", [{"max_tokens": 4}] * 3, warmup=1, concurrency=2)
TOKEN = "eyJhbGciOi.WhoIAm.Signed"


def record(phase: str = "profiling", start_s: float = 1.0, **metrics: float) -> str:
    """A line of profile_export.jsonl as aiperf 0.13.0 writes it, less what is not read."""
    values = {
        "time_to_first_token": 200.0,
        "inter_token_latency": 20.0,
        "request_latency": 820.0,
        "usage_prompt_tokens": 100,
        "usage_completion_tokens": 32,
    } | metrics
    return json.dumps(
        {
            "metadata": {"benchmark_phase": phase, "request_start_ns": int(start_s * 1e9)},
            "metrics": {name: {"value": value, "unit": ""} for name, value in values.items()},
        }
    )


def failure(**error: Any) -> str:
    return json.dumps(
        {"metadata": {"benchmark_phase": "profiling", "request_start_ns": 1}, "metrics": {}, "error": error}
    )


class TestRecords:
    def test_times_are_seconds_and_requests_stand_in_the_order_of_sending(self) -> None:
        found = read_records([record(start_s=3.0), record(start_s=2.0, time_to_first_token=100.0)], cpu_s=1.5)
        assert [one.sent_s for one in found.answered] == [2.0, 3.0]
        assert [one.ttft_s for one in found.answered] == [0.1, 0.2]
        assert found.answered[0].itl_s == 0.02
        assert found.duration_s == pytest.approx(3.82 - 2.0)

    def test_the_warm_up_is_counted_apart(self) -> None:
        found = read_records([record("warmup"), record("warmup"), record()], cpu_s=0)
        assert (len(found.answered), found.warmup_output_tokens) == (1, 64)

    def test_failures_are_counted_by_the_servers_own_words(self) -> None:
        words = json.dumps({"error": {"message": "max_tokens=5000 is\n too large"}})
        refused = failure(code=400, type="Bad Request", message=words)
        gone = failure(type="ClientConnectorError", message="long", cause="ConnectionRefusedError(111)")
        found = read_records([refused, refused, gone, record()], cpu_s=0)
        assert found.errors == {
            "400: max_tokens=5000 is too large": 2,
            "ClientConnectorError: ConnectionRefusedError(111)": 1,
        }
        assert len(found.answered) == 1

    def test_a_token_that_a_server_repeats_is_not_stored(self) -> None:
        (reason,) = read_records([failure(code=401, type="", message=f"Bearer {TOKEN} is wrong")], cpu_s=0).errors
        assert "WhoIAm" not in reason

    def test_an_answer_of_one_token_has_no_inter_token_latency(self) -> None:
        row = json.loads(record())
        del row["metrics"]["inter_token_latency"]
        assert read_records([json.dumps(row)], cpu_s=0).answered[0].itl_s is None

    @pytest.mark.parametrize("line", ["not json", "{}", record().replace("usage_prompt_tokens", "tokens")])
    def test_records_of_another_version_are_refused_with_the_remedy(self, line: str) -> None:
        with pytest.raises(Gemma4Error, match=r"cannot be read.*0\.13\.0 is expected"):
            read_records([line], cpu_s=0)


class TestFinding:
    def test_the_projects_own_comes_before_the_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        elsewhere = write_aiperf(tmp_path / "elsewhere", "fails")
        monkeypatch.setenv("PATH", str(elsewhere.parent))
        assert find(tmp_path) == elsewhere
        own = write_aiperf(tmp_path / aiperf.ENVIRONMENT / "bin", "fails")
        assert find(tmp_path) == own

    def test_without_it_is_said_what_to_type(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(SettingsError, match="make bench-tools"):
            find(tmp_path)

    def test_a_broken_one_is_named_with_its_words(self, tmp_path: Path) -> None:
        with pytest.raises(Gemma4Error, match="no module named rich"):
            version(write_aiperf(tmp_path, "has no version"))


class TestRunning:
    def test_the_token_stands_in_the_environment_alone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "somebody-elses")
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        folder = tmp_path / "scratch"
        folder.mkdir()
        with pytest.raises(Gemma4Error):
            run(write_aiperf(tmp_path, "fails"), LOAD, token=TOKEN, folder=folder)
        seen = json.loads((tmp_path / "seen.json").read_text())
        assert seen["environment"]["OPENAI_API_KEY"] == TOKEN
        assert "HF_HUB_OFFLINE" not in seen["environment"]
        assert TOKEN not in " ".join(seen["arguments"])
        assert not [file for file in folder.rglob("*") if file.is_file() and TOKEN in file.read_text()]
        assert seen["wanted"]["endpoint"]["api_key"] == "${OPENAI_API_KEY}"

    def test_without_a_token_a_key_of_the_shell_is_not_sent(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "somebody-elses")
        (tmp_path / "scratch").mkdir()
        with pytest.raises(Gemma4Error):
            run(write_aiperf(tmp_path, "fails"), LOAD, token=None, folder=tmp_path / "scratch")
        seen = json.loads((tmp_path / "seen.json").read_text())
        assert "OPENAI_API_KEY" not in seen["environment"]
        assert "api_key" not in seen["wanted"]["endpoint"]

    def test_the_phases_send_each_body_once(self, tmp_path: Path) -> None:
        wanted = aiperf.configuration(LOAD, tmp_path, with_token=False)["benchmark"]
        assert [(phase["name"], phase["requests"], phase["concurrency"]) for phase in wanted["phases"]] == [
            ("warmup", 1, 2),
            ("profiling", 2, 2),
        ]
        assert wanted["dataset"]["sampling"] == "sequential"

    def test_phases_have_a_rate_since_without_one_aiperf_never_pauses(self, tmp_path: Path) -> None:
        phases = aiperf.configuration(LOAD, tmp_path, with_token=False)["benchmark"]["phases"]
        assert [(phase["type"], phase["rate"] >= 100) for phase in phases] == [("constant", True)] * 2

    def test_a_failure_is_told_in_aiperfs_words(self, tmp_path: Path) -> None:
        (tmp_path / "scratch").mkdir()
        with pytest.raises(Gemma4Error, match="exit code 1: Error no such tokenizer"):
            run(write_aiperf(tmp_path, "fails"), LOAD, token=None, folder=tmp_path / "scratch")

    @pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_whatever_ends_us_ends_it_with_its_children(self, tmp_path: Path, end: signal.Signals) -> None:
        (tmp_path / "scratch").mkdir()
        number = tmp_path / "seen.json.child"

        def interrupt() -> None:
            while not (number.is_file() and number.read_text()):
                time.sleep(0.02)
            os.kill(os.getpid(), end)

        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            run(write_aiperf(tmp_path, "hangs"), LOAD, token=None, folder=tmp_path / "scratch")
        child = int(number.read_text())
        deadline = time.monotonic() + 30  # it was told to end; the system takes its time where it is busy
        while alive(child) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not alive(child)


def alive(number: int) -> bool:
    """Whether a process runs; one that has ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
