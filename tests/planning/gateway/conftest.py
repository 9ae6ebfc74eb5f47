"""One real HAProxy for all tests that change nothing about it, before two machines that each test finds alive and idle."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest

from infra.planning.gateway.members import PLACEHOLDER, gateway_members
from tests.fakes.gateway import Gateway, missing, until
from tests.fakes.members import PATIENCE_S, FakeMember, two_members

BLUE, GREEN = "blue-a", "green-a"
Start = Callable[..., Gateway]


@pytest.fixture(scope="session")
def machines() -> Iterator[tuple[FakeMember, FakeMember]]:
    if missing():
        pytest.skip(missing())
    with two_members(BLUE, GREEN) as members:
        yield members


@pytest.fixture(scope="session")
def start(machines: tuple[FakeMember, FakeMember]) -> Iterator[Start]:
    """Starts a gateway before the machines, or before those of them that `before` names, with further settings."""
    started: list[Gateway] = []

    def start(before: Collection[str] = (BLUE, GREEN), **settings: Any) -> Gateway:
        members = gateway_members([], ports=[machines[0].port])
        addresses = {one.name: one.address for one in machines if one.name in before}
        started.append(Gateway(members, addresses, machines[0].ready_port, **settings))
        return started[-1]

    yield start
    for gateway in started:
        gateway.close()


@pytest.fixture(scope="session")
def before_both(start: Start) -> Gateway:
    return start()


@pytest.fixture(scope="session")
def before_blue(start: Start) -> Gateway:
    return start([BLUE])


@pytest.fixture
def gateway(before_both: Gateway, machines: tuple[FakeMember, FakeMember]) -> Gateway:
    """Shared; knows both machines as ready."""
    settle(before_both, *machines)
    return before_both


@pytest.fixture
def alone(before_blue: Gateway, machines: tuple[FakeMember, FakeMember]) -> Gateway:
    """Shared; knows only blue."""
    settle(before_blue, machines[0])
    return before_blue


@pytest.fixture
def blue(machines: tuple[FakeMember, FakeMember]) -> FakeMember:
    return machines[0]


@pytest.fixture
def green(machines: tuple[FakeMember, FakeMember]) -> FakeMember:
    return machines[1]


def settle(gateway: Gateway, *machines: FakeMember) -> None:
    """Wait until the gateway takes these machines, and nothing else, for ready; forget what they were asked."""
    for machine in machines:
        machine.start()
    known = {machine.name: machine.address for machine in machines}
    for host in (BLUE, GREEN, "blue-b", "green-b"):
        gateway.resolve(host, known.get(host, PLACEHOLDER))
    gateway.zone.mode = "answers"
    for host in (BLUE, GREEN, "blue-b", "green-b"):
        until(functools.partial(_answers, gateway, host, host if host in known else ""))
    for machine in machines:
        machine.start()
    gateway.forget_log()


def _answers(gateway: Gateway, member: str, machine: str) -> bool:
    """Whether that machine answers for a member; blank: none does. It leaves no line in the log."""
    answer, body = gateway.request("GET", f"/members/{member}/health")
    return (body["name"] if answer.status == 200 else "") == machine


def in_background(action: Callable[[], Any]) -> Callable[[], Any]:
    """Starts `action` at once; the returned function waits for its result."""
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(action()), daemon=True)
    thread.start()

    def finish() -> Any:
        thread.join(PATIENCE_S)
        assert result, "the request did not end"
        return result[0]

    return finish
