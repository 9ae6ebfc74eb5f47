"""A gateway before two machines, with real supervisors and real vLLM servers, for the modules that ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from infra.planning.gateway.members import KNOWN_NAMES, PLACEHOLDER, TURNS, gateway_members
from tests.fakes.dns_zone import CloudDnsRecords
from tests.fakes.gateway import Gateway, until
from tests.fakes.tpu_machine import ZONE
from tests.lab.machines import VllmMachine
from tests.lab.servers import LAB, START_LIMIT_S

BLUE, GREEN = "blue-a", "green-a"
PATIENCE_S = 120
"""Real servers share this machine's cores with whatever else runs."""
Machines = Mapping[str, VllmMachine]
Start = Callable[..., Gateway]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Nothing has been started on them, and every name that a gateway knows has its record with the placeholder."""
    with (
        closing(VllmMachine(tmp_path_factory.mktemp("blue"), BLUE, "127.0.0.2")) as blue,
        closing(VllmMachine(tmp_path_factory.mktemp("green"), GREEN, "127.0.0.3", beside=blue)) as green,
    ):
        for name in KNOWN_NAMES:
            for turn in TURNS:
                blue.dns.write(ZONE, f"{name}-{turn}.{ZONE}.internal.", PLACEHOLDER)
        yield {BLUE: blue, GREEN: green}


@pytest.fixture(scope="module")
def start(machines: Machines) -> Iterator[Start]:
    """Starts a gateway before the machines, with further settings."""
    started: list[Gateway] = []

    def start(**settings: Any) -> Gateway:
        blue = machines[BLUE]
        started.append(Gateway(gateway_members([], ports=[blue.port]), {}, blue.ready_port, **settings))
        started[-1].zone.records = CloudDnsRecords(blue.google, ZONE)
        return started[-1]

    yield start
    for gateway in started:
        gateway.close()


@pytest.fixture(scope="module")
def empty(start: Start) -> Gateway:
    """The gateway while no machine is there."""
    return start()


@pytest.fixture(scope="module")
def starting(empty: Gateway, machines: Machines) -> Gateway:
    """The gateway while both servers begin to start."""
    assert LAB
    for machine in machines.values():
        machine.serve_with(LAB / "tiny")
        machine.start()
    for machine in machines.values():
        until(lambda machine=machine: machine.address == machine.host, within_s=PATIENCE_S)  # type: ignore[misc]
    return empty


@pytest.fixture(scope="module")
def gateway(starting: Gateway, machines: Machines) -> Gateway:
    """The gateway when both servers have served."""
    for machine in machines.values():
        machine.until(lambda machine=machine: machine.is_ready, "the server", START_LIMIT_S)  # type: ignore[misc]
    until(lambda: answering(starting) == {BLUE, GREEN})
    return starting


def answering(gateway: Gateway, times: int = 6) -> set[str]:
    """Members that answer requests which anybody may answer; `-`: nobody."""
    return {gateway.request("GET", "/v1/models")[0].headers.get("X-Member", "-") for _ in range(times)}
