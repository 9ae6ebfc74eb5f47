"""What an operator reads in Cloud Logging: the supervisor's log and the server's output, written from the machine."""

from __future__ import annotations

import io
import json
import shlex
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from containers.shared.web import Reply, TransientError
from containers.supervisor.gemma4_supervisor import cloud_log, metadata_server
from containers.supervisor.gemma4_supervisor.accelerators import Accelerators
from containers.supervisor.gemma4_supervisor.cloud_log import MOST_WAITING, CloudLog
from containers.supervisor.gemma4_supervisor.docker import Docker, DockerError
from containers.supervisor.gemma4_supervisor.log import Log
from containers.supervisor.gemma4_supervisor.metadata_server import MetadataServer
from containers.supervisor.gemma4_supervisor.server_container import ServerContainer, ServerOutput, severity
from containers.supervisor.gemma4_supervisor.supervisor_settings import SupervisorSettings
from infra.google.gcp_settings import Api, GcpSettings
from infra.google.logs import LogSource
from infra.providers import serving_check
from tests.fakes.docker import GOODBYE
from tests.fakes.google.client import FakeTime, session
from tests.fakes.tpu_machine import HF_TOKEN, LOG, TpuMachine
from tests.fakes.vllm import FakeVllm

SOURCE = LogSource.machine(LOG["node_id"], LOG["location"])
NOISE = 'INFO:     127.0.0.1:40312 - "GET /metrics HTTP/1.1" 200 OK'
CALL = 'INFO:     10.8.0.2:40312 - "POST /v1/chat/completions HTTP/1.1" 200 OK'


def written(tpu: TpuMachine, event: str = "") -> list[str]:
    """The messages in Cloud Logging, in the order in which they came."""
    entries = [entry["jsonPayload"] for entry in tpu.google.logging.entries]
    return [entry["message"] for entry in entries if event in ("", entry["event"])]


