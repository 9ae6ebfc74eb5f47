"""`gemma4 renew` against the fake Google and a Pulumi CLI that notes what it is asked: what it decides, says and runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from infra.errors import Gemma4Error
from infra.google.session import GoogleSession
from infra.google.times import moment
from infra.ops.changing.renew import renew_answer
from infra.ops.google_access import stack_session
from infra.ops.mcp_server.confirmation import previewed_or_done
from infra.ops.mcp_server.tools import TOOLS
from infra.ops.running.platform_operations import PlatformOperations
from infra.ops.tpu.slice_operations import OPERATIONS
from infra.planning.settings.stackfile import StackFile
from tests.fakes.google.client import session
from tests.fakes.google.queued_slice import queue_slice
from tests.fakes.operated_stack import OperatedStack, operated_stack
from tests.projects import Capture, Command, assert_has_its_form, command

TYPE = "gemma4:components:TpuSlice$pulumi-python:dynamic/gemma4:TpuQueuedResource"
LOCKED = (
    "error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end or delete the lock "
    "file with `pulumi cancel`."
)
"""What Pulumi 3.250 wrote to standard error with a state in a folder, 2026-11-22."""


@pytest.fixture
def v6e4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatedStack]:
    with operated_stack(tmp_path, monkeypatch, "v6e4", {"tpu": {"slices": ["blue", "green"]}}) as stack:
        stack.google.tpu.configure(pace=None, deletion_looks=0)
        notes_what_it_is_asked(tmp_path)
        yield stack


@pytest.fixture
def gemma4(capsys: Capture) -> Command:
    return command(capsys)


def notes_what_it_is_asked(folder: Path, fails: str = "") -> None:
    """Let the CLI export the state, and else note its words; `fails` is what it says then before it ends with 1."""
    log = folder / "asked"
    log.touch()
    (folder / "says").write_text(fails)
    end = f"cat {folder}/says >&2; exit 1" if fails else "exit 0"
    words = f'case "$1" in stack) exec cat {folder}/state.json;; *) echo "$*" >>{log}; {end};; esac'
    (folder / "bin" / "pulumi").write_text(f"#!/bin/sh\n{words}\n")


def asked(stack: OperatedStack) -> list[str]:
    return (stack.folder / "asked").read_text().splitlines()


def serve(
    stack: OperatedStack, host: str, *, left_s: float, leaving: bool = False, held: bool = True, ticket: str = ""
) -> None:
    """Let a slice serve, asked for ten minutes ago, and the state hold it if it is to be `held`."""
    name = queue(stack, host, ticket)
    stack.google.tpu.resources[name]["createTime"] = moment(time.time() - 600)
    stack.google.tpu.advance(name, to="ACTIVE")
    node = stack.google.tpu.nodes[name.replace("/queuedResources/", "/nodes/")]
    node["schedulingConfig"] = {"terminationTimestamp": moment(time.time() + left_s)}
    said = {"at": moment(time.time()), "stage": "serving", "running": stack.plan.command.spec_hash, "errors": []}
    stack.google.tpu.set_guest_attributes(f"gemma4-v6e4-{host}", {"gemma4/status": json.dumps(said)})
    if held:
        hold(stack, host, leaving=leaving, ticket=ticket)


def queue(stack: OperatedStack, host: str, ticket: str = "") -> str:
    labels = {"app": "gemma4", "stack": "v6e4", "slice": host.split("-")[0]} | ({"ticket": ticket} if ticket else {})
    return queue_slice(session(stack.google), f"gemma4-v6e4-{host}", labels=labels)


def hold(stack: OperatedStack, host: str, *, leaving: bool = False, ticket: str = "") -> None:
    """Let the state hold the request for a slice."""
    name = host.split("-")[0]
    outputs = {"labels": {"slice": name}, "queued_id": f"gemma4-v6e4-{host}", "ticket": ticket}
    record = {"type": TYPE.rpartition("$")[2], "urn": urn(name), "outputs": outputs, "delete": leaving}
    stack.checks.append(record)
    stack.save()


def urn(name: str) -> str:
    return f"urn:pulumi:v6e4::gemma4::{TYPE}::slice-{name}-queue"


def both(stack: OperatedStack, *left_s: float) -> None:
    for host, left in zip(("blue-a", "green-a"), left_s, strict=True):
        serve(stack, host, left_s=left)


def renewed(names: Sequence[str]) -> str:
    return f"up --stack v6e4 --yes --skip-preview {' '.join(f'--replace {urn(name)}' for name in names)}"


class TestNothingIsDue:
    def test_it_says_when_and_runs_nothing(self, v6e4: OperatedStack, gemma4: Command) -> None:
        both(v6e4, 80_000, 70_000)
        answer = gemma4("renew", "v6e4", "--yes")
        assert answer.code == 0, answer.err
        assert "v6e4: nothing is due; the next renewal is due 20" in answer.out
        data = gemma4("renew", "v6e4", "--yes", "--json").data
        assert (data["action"], data["done"], data["commands"], asked(v6e4)) == ("nothing", False, [], [])
        assert [(one["host"], one["phase"]) for one in data["machines"]] == [
            ("blue-a", "serves"),
            ("green-a", "serves"),
        ]
        lead = data["queueS"] + data["startS"] + data["marginS"]
        assert (data["queueS"], data["startS"]) == (1200, v6e4.plan.startup.extremes.high)
        assert data["dueAt"] in {moment(time.time() + 70_000 - lead + shift) for shift in range(-20, 2)}

    @pytest.mark.parametrize("settings", [{"paused": True}, {"tpu": {"provisioning": "on-demand"}}])
    def test_of_a_stack_that_is_paused_or_does_not_end_nobody_is_asked(
        self, v6e4: OperatedStack, gemma4: Command, settings: dict[str, Any]
    ) -> None:
        v6e4.write(settings)
        answer = gemma4("renew", "v6e4", "--yes")
        assert (answer.code, asked(v6e4), v6e4.google.sent("GET", "queuedResources")) == (0, [], [])
        assert "so there is nothing to renew" in " ".join(answer.out.split())


class TestASliceThatEndsSoon:
    def test_is_replaced_alone_by_its_address_in_the_state(self, v6e4: OperatedStack, gemma4: Command) -> None:
        both(v6e4, 7000, 6500)
        answer = gemma4("renew", "v6e4", "--yes")
        assert answer.code == 0, answer.err
        assert asked(v6e4) == [renewed(["green"])]
        assert "green must be renewed now" in answer.out
        assert "need quota: 12 chips in us-east5-a, 12 chips in us-east5" in " ".join(answer.out.split())

    def test_is_replaced_together_with_another_that_could_not_wait_for_it(self, v6e4: OperatedStack) -> None:
        both(v6e4, 1500, 1000)
        renew_answer("v6e4", yes=True)
        assert asked(v6e4) == [renewed(["green", "blue"])]

    @pytest.mark.parametrize("words", [["--dry-run"], ["--json"]])
    def test_is_only_told_of_where_nothing_may_be_done(
        self, v6e4: OperatedStack, gemma4: Command, words: list[str]
    ) -> None:
        both(v6e4, 6000, 80_000)
        answer = gemma4("renew", "v6e4", *words)
        assert (answer.code, asked(v6e4)) == (0, [])
        assert f"pulumi {renewed(['blue'])}" in " ".join(answer.out.split()).replace("'", "")
        if words == ["--json"]:
            assert_has_its_form(["renew", "v6e4", *words], answer.out)

    def test_is_not_replaced_where_nobody_can_be_asked(self, v6e4: OperatedStack, gemma4: Command) -> None:
        both(v6e4, 6000, 80_000)
        answer = gemma4("renew", "v6e4")
        assert (answer.code, asked(v6e4)) == (2, [])
        assert "--yes: is missing" in answer.err

    def test_is_what_somebody_says_it_is(self, v6e4: OperatedStack) -> None:
        both(v6e4, 50_000, 80_000)
        assert renew_answer("v6e4").action == "nothing"
        assert renew_answer("v6e4", before="14h").names == ["blue"]

    def test_that_the_state_has_lost_is_not_replaced(self, v6e4: OperatedStack, gemma4: Command) -> None:
        both(v6e4, 6000, 80_000)
        v6e4.checks.clear()
        v6e4.save()
        answer = gemma4("renew", "v6e4", "--yes")
        assert (answer.code, asked(v6e4)) == (1, [])
        assert "does not hold blue" in answer.err
        assert "pulumi up -s v6e4" in answer.err


class TestWhatIsUnderWay:
    """A plain `pulumi up` goes on with it, again and again."""

    def test_is_a_next_slice_that_waits(self, v6e4: OperatedStack) -> None:
        both(v6e4, 6000, 80_000)
        queue(v6e4, "blue-b")
        hold(v6e4, "blue-b")
        for _ in range(2):
            assert renew_answer("v6e4", yes=True).action == "go on"
        assert asked(v6e4) == ["up --stack v6e4 --yes"] * 2

    def test_is_an_old_slice_that_the_state_has_still_to_delete(self, v6e4: OperatedStack) -> None:
        both(v6e4, 80_000, 80_000)
        hold(v6e4, "blue-b", leaving=True)
        assert renew_answer("v6e4", yes=True).names == ["blue"]
        assert asked(v6e4) == ["up --stack v6e4 --yes"]

    def test_is_a_slice_that_has_ended(self, v6e4: OperatedStack) -> None:
        serve(v6e4, "green-a", left_s=80_000)
        v6e4.google.tpu.advance(queue(v6e4, "blue-a"), to="SUSPENDED")
        assert renew_answer("v6e4", yes=True).action == "ask again"
        assert asked(v6e4) == ["up --stack v6e4 --yes"]


class TestASliceThatNoStateKnows:
    """As an interrupted renewal leaves one whose state was lost or set back."""

    def test_is_said_and_is_no_renewal_under_way(self, v6e4: OperatedStack, gemma4: Command) -> None:
        serve(v6e4, "blue-a", left_s=80_000, ticket="one")
        serve(v6e4, "blue-b", left_s=85_000, ticket="lost", held=False)
        serve(v6e4, "green-a", left_s=80_000, ticket="two")
        answer = gemma4("renew", "v6e4", "--yes")
        assert (answer.code, asked(v6e4)) == (0, [])
        assert "No state knows it, and nothing renews or deletes it: see gemma4 status v6e4" in answer.out
        data = gemma4("renew", "v6e4", "--json").data
        assert data["action"] == "nothing"
        assert [one["host"] for one in data["machines"] if one["orphan"]] == ["blue-b"]

    def test_is_in_the_way_of_the_next_one(self, v6e4: OperatedStack, gemma4: Command) -> None:
        """Both turns would be taken, and `pulumi up` fails in the middle."""
        serve(v6e4, "blue-a", left_s=6000, ticket="one")
        serve(v6e4, "blue-b", left_s=85_000, ticket="lost", held=False)
        serve(v6e4, "green-a", left_s=80_000, ticket="two")
        answer = gemma4("renew", "v6e4", "--yes")
        assert (answer.code, asked(v6e4)) == (1, [])
        assert "blue-b stands where the next machine would" in answer.err
        assert "gemma4 status v6e4 has the command" in answer.err

    def test_that_waits_is_taken_away_by_the_next_one(self, v6e4: OperatedStack) -> None:
        serve(v6e4, "blue-a", left_s=6000, ticket="one")
        lost = v6e4.google.tpu.resources[queue(v6e4, "blue-b", "lost")]
        lost["createTime"] = moment(time.time() - 600)
        serve(v6e4, "green-a", left_s=80_000, ticket="two")
        renew_answer("v6e4", yes=True)
        assert asked(v6e4) == [renewed(["blue"])]

    def test_that_was_never_granted_and_is_in_no_state_is_asked_for_again(self, v6e4: OperatedStack) -> None:
        """`pulumi up` takes such a request away first, so that nothing is bought twice."""
        lost = v6e4.google.tpu.resources[queue(v6e4, "blue-a", "lost")]
        lost["createTime"] = moment(time.time() - 600)
        serve(v6e4, "green-a", left_s=80_000, ticket="two")
        assert renew_answer("v6e4", yes=True).names == ["blue"]
        assert asked(v6e4) == ["up --stack v6e4 --yes"]

    def test_whose_time_in_the_queue_is_over_is_not_in_the_way(self, v6e4: OperatedStack) -> None:
        serve(v6e4, "blue-a", left_s=6000, ticket="one")
        lost = v6e4.google.tpu.resources[queue(v6e4, "blue-b", "lost")]
        lost["createTime"] = moment(time.time() - 86_400)
        serve(v6e4, "green-a", left_s=80_000, ticket="two")
        answer = renew_answer("v6e4", yes=True)
        assert [one.phase for one in answer.machines if one.orphan] == ["over"]
        assert asked(v6e4) == [renewed(["blue"])]

    def test_that_has_just_been_asked_for_may_be_newer_than_the_state(self, v6e4: OperatedStack) -> None:
        serve(v6e4, "blue-a", left_s=6000, ticket="one")
        serve(v6e4, "green-a", left_s=80_000, ticket="two")
        queue(v6e4, "blue-b", "newer")
        answer = renew_answer("v6e4")
        assert (answer.action, answer.names) == ("go on", ["blue"])
        assert not any(one.orphan for one in answer.machines)

    def test_alone_is_not_bought_a_second_time_by_a_schedule(self, v6e4: OperatedStack, gemma4: Command) -> None:
        serve(v6e4, "blue-a", left_s=80_000, ticket="lost", held=False)
        serve(v6e4, "green-a", left_s=80_000, ticket="two")
        answer = gemma4("renew", "v6e4", "--yes")
        assert (answer.code, asked(v6e4)) == (1, [])
        assert "the state of v6e4 does not hold blue, which runs" in answer.err


class TestRefusals:
    def test_slices_that_end_sooner_than_they_can_be_renewed(self, v6e4: OperatedStack, gemma4: Command) -> None:
        v6e4.write({"tpu": {"maxRunDuration": "2h"}})
        answer = gemma4("renew", "v6e4", "--yes")
        assert (answer.code, asked(v6e4)) == (3, [])
        assert "tpu.maxRunDuration: 2h is too short to be renewed" in answer.err

    @pytest.mark.parametrize("words", [["--before", "soon"], ["--dry-run", "--yes"]])
    def test_words_that_mean_nothing(self, v6e4: OperatedStack, gemma4: Command, words: list[str]) -> None:
        answer = gemma4("renew", "v6e4", *words)
        assert (answer.code, asked(v6e4)) == (2, [])
        assert words[0] in answer.err

    @pytest.mark.parametrize("said", [LOCKED, "error: [409] Conflict: Another update is currently in progress."])
    def test_a_second_one_at_the_same_time_is_told_of_the_first(
        self, v6e4: OperatedStack, gemma4: Command, said: str
    ) -> None:
        both(v6e4, 6000, 80_000)
        notes_what_it_is_asked(v6e4.folder, said)
        answer = gemma4("renew", "v6e4", "--yes")
        assert answer.code == 1
        assert "another Pulumi is at work on this stack, so this one changed nothing" in answer.err


def test_machines_that_nothing_renews_yet_are_an_error_and_not_nothing_to_do(v6e4: OperatedStack) -> None:
    """Else a schedule would be green until they have ended."""
    with pytest.raises(Gemma4Error, match="nothing here renews machines"):
        PlatformOperations.terms(OPERATIONS, session(v6e4.google), v6e4.plan)


def test_an_assistant_gets_the_same_code_until_something_changes(
    v6e4: OperatedStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    both(v6e4, 6000, 80_000)
    (tool,) = (one for one in TOOLS if one.command == "renew")
    arguments = {"stack": "v6e4", "before": None}
    code = previewed_or_done(tool, arguments, "")["confirm"]

    def later(file: StackFile) -> GoogleSession:
        """A preview that counts seconds would be another one a minute later."""
        found = stack_session(file)
        found.clock = lambda: time.time() + 60
        return found

    monkeypatch.setattr("infra.ops.changing.renew.stack_session", later)
    assert previewed_or_done(tool, arguments, code)["result"]["done"] is True
    assert asked(v6e4) == [renewed(["blue"])]
