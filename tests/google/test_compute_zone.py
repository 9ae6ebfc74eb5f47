"""Machines of Compute Engine: attributes change in place, whoever else writes, and a repair keeps them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.errors import GoogleError
from infra.google.compute_zone import ComputeZone, MachineGroup
from infra.google.session import GoogleSession
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import FakeTime, session
from tests.fakes.google.compute_machines import NO_STOCK
from tests.fakes.managed_group import MACHINE, OTHER_ZONE, REGION, ZONE, attributes_of, make_group

INSTANCE = f"zones/{ZONE}/instances/{MACHINE}"


@pytest.fixture
def fake() -> Iterator[FakeGoogle]:
    with FakeGoogle() as running:
        yield running


@pytest.fixture
def google(fake: FakeGoogle) -> GoogleSession:
    return session(fake, FakeTime())


class TestAMachine:
    def test_it_is_read_as_google_writes_it(self, fake: FakeGoogle, google: GoogleSession) -> None:
        make_group(google, {"gemma4-spec": "one"})
        found = ComputeZone(google, ZONE).instance(MACHINE)
        assert found is not None
        assert (found.name, found.zone, found.address) == (MACHINE, ZONE, "10.8.0.70")
        assert (found.machine_type, found.provisioning, found.running) == ("g4-standard-96", "STANDARD", True)
        assert found.metadata == {"enable-guest-attributes": "TRUE", "gemma4-spec": "one"}

    def test_one_that_is_not_there_is_none_and_not_an_error(self, google: GoogleSession) -> None:
        assert ComputeZone(google, ZONE).instance(MACHINE) is None
        assert ComputeZone(google, ZONE).metadata_of(MACHINE) is None
        assert MachineGroup(google, REGION, MACHINE).member(MACHINE) is None

    def test_its_supervisor_s_report_is_read_and_a_missing_one_is_empty(
        self, fake: FakeGoogle, google: GoogleSession
    ) -> None:
        make_group(google, {})
        zone = ComputeZone(google, ZONE)
        assert zone.guest_attributes(MACHINE, "gemma4") == {}
        fake.compute.publish(MACHINE, {"gemma4/status": "{}", "other/status": "x"})
        assert zone.guest_attributes(MACHINE, "gemma4") == {"status": "{}"}


class TestAttributes:
    def test_a_change_leaves_all_others_alone_and_the_machine_where_it_is(
        self, fake: FakeGoogle, google: GoogleSession
    ) -> None:
        make_group(google, {"gemma4-spec": "one"})
        before = ComputeZone(google, ZONE).instance(MACHINE)
        ComputeZone(google, ZONE).set_metadata(MACHINE, {"gemma4-spec": "two"})
        after = ComputeZone(google, ZONE).instance(MACHINE)
        assert attributes_of(fake) == {"enable-guest-attributes": "TRUE", "gemma4-spec": "two"}
        assert before is not None
        assert after is not None
        assert before.id == after.id

    def test_equal_values_are_not_written_again(self, fake: FakeGoogle, google: GoogleSession) -> None:
        make_group(google, {"gemma4-spec": "one"})
        ComputeZone(google, ZONE).set_metadata(MACHINE, {"gemma4-spec": "one"})
        assert fake.sent("POST", "setMetadata") == []

    def test_somebody_s_change_in_between_is_kept(self, fake: FakeGoogle, google: GoogleSession) -> None:
        make_group(google, {"gemma4-spec": "one"})
        fake.fault("POST", "setMetadata", status=412, times=1)
        ComputeZone(google, ZONE).set_metadata(MACHINE, {"gemma4-spec": "two"})
        assert attributes_of(fake)["gemma4-spec"] == "two"
        assert len(fake.sent("POST", "setMetadata")) == 2

    def test_a_change_whose_answer_was_lost_is_found_done(self, fake: FakeGoogle, google: GoogleSession) -> None:
        make_group(google, {"gemma4-spec": "one"})
        fake.fault("POST", "setMetadata", drop="after", times=1)
        ComputeZone(google, ZONE).set_metadata(MACHINE, {"gemma4-spec": "two"})
        assert attributes_of(fake)["gemma4-spec"] == "two"
        assert len(fake.sent("POST", "setMetadata")) == 1

    def test_a_machine_that_is_gone_is_one_clean_error(self, google: GoogleSession) -> None:
        with pytest.raises(GoogleError, match=f"{MACHINE} in {ZONE} is gone"):
            ComputeZone(google, ZONE).set_metadata(MACHINE, {"gemma4-spec": "two"})


class TestAMemberOfAGroup:
    def test_a_machine_that_is_made_anew_has_the_changed_attributes(
        self, fake: FakeGoogle, google: GoogleSession
    ) -> None:
        make_group(google, {"gemma4-spec": "one", "gemma4-member": "blue"})
        zone = ComputeZone(google, ZONE, group=MACHINE)
        before = zone.instance(MACHINE)
        zone.set_metadata(MACHINE, {"gemma4-spec": "two"})
        fake.compute.repair(MACHINE)
        after = zone.instance(MACHINE)
        assert before is not None
        assert after is not None
        assert after.id != before.id
        assert after.address == before.address
        assert after.metadata == {**before.metadata, "gemma4-spec": "two"}

    def test_the_group_says_why_it_cannot_make_one(self, fake: FakeGoogle, google: GoogleSession) -> None:
        fake.compute.stock = {ZONE: 0, OTHER_ZONE: 0}
        make_group(google, {}, zones=(ZONE, OTHER_ZONE))
        waiting = MachineGroup(google, REGION, MACHINE).member(MACHINE)
        assert waiting is not None
        assert (waiting.status, waiting.action) == ("", "CREATING")
        assert NO_STOCK["code"] in waiting.error
        fake.compute.restock(OTHER_ZONE)
        there = MachineGroup(google, REGION, MACHINE).member(MACHINE)
        assert there is not None
        assert (there.zone, there.status, there.health, there.error) == (OTHER_ZONE, "RUNNING", "HEALTHY", "")
