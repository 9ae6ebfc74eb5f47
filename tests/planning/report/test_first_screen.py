"""The first screen: every plan in 23 lines of 80 columns, every refusal in 12, and what decides is in them."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from infra.catalog import catalog
from infra.errors import Fault
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.report.first_screen import COLUMNS, MOST_LINES, MOST_LINES_REFUSED, first_screen
from infra.planning.report.next_steps import steps_before_up
from infra.planning.report.terminal import plain
from infra.planning.report.text import text
from infra.planning.settings.stackfile import read_stack, stack_names
from infra.planning.units import counted, read_predicted, read_rate, read_tokens_per_second, read_usd
from tests.projects import ROOT

PROFILES = ("latency", "balanced", "throughput")
SHIPPED = list(itertools.product(stack_names(ROOT), PROFILES))
HARDEST: dict[str, dict[str, Any]] = {
    "a tight one with two warnings": {"profile": "latency", "stack": "l4-31b"},
    "many instances": {"stack": "rtx6000", "scaling.maxInstances": 10, "scaling.minInstances": 2},
    "eight slices": {
        "stack": "v6e8",
        "tpu.slices": ["blue", "green", "red", "amber", "violet", "teal", "pink", "grey"],
    },
    "more than fits": {"stack": "l4", "serving.maxNumSeqs": 200, "serving.maxModelLen": 65536},
    "a first row of two lines": {"stack": "v6e8", "serving.gpuMemoryUtilization": 0.98},
    "a remark on a long key": {"stack": "v6e4-31b", "probes.startup.initialDelaySeconds": 9},
    "large quotas to ask for": {"stack": "l4", "scaling.maxInstances": 100},
    "a title of two lines and a remark beside a warning": {
        "stack": "v6e4",
        "tpu.zone": "asia-northeast1-b",
        "probes.startup.initialDelaySeconds": 1859,
        "scaling.cpu": 8,
    },
}


def planned(stack: str, **typed: Any) -> Plan:
    return make_plan(stack, read_stack(ROOT, stack).settings, typed)


def lines(plan: Plan, width: int = COLUMNS) -> list[str]:
    """What the first screen prints, without colours."""
    return [line for part in first_screen(plan, width) for line in part.plain.split("\n")]


def every_pair() -> Iterator[Plan]:
    """Every model of the catalog on every machine."""
    for model, machine in itertools.product(catalog().models, catalog().accelerators):
        yield make_plan("pair", {"model": model, "accelerator": machine})


EVERY_PAIR = list(every_pair())
REFUSED = [plan for plan in EVERY_PAIR if plan.refused]


def test_a_screen_is_a_terminal_of_80_by_24_with_room_for_the_next_prompt() -> None:
    assert (COLUMNS, MOST_LINES, MOST_LINES_REFUSED) == (80, 24 - 1, 12)


@pytest.mark.parametrize(("stack", "profile"), SHIPPED)
def test_every_shipped_stack_takes_one_screen_in_every_profile(stack: str, profile: str) -> None:
    shown = lines(planned(stack, profile=profile))
    assert len(shown) <= MOST_LINES
    assert max(map(len, shown)) <= COLUMNS


@pytest.mark.parametrize("case", HARDEST)
def test_a_plan_with_much_to_say_takes_one_screen_as_well(case: str) -> None:
    typed = dict(HARDEST[case])
    plan = planned(typed.pop("stack"), **typed)
    assert len(lines(plan)) <= MOST_LINES, "\n".join(lines(plan))
    (price,) = (line for line in lines(plan) if line.startswith("Price"))
    assert price.endswith(("busy", "/month")), price
    assert max(map(len, lines(plan))) <= COLUMNS, "\n".join(lines(plan))


@pytest.mark.parametrize(
    ("stack", "typed"),
    [
        ("v6e4", {"scaling.concurrency": 1}),
        ("l4-31b", {"workload.outputTokens": 1}),
        ("v6e1", {"serving.gpuMemoryUtilization": 0.98, "profile": "latency"}),
    ],
)
def test_one_of_a_thing_is_said_in_the_singular(stack: str, typed: dict[str, Any]) -> None:
    plural = re.compile(r"(?<![\d.,])1 (requests|tokens|prompts|slices|instances|chips) ")
    assert not plural.search(" ".join(text(planned(stack, **typed)).split()))


def test_every_model_on_every_machine_takes_one_screen() -> None:
    for plan in EVERY_PAIR:
        shown = lines(plan)
        assert len(shown) <= (MOST_LINES_REFUSED if plan.refused else MOST_LINES), "\n".join(shown)
        assert max(map(len, shown)) <= COLUMNS


@pytest.mark.parametrize("stack", stack_names(ROOT))
def test_it_holds_verdict_price_speed_capacity_start_quotas_and_the_next_command(stack: str) -> None:
    plan = planned(stack)
    shown = lines(plan)
    named = [line.split()[0] for line in shown if line[:1].isalpha()]
    rows = ["Fits", "Price", "Speed", "Capacity", "Start", *(["Quota"] if plan.quotas else [])]
    assert [name for name in named if name in rows] == rows
    whole = "\n".join(shown)
    assert f"{read_usd(plan.cost.usd_per_hour)}/hour" in whole
    assert f"{read_usd(plan.usd_per_month[0])}/month" in whole
    assert shown[-1].endswith(f"pulumi up -s {stack}" if plan.accelerator.deployable else "gemma4 machines")


def test_the_price_is_that_of_all_replicas() -> None:
    def price(stack: str, **typed: Any) -> str:
        plan = planned(stack, **{key.replace("__", "."): value for key, value in typed.items()})
        return " ".join(line for line in lines(plan)[2:5] if "/hour" in line or "/month" in line)

    one = planned("l4").cost.usd_per_hour
    assert f"{read_usd(one)}/hour each, {read_usd(7 * one)} for all 7" in price("l4", scaling__maxInstances=7)
    assert "/month idle" in price("l4", scaling__maxInstances=7)
    kept = price("l4", scaling__maxInstances=2, scaling__minInstances=2)
    month = planned("l4", **{"scaling.maxInstances": 2, "scaling.minInstances": 2}).usd_per_month[1]
    assert kept.endswith(f"{read_usd(2 * one)} for all 2, {read_usd(month)}/month")
    assert f"{read_usd(2 * planned('v6e4').cost.usd_per_hour)} for all 2;" in price(
        "v6e4", tpu__slices=["blue", "green"]
    )


@pytest.mark.parametrize("stack", stack_names(ROOT))
def test_rates_are_for_new_prompts_and_cached_ones_are_named(stack: str) -> None:
    plan = planned(stack)
    said = " ".join(line.strip() for line in lines(plan))
    prompts = f" with {counted(plan.speed.planned.requests, 'new prompt')}"
    new = read_predicted(plan.speed.planned.with_new_prompts, read_tokens_per_second, prompts, brief=True)
    assert f"{new}, cached {read_predicted(plan.speed.planned.total, read_rate, brief=True)} Capacity" in said


SEVERAL: list[tuple[str, dict[str, Any]]] = [
    ("g4x8", {}),
    ("g4x8", {"machine": {"provisioning": "spot", "names": ["blue", "green"]}}),
    ("g4x2", {"machine.names": ["blue", "green"]}),
    ("v6e4", {"tpu.slices": ["blue", "green", "red"]}),
    ("l4", {"scaling.maxInstances": 3}),
]


@pytest.mark.parametrize(("stack", "typed"), SEVERAL)
def test_of_several_servers_it_says_what_is_of_one_and_what_of_all(stack: str, typed: dict[str, Any]) -> None:
    plan = make_plan(stack, {**read_stack(ROOT, stack).settings, **typed})
    count, one = plan.cost.replicas, plan.speed.planned
    rows = {line.split("  ")[0]: line for line in lines(plan)}
    assert all(rows[name].split(None, 1)[1].startswith("each server: ") for name in ("Speed", "Capacity"))
    assert f"/hour each, {read_usd(count * plan.cost.usd_per_hour)} for all {count}" in rows["Price"]
    new = read_predicted(
        one.with_new_prompts.times(count),
        read_tokens_per_second,
        f" with {count * one.requests:,} new prompts",
        brief=True,
    )
    assert rows[f"All {count}"].split("  ")[-1].strip().startswith(new)


@pytest.mark.parametrize("stack", ["g4x2", "v6e4", "l4"])
def test_of_one_server_nothing_is_said_of_each_and_all(stack: str) -> None:
    said = "\n".join(lines(planned(stack)))
    assert "each server" not in said
    assert "\nAll " not in said


def test_all_servers_together_run_no_more_than_their_gateway_is_sent() -> None:
    names = ["blue", "green", "red", "amber", "violet", "teal", "pink", "grey"]
    plan = planned("g4x8", **{"machine.names": names, "serving.maxNumSeqs": 56, "gateway.perCaller": 8})
    count, most = 32, 1000
    assert (plan.cost.replicas, plan.deployment.most_in_flight) == (count, most)
    assert count * plan.speed.planned.requests > most
    fewer = plan.speed_model.tokens_per_second_at(most // count)
    assert plan.speed_of_all.requests == count * fewer.requests <= most
    assert plan.speed_of_all.with_new_prompts == fewer.with_new_prompts.times(count)


@pytest.mark.parametrize("stack", stack_names(ROOT))
def test_no_line_ends_within_a_figure_or_its_band(stack: str) -> None:
    for line in lines(planned(stack, profile="throughput")):
        assert line.count("(") == line.count(")"), line
        assert not line.endswith(("≈", " to")), line


@pytest.mark.parametrize(
    ("stack", "key", "names"), [("v6e4", "tpu.slices", ["blue"]), ("g4x2", "machine.names", ["blue"])]
)
def test_a_paused_stack_is_seen_to_be_paused(stack: str, key: str, names: list[str]) -> None:
    def says_so(**typed: Any) -> bool:
        return "blue: paused; when resumed" in "\n".join(lines(planned(stack, **typed)))

    assert says_so(**{key: []})
    assert says_so(paused=True)
    assert not says_so(**{key: names})


@pytest.mark.parametrize("stack", stack_names(ROOT))
def test_what_is_still_to_do_is_done_once_it_is_done(stack: str) -> None:
    bare = steps_before_up(planned(stack))
    if not planned(stack).accelerator.deployable:
        assert bare == []
        return
    assert any("gcp:project" in step for step in bare)
    written = {"access.deployers": ["user:a@b.c"], "access.invokers": ["user:a@b.c"]}
    plan = make_plan(stack, read_stack(ROOT, stack).settings, written, project="mine")
    pinned = {role: replace(image, pinned=True) for role, image in plan.images.items()}
    plan = replace(plan, images=pinned, weights=tuple(replace(one, pinned=True) for one in plan.weights))
    left = [step for step in steps_before_up(plan) if not step.startswith("#")]
    assert left == [f"pulumi stack select --create {stack}", f"gemma4 preflight {stack}"]


def test_a_value_that_stands_only_on_the_command_line_is_to_be_written_first() -> None:
    assert not any("alone" in step for step in steps_before_up(planned("l4")))
    one, two = {"serving.maxModelLen": 4096}, {"serving.maxModelLen": 4096, "scaling.maxInstances": 2}
    there = "into Pulumi.l4.yaml, for up"
    assert steps_before_up(planned("l4", **one))[0] == f"# write serving.maxModelLen {there}"
    assert steps_before_up(planned("l4", **two))[0] == f"# write the 2 values of --set {there}"
    assert len(lines(planned("l4", **two))) <= MOST_LINES


def test_every_step_can_be_pasted_into_a_shell() -> None:
    for stack in stack_names(ROOT):
        for step in steps_before_up(planned(stack)):
            words = shlex.split(step, comments=True)
            assert not words or words[0] in ("pulumi", "gemma4")


class TestWarnings:
    def test_stand_on_the_first_screen_by_their_first_words(self) -> None:
        plan = planned("l4-31b")
        (warning,) = plan.warnings
        (shown,) = (line for line in lines(plan) if line.startswith("Warning"))
        assert shown.removeprefix("Warning").strip(" …") in str(warning)

    def test_that_do_not_fit_are_counted(self) -> None:
        plan = planned("rtx6000")
        many = replace(plan, warnings=tuple(Fault(f"key{n}", "is wrong.") for n in range(9)))
        shown = lines(many)
        assert len(shown) <= MOST_LINES
        told = [line for line in shown if line.startswith("Warning")]
        (count,) = (int(line.split()[1]) for line in told if "gemma4 plan rtx6000 --notes" in line)
        assert len(told) - 1 + count == 9


class TestRefusals:
    @pytest.mark.parametrize("plan", REFUSED, ids=lambda plan: f"{plan.model.id} on {plan.accelerator.id}")
    def test_end_with_what_to_write(self, plan: Plan) -> None:
        shown = lines(plan)
        assert len(shown) <= MOST_LINES_REFUSED
        start = max(number for number, line in enumerate(shown) if line.startswith("Instead"))
        assert all(line.startswith("   ") for line in shown[start + 1 :])
        assert (
            "".join(shown[start:]).split()[1:3] == [word for fault in plan.refusals for word in fault.fix.split()][:2]
        )

    def test_the_first_are_shown_and_all_are_counted(self) -> None:
        plan = REFUSED[0]
        for count in range(1, 9):
            faults = tuple(
                Fault(f"key{n}", "is wrong. " * 12, "It stops. " * 12, "Write this. " * 70) for n in range(count)
            )
            shown = lines(replace(plan, refusals=faults))
            assert len(shown) <= MOST_LINES_REFUSED
            assert "key0" in "\n".join(shown)
            assert (f"Refused for {count} reasons" in "\n".join(shown)) == (count > 1)


@pytest.mark.parametrize("width", [60, 100, 160])
def test_another_width_holds_the_same_words(width: int) -> None:
    for plan in (planned("l4"), planned("v6e4")):
        assert " ".join(" ".join(lines(plan, width)).split()) == " ".join(" ".join(lines(plan)).split())


def test_what_is_printed_are_these_lines() -> None:
    plan = planned("v6e4")
    assert plain(*first_screen(plan, COLUMNS)).splitlines() == [line.rstrip() for line in lines(plan)]
