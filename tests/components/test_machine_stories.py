"""Ends of a machine of Compute Engine: whatever deletes it lets it finish its requests first, for a limited time.

The providers run under the smallest engine against the fake Google, as in test_slice_stories.py.
tests/engine/test_compute_engine_life.py tells a zone move again on the real engine, with the real gcp provider.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from infra.google.gcp_settings import Api
from infra.providers.machine_drain import UNFOLLOWED_S
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import session
from tests.fakes.machine_stack import PREFIX, MachineStack
from tests.fakes.managed_group import OTHER_ZONE, ZONE, attributes_of
from tests.fakes.mini_engine import MiniEngine
from tests.fakes.slice_stack import Clock
from tests.fakes.supervisors import Supervisors

BLUE = f"{PREFIX}-blue"


class Story:
    """A stack's machines, and what their supervisors tell."""

    def __init__(self, fake: FakeGoogle) -> None:
        self.fake, self.clock, self.engine = fake, Clock(), MiniEngine()
        self.stack = MachineStack(fake, self.clock)
        self.supervisors = Supervisors(fake)
        self.clock.always.append(self.supervisors.look)
        body = {"name": PREFIX, "dnsName": f"{PREFIX}.internal.", "visibility": "private"}
        session(fake).post(Api.DNS, "projects/demo-project/managedZones", body)

    def up(self) -> list[str]:
        """The steps. A pause of an hour is between two of them, in which supervisors report."""
        self.clock.now += 3600
        self.supervisors.look()
        self.engine.up(self.stack.program())
        self.supervisors.look()
        return self.engine.done

    def machines(self) -> list[str]:
        """Zones and names."""
        names = [full.split("/") for full in self.fake.compute.resources if "/instances/" in full]
        return [f"{parts[3]} {parts[5]}" for parts in names]

    def asked(self) -> list[str]:
        """What was asked of machines and groups since the last `clear`, in short."""
        verbs = ("setMetadata", "deleteInstances", "createInstances", "instanceGroupManagers")
        writes = [one for one in self.fake.requests if one.method in ("POST", "DELETE")]
        paths = [(one.method, one.path.rsplit("/", 1)[-1], one.path) for one in writes]
        return [
            "delete group" if method == "DELETE" else last
            for method, last, path in paths
            if last in verbs or (method == "DELETE" and "/instanceGroupManagers/" in path)
        ]


@pytest.fixture
def story() -> Iterator[Story]:
    with FakeGoogle() as fake:
        told = Story(fake)
        told.up()
        assert told.supervisors.told == ["blue serving"]
        fake.requests.clear()
        yield told
        told.engine.destroy()
        assert told.machines() == []


def pause(story: Story) -> None:
    story.stack.paused = True


def rename(story: Story) -> None:
    story.stack.names = ["green"]


def move(story: Story) -> None:
    story.stack.zones = [OTHER_ZONE]


ENDS: dict[str, Any] = {"a pause": pause, "a rename": rename, "another zone": move}


def interrupted() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
class TestAMachineThatEnds:
    def test_finishes_what_it_answers_before_anything_of_it_is_deleted(self, story: Story, end: Any) -> None:
        end(story)
        story.up()
        assert "blue drained" in story.supervisors.told
        asked = story.asked()
        drained, deleted = asked.index("setMetadata"), asked.index("deleteInstances")
        assert drained < deleted
        assert "delete group" not in asked[:deleted]
        assert f"{ZONE} {BLUE}" not in story.machines()

    def test_is_waited_for_until_its_requests_are_answered(self, story: Story, end: Any) -> None:
        story.supervisors.answering.add("blue")
        end(story)
        story.clock.at(3600 + 30, lambda: story.supervisors.answering.clear())
        began = story.clock.now
        story.up()
        assert 30 <= story.clock.now - began - 3600 < UNFOLLOWED_S
        assert story.supervisors.told.index("blue drained") > story.supervisors.told.index("blue draining")

    def test_is_not_waited_for_longer_than_the_bound(self, story: Story, end: Any) -> None:
        story.supervisors.answering.add("blue")
        end(story)
        began = story.clock.now
        story.up()
        assert UNFOLLOWED_S - 10 < story.clock.now - began - 3600 < UNFOLLOWED_S + 30
        assert f"{ZONE} {BLUE}" not in story.machines()

    def test_of_which_one_server_starts_lets_the_others_finish(self, story: Story, end: Any) -> None:
        story.supervisors.half.add("blue")
        end(story)
        story.up()
        assert "blue drained" in story.supervisors.told
        asked = story.asked()
        assert asked.index("setMetadata") < asked.index("deleteInstances")

    def test_whose_supervisor_is_dead_is_deleted_at_once(self, story: Story, end: Any) -> None:
        story.supervisors.silent.add("blue")
        end(story)
        began = story.clock.now
        story.up()
        assert story.clock.now - began - 3600 < 30
        assert "setMetadata" not in story.asked()
        assert f"{ZONE} {BLUE}" not in story.machines()

    def test_that_cannot_be_told_is_deleted_all_the_same(self, story: Story, end: Any) -> None:
        story.fake.fault("POST", f"{BLUE}/setMetadata", status=403, times=1)
        end(story)
        story.up()
        assert f"{ZONE} {BLUE}" not in story.machines()


