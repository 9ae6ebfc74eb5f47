"""What a look at the server finds: the table of `probe`, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from containers.shared.web import Reply, TimedOut, TransientError
from containers.supervisor.gemma4_supervisor import probe
from containers.supervisor.gemma4_supervisor.probe import ServerCondition
from containers.supervisor.gemma4_supervisor.supervisor_settings import SupervisorSettings


class TestTheProbe:
    """The table in `probe`, row by row. An answer is a status, `late` for none in time, or `refused`."""

    @pytest.mark.parametrize(
        ("metrics", "health", "question", "metrics_after", "expected", "asked"),
        [
            (1, 200, 200, 1, ServerCondition.HEALTHY, "metrics"),
            ("refused", 200, 200, 0, ServerCondition.LOADING, "metrics"),
            ("late", 200, 200, 0, ServerCondition.SLOW, "metrics"),
            (0, 503, 200, 0, ServerCondition.LOADING, "metrics health"),
            (0, "refused", 200, 0, ServerCondition.LOADING, "metrics health"),
            (0, "late", 200, 0, ServerCondition.SLOW, "metrics health metrics"),
            (0, "late", 200, 1, ServerCondition.HEALTHY, "metrics health metrics"),
            (0, 200, 200, 1, ServerCondition.HEALTHY, "metrics health completions metrics"),
            (0, 200, 500, 1, ServerCondition.FAILING, "metrics health completions metrics"),
            (0, 200, "refused", 1, ServerCondition.FAILING, "metrics health completions metrics"),
            (0, 200, 503, 0, ServerCondition.SLOW, "metrics health completions metrics"),
            (0, 200, 503, 1, ServerCondition.HEALTHY, "metrics health completions metrics"),
            (0, 200, "late", 0, ServerCondition.SLOW, "metrics health completions metrics"),
            (0, 200, "late", "late", ServerCondition.SLOW, "metrics health completions metrics"),
            (0, 200, "late", 1, ServerCondition.HEALTHY, "metrics health completions metrics"),
        ],
    )  # fmt: skip
    def test_the_probe_finds_what_the_table_says(
        self, monkeypatch: pytest.MonkeyPatch, metrics: Any, health: Any, question: Any, metrics_after: Any,
        expected: ServerCondition, asked: str,
    ) -> None:  # fmt: skip
        server = ScriptedServer(monkeypatch)
        server.look(0, 200, 200, 1)  # a first look, at which all was well
        finding = server.look(metrics, health, question, metrics_after)
        assert finding.condition is expected
        assert " ".join(path for path, _ in server.asked) == asked

    def test_the_probe_waits_longer_once_the_server_is_slow_and_as_before_once_it_is_well(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server = ScriptedServer(monkeypatch)
        patience = [
            max(seconds for _, seconds in server.asked)
            for answers in [
                (0, 200, 200, 1),
                (0, 200, "late", 0),
                (0, 200, "late", 0),
                ("late",),
                (1, 200, 200, 1),
                (1,),
            ]
            if server.look(*answers)
        ]
        assert patience == [60, 60, 180, 180, 180, 60]

    def test_the_probe_asks_at_each_fourth_look_at_a_server_that_generates(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server = ScriptedServer(monkeypatch)
        server.look(0, 200, 200, 1)
        asked = [len(server.asked) > 1 for _ in range(8) if server.look(1, 200, 200, 1)]
        assert asked == [False, False, False, True] * 2

    def test_the_probe_takes_an_answer_without_the_counter_for_no_reading(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        readings = [Reply(200, {}, b"vllm:generation_tokens_total 9.0\n"), Reply(503, {}, b"busy")] * 4

        def hung(_method: str, url: str, **_: Any) -> Reply:
            if url.endswith("/metrics"):
                return readings.pop()
            if url.endswith("/health"):
                return Reply(200, {}, b"")
            raise TimedOut("silent")

        monkeypatch.setattr(probe, "call", hung)
        server = probe.ProbedServer(SupervisorSettings(), "10.0.0.2", 8000, lambda: "m")
        assert [server.look().condition for _ in range(4)] == [ServerCondition.SLOW] * 4


class ScriptedServer:
    """Looks at a server that answers as it is told. Answers about metrics are tokens made since the last reading."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._server = probe.ProbedServer(SupervisorSettings(), "10.0.0.2", 8000, lambda: "m")
        self._tokens = 0
        self.asked: list[tuple[str, float]] = []
        monkeypatch.setattr(probe, "call", self._call)

    def look(self, metrics: Any, health: Any = 200, question: Any = 200, metrics_after: Any = 0) -> probe.Finding:
        self.asked = []
        self._script = {"metrics": [metrics, metrics_after], "health": [health], "completions": [question]}
        return self._server.look()

    def _call(self, _method: str, url: str, *, timeout_s: float, **_: Any) -> Reply:
        path = url.rpartition("/")[2]
        self.asked.append((path, timeout_s))
        answer = self._script[path].pop(0)
        if answer in ("late", "refused"):
            raise TimedOut("silent") if answer == "late" else TransientError("refused")
        if path == "metrics":
            self._tokens += answer
            return Reply(200, {}, f'vllm:generation_tokens_total{{engine="0"}} {self._tokens}.0\n'.encode())
        return Reply(answer, {}, b'{"choices": [{}]}')