class TestWhatAnOperatorReads:
    def test_the_cloud_log_has_the_last_lines_of_a_server_that_dies_and_the_check_shows_them(
        self, serving: TpuMachine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        words = "ValueError: No available memory for the cache blocks.\nEngine core failed to start."
        serving.machine.docker.behaviour("spec-a").last_output = words
        serving.container.end(1)
        serving.until_serving("spec-a")
        serving.container.print("\n".join(f"INFO Loading {number}" for number in range(40)))
        serving.until(lambda: "INFO Loading 39" in written(serving, "output"), "the lines of the next start")
        now = FakeTime(time.time())
        monkeypatch.setattr(serving_check, "GoogleSession", lambda _access: session(serving.google, now))
        check: Any = serving_check.ServingCheckProvider()
        check.gcp = GcpSettings(project="demo-project")
        with FakeVllm() as gateway:
            gateway.mode = "cannot generate"
            with pytest.raises(Exception, match="stage chat") as caught:
                check.create(check_of(gateway))
        _, lines = str(caught.value).split("The server's last log lines:\n")
        assert "exit code 1" in lines
        assert "    Engine core failed to start.\n" in lines
        assert lines.endswith(f"    INFO Loading 39\n    (more: {SOURCE.command('demo-project')})")

    def test_the_cloud_log_has_each_line_that_a_server_printed_before_it_died(self, serving: TpuMachine) -> None:
        serving.container.print("ValueError: No available memory for the cache blocks.\nEngine core failed to start.")
        serving.container.end(1)
        serving.until(lambda: any("exit code 1" in text for text in written(serving, "trouble")), "the end")
        expected = ["ValueError: No available memory for the cache blocks.", "Engine core failed to start."]
        serving.until(
            lambda: [line for line in written(serving, "output") if line in expected] == expected, "its lines"
        )

    def test_the_cloud_log_has_what_a_server_printed_while_it_was_stopped(self, serving: TpuMachine) -> None:
        serving.serve("spec-b")
        serving.until(lambda: GOODBYE in written(serving, "output"), "its last line")

    def test_the_cloud_log_is_what_the_command_asks_for(self, serving: TpuMachine) -> None:
        serving.until(lambda: written(serving, "serving"), "the log")
        words = shlex.split(SOURCE.command("demo-project"))
        assert words[:3] == ["gcloud", "logging", "read"]
        body = {"resourceNames": ["projects/demo-project"], "filter": words[3]}
        found = session(serving.google).post(Api.LOGGING, "entries:list", body)["entries"]
        assert "spec-a serves." in [entry["jsonPayload"]["message"] for entry in found]
        assert {entry["logName"] for entry in found} == {"projects/demo-project/logs/gemma4"}
        assert [entry["labels"] for entry in found] == [{"stack": "v6e4", "machine": "blue"}] * len(found)

    def test_the_cloud_log_has_each_line_of_the_server_once_and_none_that_our_own_looks_cause(
        self, serving: TpuMachine
    ) -> None:
        for line in (NOISE, CALL, "first"):
            serving.container.print(line)
        serving.until(lambda: "first" in written(serving, "output"), "the first line")
        serving.kill()
        serving.container.print("in between")
        serving.start()
        serving.until(lambda: "in between" in written(serving, "output"), "what nobody watched")
        serving.container.print("last")
        serving.until(lambda: "last" in written(serving, "output"), "the last line")
        lines = [line for line in written(serving, "output") if "API server" not in line]
        assert lines == [CALL, "first", "in between", "last"]

    def test_the_cloud_log_has_the_supervisors_own_end(self, serving: TpuMachine) -> None:
        serving.kill(signal.SIGTERM)
        assert any("Told to stop" in text for text in written(serving, "end"))

    def test_the_cloud_log_has_the_last_words_of_a_supervisor_that_gives_way(self, serving: TpuMachine) -> None:
        serving.publish()
        serving.until(lambda: len(serving.said("begin")) == 2, "the new version")
        assert written(serving, "upgrade")

    def test_the_cloud_log_has_no_secret(self, tpu: TpuMachine) -> None:
        tpu.serve("spec-hf", weights=[], hfTokenSecret="projects/demo-project/secrets/hf")
        tpu.container.print(f"401 with Bearer {HF_TOKEN} and {tpu.metadata.issued[0]}")
        tpu.until(lambda: any("401 with" in line for line in written(tpu, "output")), "the line")
        assert "401 with Bearer [secret] and [secret]" in written(tpu, "output")


def check_of(gateway: FakeVllm) -> dict[str, Any]:
    """What the check of this slice is given, behind a gateway."""
    expected = {"model": "gemma", "spec_hash": "spec-1", "max_model_len": 4096.0, "prompt_tokens": 512.0}
    return {
        "url": gateway.url,
        "path": "",
        "generation": "1",
        "expected": {**expected, "tools": True, "image": True, "audio": False},
        "predicted_kv_tokens": [28_000.0, 30_000.0, 32_000.0],
        "ready_timeout_s": 600.0,
        "invoker": "invoker@demo-project.iam.gserviceaccount.com",
        "log": {"kind": "machine", "name": LOG["node_id"], "location": LOG["location"]},
        "skipped": "",
    }


class TestCloudLoggingThatTakesNothing:
    @pytest.mark.parametrize("fault", [{"status": 403}, {"status": 429}, {"status": 503}, {"drop": "before"}])
    def test_cloud_logging_that_takes_nothing_costs_nothing_that_serves_and_gets_everything_later(
        self, tpu: TpuMachine, fault: dict[str, Any]
    ) -> None:
        rule = tpu.google.fault("POST", "entries:write", times=10_000, **fault)
        tpu.serve("spec-a")
        tpu.until(lambda: tpu.said("report"), "a word about it")
        assert not tpu.errors
        assert written(tpu) == []
        rule.times = 0
        tpu.until(lambda: "spec-a serves." in written(tpu), "the log")
        assert written(tpu)[0].endswith("begins.")
        assert len(tpu.said("report")) == 1
        if fault == {"status": 403}:
            assert "roles/logging.logWriter" in tpu.said("report")[0]["message"]

    def test_cloud_logging_that_takes_nothing_is_not_asked_again_for_what_it_will_never_take(
        self, tpu: TpuMachine
    ) -> None:
        tpu.google.fault("POST", "entries:write", times=1, status=400)
        tpu.want("spec-a")
        tpu.start()
        tpu.until(lambda: written(tpu), "what came after it")
        assert not any(text.endswith("begins.") for text in written(tpu))

    def test_cloud_logging_that_takes_nothing_gets_nothing_from_a_node_without_the_attribute(
        self, tpu: TpuMachine
    ) -> None:
        tpu.metadata.set("gemma4-log", None)
        tpu.serve("spec-a")
        tpu.kill(signal.SIGTERM)
        assert not tpu.google.sent("POST", "entries:write")
        assert not tpu.said("report")


class TestEntriesThatWait:
    @pytest.fixture
    def log(self, monkeypatch: pytest.MonkeyPatch) -> CloudLog:
        log, settings = Log(io.StringIO()), SupervisorSettings()
        metadata = MetadataServer(settings, log)
        monkeypatch.setattr(metadata, "read", lambda path: json.dumps(LOG))
        monkeypatch.setattr(metadata, "token", lambda: "token")
        return CloudLog(settings, metadata, log)

    @pytest.fixture
    def sent(self, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
        """The requests to Cloud Logging, which takes all of them."""
        bodies: list[bytes] = []

        def take(*_: object, body: bytes, **__: object) -> Reply:
            bodies.append(body)
            return Reply(200, {}, b"{}")

        monkeypatch.setattr(metadata_server, "call", take)
        return bodies

    def test_waiting_entries_are_so_many_and_the_oldest_are_lost(
        self, log: CloudLog, sent: list[bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object, **__: object) -> Reply:
            raise TransientError("no network")

        with monkeypatch.context() as offline:
            offline.setattr(metadata_server, "call", refuse)
            for number in range(3 * MOST_WAITING):
                log.add({"severity": "INFO", "time": "", "event": "e", "message": str(number)})
                if number % 500 == 0:
                    log.flush()
        log.flush()
        batches = [[entry["jsonPayload"]["message"] for entry in json.loads(body)["entries"]] for body in sent]
        kept = [message for batch in batches for message in batch]
        assert len(kept) <= MOST_WAITING + cloud_log.MOST_SENT
        assert kept[-MOST_WAITING:] == [str(number) for number in range(2 * MOST_WAITING, 3 * MOST_WAITING)]
        assert max(map(len, batches)) == cloud_log.MOST_SENT

    def test_waiting_entries_fit_into_a_request_whatever_is_printed(self, log: CloudLog, sent: list[bytes]) -> None:
        for number in range(cloud_log.MOST_SENT):
            log.add_line("", "INFO", f"2026-11-21T10:00:00.{number:09d}Z", "\N{SNAKE}" * 5000)
        log.flush()
        assert 1_000_000 < len(sent[0]) < 10_000_000
        assert json.loads(sent[0])["entries"]

    @pytest.mark.parametrize("status", [400, 413])
    def test_waiting_entries_that_are_refused_always_are_complained_of_once(
        self, log: CloudLog, monkeypatch: pytest.MonkeyPatch, status: int
    ) -> None:
        tries: list[bytes] = []

        def refuse(*_: object, body: bytes, **__: object) -> Reply:
            tries.append(body)
            return Reply(status, {}, b"invalid")

        monkeypatch.setattr(metadata_server, "call", refuse)
        monkeypatch.setattr(log._log, "listener", log.add)
        for _ in range(3):
            log.add({"severity": "INFO", "time": "", "event": "e", "message": "m"})
            log.flush()
        assert len(tries) == 3
        assert b"".join(tries).count(b"refused entries") == 1


class TestTheServersOutput:
    def test_the_servers_output_is_read_with_its_times_and_a_progress_bar_as_its_last_state(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        container = server_container()
        text = (
            "2026-11-21T10:00:02.000000000Z INFO second\n"
            "2026-11-21T10:00:01.000000000Z Loading:   0%\nLoading:  50%\nLoading: 100%\n"
            "2026-11-21T10:00:03.000000000Z \n"
        )
        monkeypatch.setattr(Docker, "run", lambda *_, **__: text)
        assert container.lines("", 10) == [
            ("2026-11-21T10:00:01.000000000Z", "Loading: 100%"),
            ("2026-11-21T10:00:02.000000000Z", "INFO second"),
            ("2026-11-21T10:00:03.000000000Z", ""),
        ]

    def test_the_servers_output_is_left_for_the_next_time_where_docker_does_not_answer(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        container, seen = server_container(), list[tuple[str, ...]]()
        answers: list[Any] = [DockerError("no"), [("2026-1", "a")], [("2026-1", "a"), ("2026-2", "b")]]

        def lines(*_: object) -> Any:
            answer = answers.pop(0)
            if isinstance(answer, DockerError):
                raise answer
            return answer

        monkeypatch.setattr(container, "lines", lines)
        output = ServerOutput(container, lambda *line: seen.append(line))
        for _ in range(3):
            output.collect()
        assert seen == [("DEFAULT", "2026-1", "a"), ("DEFAULT", "2026-2", "b")]

    def test_the_servers_output_may_have_two_lines_of_one_moment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        container, seen = server_container(), list[str]()
        answers = [
            [("2026-1", "a"), ("2026-2", "b"), ("2026-2", "c")],
            [("2026-2", "b"), ("2026-2", "c"), ("2026-3", "d")],
        ]
        monkeypatch.setattr(container, "lines", lambda *_: answers.pop(0))
        output = ServerOutput(container, lambda _severity, _stamp, text: seen.append(text))
        output.collect()
        output.collect()
        assert seen == ["a", "b", "c", "d"]

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("(APIServer pid=1) INFO 11-21 22:00:00 [api_server.py:1] up", "INFO"),
            ("(EngineCore_DP0 pid=9) ERROR 11-21 22:00:00 [core.py:1] failed", "ERROR"),
            ("WARNING: something", "WARNING"),
            ("Traceback (most recent call last):", "DEFAULT"),
            (f"{'x' * 80} ERROR in the middle of a text", "DEFAULT"),
        ],
    )
    def test_the_servers_output_is_as_severe_as_vllm_says(self, line: str, expected: str) -> None:
        assert severity(line) == expected


def server_container() -> ServerContainer:
    settings, log = SupervisorSettings(), Log(io.StringIO())
    docker = Docker(settings, log)
    return ServerContainer(docker, Accelerators(Path("/dev"), False, docker, log), settings, "")
