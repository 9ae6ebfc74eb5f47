"""The answers to eight written needs are such that an expert would defend them; the page of the answers is a golden file."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from infra.planning.checks.reading_pace import READING_SPEED
from infra.planning.planner import make_plan
from tests.golden import output
from tests.needs import NEEDS, WrittenNeed

needs = pytest.mark.parametrize("need", NEEDS, ids=lambda need: need.title)


@cache
def answers(need: WrittenNeed) -> tuple[dict[str, Any], ...]:
    rows: list[dict[str, Any]] = json.loads(output("recommend", *need.words.split(), "--top", "1000", "--json"))[
        "candidates"
    ]
    return tuple(rows)


def option(need: WrittenNeed, name: str) -> str | None:
    words = need.words.split()
    return words[words.index(name) + 1] if name in words else None


@needs
def test_the_first_answer_can_be_deployed_fits_without_doubt_and_stays(need: WrittenNeed) -> None:
    first = answers(need)[0]
    assert first["deployable"]
    assert first["verdict"] == "fits"
    assert not first["doubt"]
    assert first["endsAfterS"] is None or "--may-end" in need.words


@needs
def test_what_is_deployable_and_without_doubt_goes_before_all_else(need: WrittenNeed) -> None:
    keys = [(not row["deployable"], bool(row["doubt"])) for row in answers(need)]
    assert keys == sorted(keys)


@needs
def test_floor_and_pace_are_kept(need: WrittenNeed) -> None:
    least = float(option(need, "--min-quality") or 0)
    for row in answers(need):
        assert row["quality"]["percent"] >= least
        assert row["tokensPerSecondEach"]["mid"] >= READING_SPEED
    assert answers(need)[0]["tokensPerSecondEach"]["low"] >= READING_SPEED


@needs
def test_the_same_money_buys_no_much_better_model_as_fast(need: WrittenNeed) -> None:
    """Whatever the order: nothing sure costs no more, scores five points more and streams as fast as the first answer."""
    rows = answers(need)
    first = rows[0]
    for row in rows:
        sure = row["deployable"] and not row["doubt"] and (row["endsAfterS"] is None or "--may-end" in need.words)
        better = row["quality"]["percent"] >= first["quality"]["percent"] + 5
        as_fast = row["tokensPerSecondEach"]["mid"] >= first["tokensPerSecondEach"]["mid"]
        assert not (sure and better and as_fast and row["usdPerHour"] <= first["usdPerHour"]), row["model"]


@needs
def test_a_tenth_of_the_price_does_not_buy_the_same(need: WrittenNeed) -> None:
    rows = answers(need)
    first = rows[0]
    for row in rows:
        sure = row["deployable"] and not row["doubt"]
        same = (
            row["quality"]["percent"] >= first["quality"]["percent"]
            and row["tokensPerSecondEach"]["mid"] >= first["tokensPerSecondEach"]["mid"]
        )
        assert not (sure and same and row["usdPerHour"] <= first["usdPerHour"] / 5), row["model"]


@needs
def test_quotas_beyond_those_of_a_new_project_and_the_terms_of_each_machine_are_said(need: WrittenNeed) -> None:
    first = answers(need)[0]
    plan = make_plan("need", {"model": first["model"], "accelerator": first["accelerator"]}, first["settings"])
    shown = " ".join(output("recommend", *need.words.split(), "--top", "1").split())
    if any(quota.beyond_default() for quota in plan.quotas):
        assert "ask Google for more first" in shown
    assert plan.deployment.terms in shown
    assert plan.place.location in plan.accelerator.locations
    if plan.model.third_party:
        assert plan.model.maker in shown


@needs
def test_the_stack_file_of_the_first_answer_is_what_was_ranked(need: WrittenNeed) -> None:
    first = answers(need)[0]
    plan = make_plan("need", {"model": first["model"], "accelerator": first["accelerator"]}, first["settings"])
    assert not plan.refused
    assert plan.cost.usd_per_hour_at_most == pytest.approx(first["usdPerHour"])
    if "--images" in need.words:
        assert plan.settings.serving.modalities.image >= 1


def test_the_eight_needs_differ_in_what_they_ask_and_are_each_defended_in_a_line() -> None:
    assert len({need.words for need in NEEDS}) == len(NEEDS) == 8
    assert all(need.defence.count(".") == 1 for need in NEEDS)