class TestADestroy:
    def test_drains_first_and_leaves_nothing(self, story: Story) -> None:
        story.clock.now += 60
        story.supervisors.look()
        story.engine.destroy()
        assert story.asked() == ["setMetadata", "deleteInstances", "delete group"]
        assert story.machines() == []

    def test_of_a_machine_that_is_gone_waits_for_nothing(self, story: Story) -> None:
        story.fake.compute.stock[ZONE] = 0
        story.fake.compute.take_back(BLUE)
        story.fake.compute.members[next(iter(story.fake.compute.members))][BLUE].pop("zone")
        began = story.clock.now
        story.engine.destroy()
        assert (story.clock.now - began, story.asked()) == (0, ["deleteInstances", "delete group"])

    def test_that_was_interrupted_while_a_machine_drained_goes_on(self, story: Story) -> None:
        story.supervisors.answering.add("blue")
        story.clock.at(20, interrupted)
        with pytest.raises(KeyboardInterrupt):
            story.engine.destroy()
        assert story.machines() == [f"{ZONE} {BLUE}"]
        story.supervisors.answering.clear()
        story.supervisors.look()
        began = story.clock.now
        story.engine.destroy()
        assert story.machines() == []
        assert story.clock.now - began < 30

    def test_that_was_given_up_lets_the_machine_serve_again(self, story: Story) -> None:
        story.supervisors.answering.add("blue")
        story.clock.at(20, interrupted)
        with pytest.raises(KeyboardInterrupt):
            story.engine.destroy()
        assert attributes_of(story.fake)["gemma4-drain"] == "true"
        story.up()
        assert "gemma4-drain" not in attributes_of(story.fake)
        assert story.up() == []


class TestAMove:
    def test_that_was_interrupted_and_taken_back_lets_the_machine_serve_again(self, story: Story) -> None:
        story.supervisors.answering.add("blue")
        move(story)
        story.clock.at(3600 + 20, interrupted)
        with pytest.raises(KeyboardInterrupt):
            story.up()
        assert attributes_of(story.fake)["gemma4-drain"] == "true"
        story.stack.zones = [ZONE]
        assert story.up() == ["update blue-spec"]
        assert "gemma4-drain" not in attributes_of(story.fake)
        assert story.machines() == [f"{ZONE} {BLUE}"]


class TestAMachineThatIsMadeAnew:
    def test_in_another_zone_starts_with_the_present_attributes(self, story: Story) -> None:
        story.stack.spec = "two"
        story.up()
        story.stack.spec = "three"
        move(story)
        story.fake.requests.clear()
        done = story.up()
        assert done == [
            "delete blue-machine",
            "delete blue-member",
            "delete blue-group",
            "replace blue-group",
            "create blue-member",
            "create blue-machine",
            "update blue-spec",
        ]
        assert attributes_of(story.fake, OTHER_ZONE)["gemma4-spec"] == "three"
        story.fake.compute.repair(BLUE)
        assert attributes_of(story.fake, OTHER_ZONE)["gemma4-spec"] == "three"

    def test_and_waits_for_capacity_starts_with_what_is_asked_for_meanwhile(self, story: Story) -> None:
        move(story)
        story.fake.compute.stock = {OTHER_ZONE: 0}
        for spec in ("two", "three"):
            story.stack.spec = spec
            with pytest.raises(Exception, match="There is no machine"):
                story.up()
        story.fake.compute.restock(OTHER_ZONE)
        assert attributes_of(story.fake, OTHER_ZONE)["gemma4-spec"] == "three"
        story.supervisors.look()
        assert story.up() == ["create blue-machine", "update blue-spec"]
        assert story.up() == []

    def test_behind_a_first_one_that_serves_starts_with_it_as_well(self, story: Story) -> None:
        story.fake.compute.stock = {ZONE: 0}
        story.stack.names = ["blue", "green"]
        story.up()
        story.stack.spec = "two"
        story.up()
        story.fake.compute.restock(ZONE)
        assert attributes_of(story.fake, ZONE, f"{PREFIX}-green")["gemma4-spec"] == "two"

    def test_under_another_name_and_in_another_zone_serves_before_the_old_one_is_drained(self, story: Story) -> None:
        rename(story)
        move(story)
        done = story.up()
        assert done.index("create green-spec") < done.index("delete blue-machine")
        asked = story.asked()
        assert asked.index("createInstances") < asked.index("setMetadata") < asked.index("deleteInstances")
        assert "blue drained" in story.supervisors.told
        assert story.machines() == [f"{OTHER_ZONE} {PREFIX}-green"]

    def test_is_not_drained(self, story: Story) -> None:
        move(story)
        story.up()
        assert "gemma4-drain" not in attributes_of(story.fake, OTHER_ZONE)
        story.fake.compute.repair(BLUE)
        assert "gemma4-drain" not in attributes_of(story.fake, OTHER_ZONE)
