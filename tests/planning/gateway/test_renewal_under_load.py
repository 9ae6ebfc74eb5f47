"""A slice is renewed while requests come: the providers delete the old machine behind the real gateway, and none of them fails.

Google, the engine and the machines are fakes; what is asked for, when the old one is drained and when it is deleted are the
providers' own, and HAProxy is real. Requests are sent once: a second attempt would hide what this looks for.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from infra.planning.gateway.members import gateway_members
from tests.components.test_slice_stories import MemberCheck, Story
from tests.fakes.gateway import Gateway, missing, until
from tests.fakes.google import FakeGoogle
from tests.fakes.members import FakeMember, members_called
from tests.fakes.supervisors import PLACEHOLDER, Supervisors

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

ENOUGH, CLIENTS, QUIET_S = 500, 4, 1.5


class Load:
    """Clients that ask without a pause. `failed` holds what was not answered with 200, `answered` counts by member."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway, self.failed = gateway, list[str]()
        self.answered: Counter[str] = Counter()
        self._lock, self._ended = threading.Lock(), threading.Event()

    @property
    def total(self) -> int:
        return self.answered.total() + len(self.failed)

    @contextmanager
    def running(self) -> Iterator[None]:
        clients = [threading.Thread(target=self._ask_on, daemon=True) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        try:
            yield
        finally:
            self._ended.set()
            for client in clients:
                client.join()

    def _ask_on(self) -> None:
        while not self._ended.is_set():
            try:
                answer, body = self.gateway.request("POST", "/v1/chat/completions", {"messages": []})
                said = "" if answer.status == 200 else f"{answer.status}: {body}"
            except OSError as error:
                said = repr(error)
            with self._lock:
                if said:
                    self.failed.append(said)
                else:
                    self.answered[body["member"]] += 1


class RealSupervisors(Supervisors):
    """Those of the machines behind the gateway: address, readiness and drain are seen there as well."""

    def __init__(self, google: FakeGoogle, gateway: Gateway, machines: dict[str, FakeMember]) -> None:
        super().__init__(google)
        self.gateway, self.machines = gateway, machines

    def look(self) -> None:
        super().look()
        there = self.addresses()
        for name, machine in self.machines.items():
            self.gateway.resolve(name, machine.address if name in there else PLACEHOLDER)
            machine.ready = name in there
            if f"{name} drained" in self.told:
                self._finish(machine)
        for name, machine in self.machines.items():
            if f"{name} serving" in self.told and not any(one.endswith(name) for one in self.google.tpu.nodes):
                machine.kill()  # the machine is deleted

    @staticmethod
    def _finish(machine: FakeMember) -> None:
        """Wait until nothing has come for a while, as the real one waits for its server's count of requests."""
        seen, since = len(machine.seen), time.monotonic()
        while time.monotonic() - since < QUIET_S:
            time.sleep(0.05)
            if len(machine.seen) != seen:
                seen, since = len(machine.seen), time.monotonic()


class CheckThroughTheGateway(MemberCheck):
    """Waits until the gateway sends requests to the machine that it is told."""

    supervisors: RealSupervisors

    def _check(self, props: dict[str, str]) -> None:
        super()._check(props)
        until(lambda: self.supervisors.gateway.status(f"/members/{props['member']}/health") == 200)


def test_a_renewal_fails_no_request() -> None:
    with FakeGoogle() as google, members_called("blue-a", "blue-b") as (one, two):
        known = gateway_members(["blue"], ports=[one.port])
        gateway = Gateway(known, {}, one.ready_port)
        try:
            story = Story(google)
            story.supervisors = RealSupervisors(google, gateway, {"blue-a": one, "blue-b": two})
            story.clock.always[:] = [story.supervisors.look]
            story.check = CheckThroughTheGateway(story.supervisors)
            story.up()
            load = Load(gateway)
            with load.running():
                until(lambda: load.total > 50)
                assert story.up(renew="blue")[-1] == "delete blue-queue"
                story.supervisors.look()
                until(lambda: load.total > ENOUGH and load.answered["blue-b"] > 50)
        finally:
            gateway.close()
    assert load.failed == []
    assert story.supervisors.told == ["blue-a serving", "blue-b serving", "blue-a drained"]
    assert min(load.answered["blue-a"], load.answered["blue-b"]) > 50
