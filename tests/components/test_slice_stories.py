"""Lives of a slice: its machine comes, is late, moves, is renewed, renamed, given back. In all of them the gateway stays.

The providers run under the smallest engine against the fake Google, where supervisors put their addresses into the zone. What
the gateway would be asked for is the real program's own. tests/engine/test_tpu_renewal_engine.py tells some of them again on
the real engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pulumi.dynamic import CreateResult, DiffResult, ResourceProvider, UpdateResult

from infra.google.gcp_settings import Api
from infra.google.slice_records import Ticket
from infra.planning.gateway.members import DRAIN
from infra.providers.machine_drain import FOLLOWED_S, UNFOLLOWED_S
from tests.components.test_tpu_program import only, run, shipped
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import session
from tests.fakes.mini_engine import Declared, MiniEngine, Outputs
from tests.fakes.slice_stack import NAME, SLICE, Clock, SliceStack
from tests.fakes.supervisors import Supervisors

OTHER = f"{SLICE}-b"


class MemberCheck(ResourceProvider):
    """A serving check: passes where the record of the machine that it is told has the address of that machine."""

    def __init__(self, supervisors: Supervisors) -> None:
        self.supervisors = supervisors
        self.broken = False

    def create(self, props: dict[str, Any]) -> CreateResult:
        self._check(props)
        return CreateResult("check", props)

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        return DiffResult(changes=olds != news)

    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        self._check(news)
        return UpdateResult(news)

    def _check(self, props: dict[str, Any]) -> None:
        self.supervisors.look()  # a supervisor is faster than a server that loads
        if props["instance"]:
            assert props["member"] in self.supervisors.addresses()
        if self.broken:
            raise RuntimeError("stage chat")


class Story:
    """A stack's slices by name, and what its supervisors tell."""

    def __init__(self, fake: FakeGoogle) -> None:
        self.fake, self.clock, self.engine = fake, Clock(), MiniEngine()
        self.supervisors = Supervisors(fake)
        self.clock.always.append(self.supervisors.look)
        self.check = MemberCheck(self.supervisors)
        self.slices = {"blue": SliceStack(fake, self.clock)}
        body = {"name": "gemma4-v6e4", "dnsName": "gemma4-v6e4.internal.", "visibility": "private"}
        session(fake).post(Api.DNS, "projects/demo-project/managedZones", body)

    def up(self, *, renew: str = "") -> list[str]:
        self.engine.up(self._program(), replace=[f"{renew}-queue"] if renew else [])
        return self.engine.done

    def machines(self) -> list[str]:
        return [name.rsplit("/", 1)[-1] for name in self.fake.tpu.nodes]

    def _program(self) -> list[Declared]:
        program = []
        for name, one in self.slices.items():
            program += [self._named(name, declared) for declared in one.program()]
            program.append(self._named(name, Declared("check", self.check, _check_inputs)))
        return program

    @staticmethod
    def _named(name: str, declared: Declared) -> Declared:
        def inputs(outputs: Outputs) -> Any:
            return declared.inputs(lambda resource, key: outputs(f"{name}-{resource}", key))

        return Declared(f"{name}-{declared.name}", declared.provider, inputs)


def _check_inputs(outputs: Outputs) -> dict[str, Any]:
    return {"member": outputs("node", "member"), "instance": outputs("node", "instance")}


@pytest.fixture
def story() -> Iterator[Story]:
    """Destroyed in the end, however far it came, and then the fake must hold nothing but the zone."""
    with FakeGoogle() as fake:
        told = Story(fake)
        yield told
        fake.tpu.configure(stop_at="", pace=1)
        told.engine.destroy()
        assert [left for left in fake.leftovers() if not left.startswith("dns/")] == []


def wait_in_vain(story: Story, **renew: str) -> None:
    story.fake.tpu.configure(stop_at="WAITING_FOR_RESOURCES")
    with pytest.raises(Exception, match="No capacity"):
        story.up(**renew)


class TestALateGrant:
    def test_serves_without_another_up(self, story: Story) -> None:
        wait_in_vain(story)
        assert story.supervisors.addresses() == {}
        story.fake.tpu.advance(NAME, to="ACTIVE")
        story.supervisors.look()
        assert list(story.supervisors.addresses()) == ["blue-a"]
        assert story.up() == ["create blue-node", "create blue-spec", "create blue-check"]
        assert story.up() == []

    def test_that_nobody_waited_for_goes_with_destroy(self, story: Story) -> None:
        wait_in_vain(story)
        story.fake.tpu.advance(NAME, to="ACTIVE")
        story.engine.destroy()
        assert story.machines() == []


