"""The suite's share of the fuzz: a few hundred random plans; `make fuzz` judges thousands with the same invariants."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from infra.errors import Fault
from infra.planning.plan import Plan
from infra.planning.units import Band
from tests.planning.plan_fuzz import (
    NOT_DRAWN,
    POOL,
    DrawnStack,
    Tally,
    every_message_says_what_to_do,
    judge,
    leaves,
    more_never_costs_less,
    no_quote_beyond_what_is_held,
    numbers_are_numbers,
    refused_means_refusals,
    run,
    the_boundary_is_where_the_plan_says,
    told,
    words_are_words,
)

L4 = DrawnStack({"model": "gemma-4-12b-it-qat-w4a16", "accelerator": "l4"}, {})
V6E1 = DrawnStack({"model": "gemma-4-e4b-it", "accelerator": "v6e-1"}, {})


def test_random_plans_keep_every_invariant() -> None:
    tally = run(seed=20261129, count=200)
    assert tally.faults == []
    assert {"fits", "tight", "refused"} <= set(tally.verdicts)
    assert tally.fixes > 150


def test_every_setting_is_drawn_by_the_fuzzer() -> None:
    assert leaves() == set(POOL) | NOT_DRAWN
    source = random.Random(1)
    assert all(draw(source) is not None for draw in POOL.values())


def test_an_exception_that_is_not_for_users_breaks_an_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Plan:
        raise ZeroDivisionError

    monkeypatch.setattr(DrawnStack, "planned", broken)
    tally = Tally()
    judge(L4, tally)
    assert [fault[0] for fault in tally.faults] == ["no foreign exception"]


class TestEachInvariantCanFail:
    def test_a_speed_quoted_beyond_what_the_cache_holds_is_found(self) -> None:
        plan = L4.plan()
        more = replace(plan, speed=plan.speed_model.estimate(plan.requests_held + 1))
        assert list(no_quote_beyond_what_is_held(L4, more))
        unsaid = replace(plan, requests_held=plan.server.max_num_seqs - 1)
        assert any("no warning" in seen for seen in no_quote_beyond_what_is_held(L4, unsaid))

    def test_a_refusal_without_a_reason_is_found(self) -> None:
        refused = L4.plan(region="europe-north1")
        assert not list(refused_means_refusals(L4, refused))
        assert list(refused_means_refusals(L4, replace(L4.plan(), largest_max_model_len=Band(100, 200, 300))))

    def test_a_number_that_is_not_finite_is_found(self) -> None:
        plan = L4.plan()
        assert list(numbers_are_numbers(L4, replace(plan, cost=replace(plan.cost, run_hours=-1.0)))) == []
        with pytest.raises(ValueError, match="finite number"):
            list(numbers_are_numbers(L4, replace(plan, speed=replace(plan.speed, ttft_s=Band(0, 1, float("inf"))))))

    def test_a_message_without_a_fix_is_found(self) -> None:
        plan = L4.plan()
        assert not list(every_message_says_what_to_do(L4, plan))
        for silent in (Fault("model", "is odd.", "It hangs.", ""), Fault("model", "", "It hangs.", "Take it out.")):
            assert list(every_message_says_what_to_do(L4, replace(plan, warnings=(silent,))))
            assert list(every_message_says_what_to_do(L4, replace(plan, refusals=(silent,))))

    @pytest.mark.parametrize(
        ("case", "lines", "falls"),
        [
            (L4, "replica_hour", {("scaling.maxInstances", "usd_per_hour_at_most")}),
            (L4, "idle_month", {("scaling.maxInstances", "usd_per_month_idle")}),
            (V6E1, "replica_hour", {("tpu.slices", "usd_per_hour_at_most"), ("accelerator", "usd_per_hour_together")}),
        ],
    )
    def test_a_price_that_falls_with_more_replicas_is_found(
        self, case: DrawnStack, lines: str, falls: set[tuple[str, str]]
    ) -> None:
        plan = case.plan()
        assert not list(more_never_costs_less(case, plan))
        dear = replace(plan.cost, **{lines: 1000 * getattr(plan.cost, lines)})
        seen = list(more_never_costs_less(case, replace(plan, cost=dear)))
        assert all(any(step in one and f"{figure} falls" in one for one in seen) for step, figure in falls), seen

    def test_words_of_bad_arithmetic_are_found(self) -> None:
        plan = L4.plan(region="europe-north1")
        said = replace(plan, refusals=(Fault("model", "-3.0 GiB are free."),))
        assert [*words_are_words(L4, said)] == ["says '-3.0 GiB'", "says '-3.0 GiB'"]

    def test_a_boundary_in_another_place_is_found(self) -> None:
        plan = L4.plan(serving__kvCacheDtype="bfloat16", serving__gpuMemoryUtilization=0.5)
        case = replace(L4, typed={"serving.kvCacheDtype": "bfloat16", "serving.gpuMemoryUtilization": 0.5})
        band = plan.largest_max_model_len
        assert band.high < plan.architecture.max_position
        assert not list(the_boundary_is_where_the_plan_says(case, plan))
        for low, high in ((band.low, band.high + 1000), (band.low, band.high - 1000), (band.low - 1000, band.high)):
            moved = replace(plan, largest_max_model_len=Band(low, max(low, min(band.mid, high)), high))
            assert list(the_boundary_is_where_the_plan_says(case, moved))


@pytest.mark.parametrize(
    ("key", "fix", "steps"),
    [
        ("serving.maxNumSeqs", "Write 64.", [{"serving.maxNumSeqs": 64}]),
        ("serving.quantization", "Leave it out.", [{"serving.quantization": None}]),
        ("tpu.waitForCapacity", "Write at most 4h, or raise tpu.validUntilDuration.", [{"tpu.waitForCapacity": "4h"}]),
        ("scaling.concurrency", "Write serving.maxNumSeqs: 112, or use fewer slices.", [{"serving.maxNumSeqs": 112}]),
        (
            "serving.maxModelLen",
            "What fits: serving.maxModelLen: 4096; accelerator: v6e-4, serving.quantization: none.",
            [{"serving.maxModelLen": 4096}, {"accelerator": "v6e-4", "serving.quantization": "none"}],
        ),
        ("vllmArgs.foo", "Measure before you rely on the numbers above.", []),
    ],
)
def test_the_values_that_a_fix_tells_to_write_are_read(key: str, fix: str, steps: list[dict[str, Any]]) -> None:
    assert list(told(Fault(key, "is wrong.", "", fix))) == steps
