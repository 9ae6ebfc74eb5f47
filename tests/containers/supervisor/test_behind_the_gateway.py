"""A machine behind the real gateway: its supervisor's record and readiness decide, within seconds, whether it gets requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.planning.gateway.members import GatewayMember
from tests.fakes.dns_zone import CloudDnsRecords
from tests.fakes.gateway import Gateway, missing, until
from tests.fakes.tpu_machine import ADDRESS, NAME, ZONE, TpuMachine

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
CALLED = "google/gemma-4-tiny"
"""By callers; the supervisor asks for a model by the hash of its specification."""


class Deployment:
    """One machine, the gateway before it, and what callers have got."""

    def __init__(self, folder: Path) -> None:
        self.tpu = TpuMachine(folder)
        self.tpu.configure(LEAVE_S="3")
        self.tpu.stage()
        self.tpu.want("spec-a")
        member = GatewayMember(NAME, "blue", NAME, self.tpu.port)
        self.gateway = Gateway([member], {}, self.tpu.ready_port)
        self.gateway.zone.records = CloudDnsRecords(self.tpu.google, ZONE)

    def close(self) -> None:
        self.gateway.close()
        self.tpu.close()

    def ask(self, path: str = "/v1/chat/completions") -> int:
        """The status of one completion, asked for by anybody."""
        return self.gateway.request("POST", path, {"model": CALLED, "max_tokens": 1})[0].status

    def until(self, status: int) -> float:
        return until(lambda: self.ask() == status)


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    made = Deployment(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="class")
def routed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The same with a machine that takes requests, as it does after each test again."""
    made = Deployment(tmp_path_factory.mktemp("routed"))
    made.tpu.start()
    made.tpu.until_serving("spec-a")
    made.until(200)
    yield made
    made.close()


class TestAMachineThatComes:
    def test_a_machine_that_comes_gets_requests_once_it_generates_and_none_before(self, deployment: Deployment) -> None:
        tpu, behaviour = deployment.tpu, deployment.tpu.machine.docker.behaviour("spec-a")
        behaviour.healthy = False
        tpu.start()
        tpu.until(lambda: tpu.address == ADDRESS and tpu.machine.docker.container, "the machine in its record")
        end = time.monotonic() + 2  # in which the gateway finds the address, and would begin to send
        while time.monotonic() < end:
            assert deployment.ask() == 503
        assert not tpu.container.asked
        behaviour.healthy = True
        tpu.until_serving("spec-a")
        deployment.until(200)
        assert deployment.ask(f"/members/{NAME}/v1/chat/completions") == 200
        assert deployment.ask("/members/blue-b/v1/chat/completions") == 404


class TestAMachineThatGoes:
    def test_a_machine_whose_container_was_killed_gets_no_more_requests_until_it_is_back(
        self, routed: Deployment
    ) -> None:
        again = routed.tpu.machine.docker.holds.setdefault("run", threading.Event())
        routed.tpu.container.end(137)
        routed.until(503)
        again.set()
        routed.until(200)

    def test_a_machine_whose_server_answers_with_errors_gets_no_more_requests(self, routed: Deployment) -> None:
        routed.tpu.container.behaviour.generates = False
        routed.until(503)
        asked = routed.tpu.container.asked.count(CALLED)
        assert routed.ask() == 503
        assert routed.tpu.container.asked.count(CALLED) == asked
        routed.tpu.container.behaviour.generates = True
        routed.until(200)

    def test_a_machine_that_changes_what_it_serves_cuts_nothing(self, routed: Deployment) -> None:
        statuses: list[int] = []
        before = routed.tpu.container
        routed.tpu.machine.actions.clear()
        with routed.gateway.open("POST", "/v1/chat/completions", {"model": "spec-a", "stream": True}) as stream:
            routed.tpu.want("spec-b")
            while "stop" not in routed.tpu.machine.actions:
                statuses.append(routed.ask())
            refused = [routed.ask() for _ in range(5)]
            before.may_end.set()
            text = stream.read().decode()
        routed.tpu.until_serving("spec-b")
        routed.until(200)
        assert text.endswith("data: [DONE]\n\n")
        assert set(statuses) == {200, 503}  # taken to the last moment, and then refused by the gateway
        assert statuses == sorted(statuses)
        assert refused == [503] * 5

    def test_a_machine_that_is_drained_gets_no_more_requests_until_it_is_back(self, routed: Deployment) -> None:
        routed.tpu.metadata.set("gemma4-drain", "true")
        routed.until(503)
        routed.tpu.until(lambda: routed.tpu.status["stage"] == "drained", "the drain")
        routed.tpu.metadata.set("gemma4-drain", None)
        routed.until(200)

    def test_a_machine_whose_supervisor_was_killed_is_back_with_the_next_one(self, routed: Deployment) -> None:
        before = routed.tpu.container.id
        routed.tpu.kill()
        routed.until(503)
        routed.tpu.start()
        routed.until(200)
        assert routed.tpu.container.id == before