class TestARenewal:
    def test_drains_the_old_one_when_the_new_one_has_passed_its_check(self, story: Story) -> None:
        story.up()
        done = story.up(renew="blue")
        assert done == [
            "replace blue-queue",
            "update blue-node",
            "update blue-spec",
            "update blue-check",
            "delete blue-queue",
        ]
        assert story.supervisors.told == ["blue-a serving", "blue-b serving", "blue-a drained"]
        assert (story.machines(), list(story.supervisors.addresses())) == ([OTHER], ["blue-b"])
        assert story.up() == []

    def test_takes_the_first_name_again_the_next_time(self, story: Story) -> None:
        story.up()
        for machine in (OTHER, NAME, OTHER):
            story.up(renew="blue")
            assert story.machines() == [machine]

    def test_without_capacity_keeps_the_old_one_and_asks_once(self, story: Story) -> None:
        story.up()
        wait_in_vain(story, renew="blue")
        wait_in_vain(story)
        assert (story.fake.tpu.created, list(story.supervisors.addresses())) == (2, ["blue-a"])
        story.fake.tpu.configure(stop_at="")
        assert story.up()[-1] == "delete blue-queue"
        assert (story.fake.tpu.created, story.machines()) == (2, [OTHER])

    def test_whose_check_fails_keeps_the_old_one(self, story: Story) -> None:
        story.up()
        story.check.broken = True
        for renew in ("blue", ""):
            with pytest.raises(RuntimeError, match="stage chat"):
                story.up(renew=renew)
        assert sorted(story.supervisors.addresses()) == ["blue-a", "blue-b"]
        assert "blue-a drained" not in story.supervisors.told
        story.check.broken = False
        assert story.up() == ["update blue-check", "delete blue-queue"]
        assert story.machines() == [OTHER]

    def test_of_a_further_slice_is_no_mere_warning_while_the_old_one_serves(self, story: Story) -> None:
        story.slices["green"] = SliceStack(story.fake, story.clock, "green")
        story.up()
        story.up()
        wait_in_vain(story, renew="green")
        assert sorted(story.supervisors.addresses()) == ["blue-a", "green-a"]

    def test_waits_for_what_the_old_one_answers_but_not_for_ever(self, story: Story) -> None:
        story.up()
        story.supervisors.answering.add("blue-a")
        began = story.clock.now
        story.up(renew="blue")
        assert FOLLOWED_S - 60 < story.clock.now - began < FOLLOWED_S + 60
        assert story.machines() == [OTHER]

    def test_does_not_wait_for_a_machine_that_is_dead(self, story: Story) -> None:
        story.up()
        story.supervisors.silent.add("blue-a")
        story.clock.now += 600
        began = story.clock.now
        story.up(renew="blue")
        assert story.clock.now - began < 60
        assert story.machines() == [OTHER]


class TestAMove:
    def test_to_another_zone_keeps_the_old_machine_until_the_new_one_serves(self, story: Story) -> None:
        story.up()
        story.slices["blue"].inputs["zone"] = "us-east5-b"
        wait_in_vain(story)
        assert list(story.supervisors.addresses()) == ["blue-a"]
        story.fake.tpu.configure(stop_at="")
        assert story.up()[-1] == "delete blue-queue"
        assert [name.split("/")[3] for name in story.fake.tpu.nodes] == ["us-east5-b"]


class TestARename:
    def test_keeps_the_old_machine_until_the_new_one_serves(self, story: Story) -> None:
        story.up()
        story.slices = {"green": SliceStack(story.fake, story.clock, "green")}
        story.slices["green"].behind = ""  # the first one now
        done = story.up()
        assert done.index("create green-check") < done.index("delete blue-queue")
        assert story.supervisors.told == ["blue-a serving", "green-a serving", "blue-a drained"]


class TestAPause:
    def test_gives_the_machine_back_and_a_resume_brings_the_name_back(self, story: Story) -> None:
        story.up()
        blue = story.slices.pop("blue")
        story.up()
        assert (story.machines(), story.supervisors.addresses()) == ([], {})
        story.slices["blue"] = blue
        story.up()
        assert list(story.supervisors.addresses()) == ["blue-a"]


class TestADestroy:
    def test_asks_a_machine_to_finish_and_waits_a_minute_at_most(self, story: Story) -> None:
        story.up()
        story.supervisors.answering.add("blue-a")
        began = story.clock.now
        story.slices["blue"].destroy()  # notes that a destroy runs no program
        story.engine.destroy()
        assert story.clock.now - began < UNFOLLOWED_S + 30
        assert "blue-a draining" in story.supervisors.told

    def test_in_the_middle_of_a_renewal_leaves_nothing(self, story: Story) -> None:
        story.up()
        wait_in_vain(story, renew="blue")
        story.engine.destroy()
        assert (story.machines(), story.fake.tpu.resources) == ([], {})

    def test_asks_nothing_of_a_machine_whose_server_never_came_up(self, story: Story) -> None:
        story.up()
        story.supervisors.silent.add("blue-a")
        story.clock.now += 600
        sent = len(story.fake.sent("PATCH", "/nodes/"))
        story.engine.destroy()
        assert len(story.fake.sent("PATCH", "/nodes/")) == sent


def test_a_machine_carries_the_ticket_and_the_names_of_its_turn(story: Story) -> None:
    story.up()
    story.up(renew="blue")
    (record,) = story.fake.tpu.resources.values()
    asked = record["tpu"]["nodeSpec"][0]["node"]
    outputs = story.engine.state["blue-queue"].outputs
    assert asked["labels"]["ticket"] == Ticket.of(outputs).number
    assert json.loads(asked["metadata"]["gemma4-member"])["record"] == "blue-b.gemma4-v6e4.internal."
    assert DRAIN not in asked["metadata"]


@pytest.mark.parametrize(
    "settings",
    [
        {"tpu": {"slices": ["green"]}},
        {"tpu": {"slices": ["blue", "green"]}},
        {"tpu": {"slices": []}},
        {"tpu": {"zone": "us-east5-b"}},
        {"tpu": {"zone": "europe-west4-a"}, "region": "us-east5"},
        {"tpu": {"provisioning": "spot"}},
        {"tpu": {"maxRunDuration": "7d"}},
        {"paused": True},
        {"serving": {"maxNumSeqs": 8}},
    ],
    ids=["renamed", "one more", "none", "zone", "zone elsewhere", "spot", "duration", "paused", "flag"],
)
def test_the_gateway_is_the_same_in_all_of_them(settings: dict[str, Any]) -> None:
    assert only(run(**settings), "Service", "gateway").inputs == only(shipped("v6e4"), "Service", "gateway").inputs
