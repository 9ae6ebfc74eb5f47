"""A machine of a managed group as Pulumi sees it: waited for, found again after a repair, changed in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import pytest

from infra.google.session import GoogleSession
from infra.providers.base import Provider
from infra.providers.capacity_wait import ACTIVE, WAITING
from infra.providers.compute_machine import ComputeMachineProvider
from infra.providers.serving_spec import COMPUTE, ServingSpecProvider
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import session
from tests.fakes.managed_group import MACHINE, OTHER_ZONE, REGION, ZONE, attributes_of, make_group
from tests.fakes.slice_stack import Clock

SECOND = "gemma4-g4x2-green"
P = TypeVar("P", bound=Provider)
WAIT: dict[str, Any] = {
    "project": "demo-project",
    "region": REGION,
    "group": MACHINE,
    "machine": MACHINE,
    "generation": "1",
    "metadata": {},
    "timeout_s": 600.0,
    "behind": "",
}


@pytest.fixture
def fake() -> Iterator[FakeGoogle]:
    with FakeGoogle() as running:
        yield running


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def google(fake: FakeGoogle, clock: Clock) -> GoogleSession:
    return session(fake, clock)


@pytest.fixture
def machines(google: GoogleSession) -> ComputeMachineProvider:
    return on(google, ComputeMachineProvider())


@pytest.fixture
def specs(google: GoogleSession) -> ServingSpecProvider:
    return on(google, ServingSpecProvider())


def on(google: GoogleSession, provider: P) -> P:
    provider.session = lambda: google  # type: ignore[method-assign]
    return provider


class TestTheWait:
    def test_a_machine_that_runs_is_found_with_its_zone(
        self, machines: ComputeMachineProvider, google: GoogleSession, clock: Clock
    ) -> None:
        make_group(google, {})
        found = machines.create(WAIT).outs
        assert found is not None
        assert (found["state"], found["zone"], found["address"]) == (ACTIVE, ZONE, "10.8.0.70")
        assert found["instance"]
        assert clock.pauses == []
        assert not machines.diff(MACHINE, found, WAIT).changes

    def test_stock_that_comes_while_it_waits_is_used(
        self, machines: ComputeMachineProvider, google: GoogleSession, fake: FakeGoogle, clock: Clock
    ) -> None:
        fake.compute.stock = {ZONE: 0, OTHER_ZONE: 0}
        make_group(google, {}, zones=(ZONE, OTHER_ZONE))
        clock.at(100, lambda: fake.compute.restock(OTHER_ZONE))
        found = machines.create(WAIT).outs
        assert found is not None
        assert found["zone"] == OTHER_ZONE

    def test_without_stock_it_ends_in_time_says_why_and_keeps_the_request(
        self, machines: ComputeMachineProvider, google: GoogleSession, fake: FakeGoogle, clock: Clock
    ) -> None:
        fake.compute.stock = {ZONE: 0}
        make_group(google, {})
        with pytest.raises(Exception, match=r"ZONE_RESOURCE_POOL_EXHAUSTED.*serves by itself once there is capacity"):
            machines.create(WAIT)
        assert sum(clock.pauses) <= WAIT["timeout_s"]
        assert fake.sent("DELETE", "") == []
        fake.compute.restock(ZONE)
        assert (machines.create(WAIT).outs or {})["state"] == ACTIVE

    def test_a_further_machine_is_not_waited_for_once_the_first_runs(
        self,
        machines: ComputeMachineProvider,
        google: GoogleSession,
        fake: FakeGoogle,
        clock: Clock,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        make_group(google, {})
        fake.compute.stock = {ZONE: 0}
        make_group(google, {}, name=SECOND)
        further = {**WAIT, "group": SECOND, "machine": SECOND, "behind": MACHINE}
        found = machines.create(further).outs
        assert found is not None
        assert (found["state"], found["instance"], found["zone"]) == (WAITING, "", "")
        assert clock.pauses == []
        assert f"no machine {SECOND}" in capsys.readouterr().out
        assert machines.diff(SECOND, found, further).changes, "the next up goes on waiting"

    def test_a_refresh_finds_a_late_machine_and_one_that_was_made_anew(
        self, machines: ComputeMachineProvider, google: GoogleSession, fake: FakeGoogle
    ) -> None:
        fake.compute.stock = {ZONE: 0}
        make_group(google, {})
        blank = {"state": WAITING, "zone": "", "address": "", "instance": ""}
        assert (machines.read(MACHINE, {**WAIT, **blank}).outs or {})["state"] == WAITING
        fake.compute.restock(ZONE)
        late = machines.read(MACHINE, {**WAIT, **blank}).outs or {}
        assert (late["state"], late["zone"]) == (ACTIVE, ZONE)
        fake.compute.repair(MACHINE)
        anew = machines.read(MACHINE, late).outs or {}
        assert anew["state"] == ACTIVE
        assert anew["instance"] != late["instance"]

    def test_a_refresh_without_an_answer_keeps_what_was_known(
        self, machines: ComputeMachineProvider, fake: FakeGoogle
    ) -> None:
        known = {**WAIT, "state": ACTIVE, "zone": ZONE, "address": "10.8.0.70", "instance": "7"}
        fake.fault("POST", "listManagedInstances", status=403, times=1)
        assert machines.read(MACHINE, known).outs == known


class TestTheSpecification:
    def props(self, google: GoogleSession, **metadata: str) -> dict[str, Any]:
        return {
            "project": "demo-project",
            "zone": ZONE,
            "node_id": MACHINE,
            "instance": "1",
            "metadata": {"gemma4-spec": "one", **metadata},
            "product": COMPUTE,
            "group": MACHINE,
        }

    def test_a_machine_that_was_made_with_it_is_left_alone(
        self, specs: ServingSpecProvider, google: GoogleSession, fake: FakeGoogle
    ) -> None:
        props = self.props(google)
        make_group(google, props["metadata"])
        created = specs.create(props).outs
        assert fake.sent("POST", "setMetadata") == []
        assert not specs.diff("spec", created or {}, props).changes

    def test_a_change_reaches_machine_and_group_and_remembers_what_it_replaced(
        self, specs: ServingSpecProvider, google: GoogleSession, fake: FakeGoogle
    ) -> None:
        props = self.props(google)
        make_group(google, props["metadata"])
        first = specs.create(props).outs or {}
        changed = {**props, "metadata": {"gemma4-spec": "two"}}
        assert specs.diff("spec", first, changed).changes
        second = specs.update("spec", first, changed).outs or {}
        assert attributes_of(fake)["gemma4-spec"] == "two"
        assert second["previous"] == {"gemma4-spec": "one"}
        fake.compute.repair(MACHINE)
        assert attributes_of(fake)["gemma4-spec"] == "two"

    def test_what_somebody_changed_by_hand_is_seen_by_a_refresh_and_put_right(
        self, specs: ServingSpecProvider, google: GoogleSession, fake: FakeGoogle
    ) -> None:
        props = self.props(google)
        make_group(google, {"gemma4-spec": "by hand"})
        applied = {**props, **(specs.create(props).outs or {})}
        fake.compute.resources[f"projects/demo-project/zones/{ZONE}/instances/{MACHINE}"]["metadata"]["items"] = []
        seen = specs.read("spec", applied).outs or {}
        assert specs.diff("spec", seen, props).changes
        specs.update("spec", seen, props)
        assert attributes_of(fake)["gemma4-spec"] == "one"

    def test_without_a_machine_it_is_not_written_anywhere(
        self, specs: ServingSpecProvider, google: GoogleSession, fake: FakeGoogle
    ) -> None:
        waiting = {**self.props(google), "zone": "", "instance": ""}
        made = specs.create(waiting).outs or {}
        assert made["applied"] == ""
        assert specs.read("spec", made).outs == made
        assert fake.requests == []
