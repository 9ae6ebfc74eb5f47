"""What gateways are told of a machine's servers: ready only while they generate, and never for another machine."""

from __future__ import annotations

import io
import json
import socket
import time
from pathlib import Path

import pytest

from containers.supervisor.gemma4_supervisor.log import Log
from containers.supervisor.gemma4_supervisor.machine_status import MachineStatus
from containers.supervisor.gemma4_supervisor.readiness_server import Readiness
from containers.supervisor.gemma4_supervisor.supervisor_settings import SupervisorSettings
from infra.planning.gateway.members import READY_PORT
from tests.fakes.tpu_machine import ADDRESS, MEMBER, NAME, TpuMachine


@pytest.fixture
def readiness(tmp_path: Path) -> Readiness:
    """Of a machine whose name is not known yet, with one server that has not started."""
    log = Log(io.StringIO())
    status = MachineStatus(log, tmp_path / "status.json", lambda text: None, 10, 60)
    made = Readiness(SupervisorSettings(leave_s=3, alive_s=300), log, status)
    made.refuse("", "it is starting")
    return made


class TestWhatIsAnswered:
    def test_ready_is_answered_for_each_server_by_the_machines_name_and_its_suffix(self, readiness: Readiness) -> None:
        readiness.refuse("-0", "it is starting")
        readiness.refuse("-1", "it is starting")
        readiness.name("blue-a")
        readiness.accept("-1")
        assert readiness.answer("/ready/blue-a-0") == (
            503,
            {"member": "blue-a-0", "ready": False, "why": "it is starting"},
        )
        assert readiness.answer("/ready/blue-a-1") == (200, {"member": "blue-a-1", "ready": True, "why": ""})

    @pytest.mark.parametrize("path", ["/ready/blue-b", "/ready/blue", "/ready/blue-a-1", "/ready/", "/ready", "/"])
    def test_ready_is_not_found_for_a_name_that_is_not_the_machines(self, readiness: Readiness, path: str) -> None:
        readiness.name("blue-a")
        readiness.accept("")
        assert readiness.answer(path)[0] == 404

    def test_ready_is_not_yet_known_before_the_name_is(self, readiness: Readiness) -> None:
        readiness.accept("")
        assert readiness.answer("/ready/blue-a")[0] == 503
        readiness.name("blue-a")
        assert readiness.answer("/ready/blue-a")[0] == 200

    def test_a_machine_without_a_name_is_ready_for_nobody(self, readiness: Readiness) -> None:
        readiness.accept("")
        readiness.name("")
        assert readiness.answer("/ready/")[0] == 404

    def test_a_machine_that_withdraws_is_not_ready_until_it_is_back(self, readiness: Readiness) -> None:
        readiness.name("blue-a")
        readiness.accept("")
        readiness.withdraw("it is drained")
        readiness.accept("")
        assert readiness.answer("/ready/blue-a") == (503, {"member": "blue-a", "ready": False, "why": "it is drained"})
        readiness.withdraw("")
        assert readiness.answer("/ready/blue-a")[0] == 200

    def test_gateways_know_of_a_refusal_some_seconds_after_the_first_of_several(
        self, readiness: Readiness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [1000.0]  # whole, so that sums and differences are exact
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        readiness.accept("")
        readiness.refuse("", "it is unhealthy")
        now[0] += 2
        readiness.refuse("", "it is stopped")
        assert readiness.known_in_s("") == pytest.approx(1)
        now[0] += 2
        assert readiness.known_in_s("") == 0

    def test_alive_is_answered_while_the_main_loop_turns(
        self, readiness: Readiness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [1000.0]  # whole, so that sums and differences are exact
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        readiness.turned()
        now[0] += 300
        assert readiness.answer("/alive") == (200, {"alive": True, "why": ""})
        now[0] += 10
        why = "the main loop has not turned for 310 s"
        assert readiness.answer("/alive") == (503, {"alive": False, "why": why})
        readiness.turned()
        assert readiness.answer("/alive")[0] == 200


class TestAMachine:
    def test_the_port_is_the_one_that_gateways_ask(self) -> None:
        assert SupervisorSettings().ready_port == READY_PORT

    def test_a_machine_that_gets_another_name_does_not_answer_for_the_old_one(self, serving: TpuMachine) -> None:
        serving.metadata.set("gemma4-member", json.dumps({**MEMBER, "name": "green-a"}))
        serving.until(lambda: serving.ask("/ready/green-a")[0] == 200, "the other name")
        assert serving.ask(f"/ready/{NAME}")[0] == 404
        assert serving.ask("/alive")[0] == 200

    @pytest.mark.parametrize(
        "text", ["{}", "[]", "blue-a", json.dumps({**MEMBER, "name": "/"}), json.dumps({**MEMBER, "record": "blue-a"})]
    )
    def test_a_machine_whose_name_cannot_be_read_says_so_and_serves(self, tpu: TpuMachine, text: str) -> None:
        tpu.metadata.set("gemma4-member", text)
        tpu.want("spec-a")
        tpu.start()
        tpu.until_trouble("member", "malformed")
        tpu.until(lambda: tpu.status["stage"] == "serving", "the server")
        tpu.metadata.set("gemma4-member", json.dumps(MEMBER))
        tpu.until_serving("spec-a")
        assert not tpu.errors

    def test_a_machine_without_a_name_serves_and_says_so(self, tpu: TpuMachine) -> None:
        tpu.metadata.set("gemma4-member", None)
        tpu.want("spec-a")
        tpu.start()
        tpu.until(lambda: tpu.status.get("stage") == "serving", "the server")
        tpu.until(lambda: tpu.said("member"), "a word about it")
        assert tpu.status["ready"] == []
        assert not tpu.errors

    def test_a_machine_tells_gateways_before_it_stops_a_server(self, tpu: TpuMachine) -> None:
        tpu.configure(LEAVE_S="0.6")
        tpu.serve("spec-a")
        tpu.want("spec-b")
        tpu.until_refused()
        refused_at = time.monotonic()
        tpu.until_serving("spec-b")
        assert tpu.machine.ran("docker", "stop")[0].at - refused_at > 0.3

    def test_a_machine_refuses_no_question_while_its_supervisor_is_replaced(self, serving: TpuMachine) -> None:
        serving.publish()
        answers: list[int] = []

        def is_over() -> bool:
            answers.append(serving.ask("/alive")[0])
            return bool(serving.said("adopted")) and serving.is_ready

        serving.until(is_over, "the other version")
        assert answers.count(0) <= 1  # one that was being answered
        assert {*answers} <= {0, 200}

    def test_a_machine_is_ready_again_before_a_loaded_server_has_answered_the_next_supervisor(
        self, serving: TpuMachine
    ) -> None:
        serving.kill()
        serving.container.behaviour.deaf = True  # for as long as a question may wait
        serving.start()
        serving.until(lambda: serving.is_ready, "the answer")
        assert not serving.said("serving")[1:]

    def test_a_machine_whose_port_is_taken_says_so_until_it_gets_it(self, tpu: TpuMachine) -> None:
        with socket.create_server((ADDRESS, tpu.ready_port)):
            tpu.want("spec-a")
            tpu.start()
            tpu.until_trouble("ready", str(tpu.ready_port))
            tpu.until(lambda: tpu.status["stage"] == "serving", "the server")
        tpu.until_serving("spec-a")
        assert "ready" not in tpu.errors

    def test_a_machine_answers_while_other_callers_say_nothing(self, serving: TpuMachine) -> None:
        silent = [socket.create_connection((ADDRESS, serving.ready_port)) for _ in range(100)]
        assert serving.is_ready
        for connection in silent:
            connection.close()
