"""How long it takes: by the plan before the first repeat, by the pace of what is done after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from infra.benchmark.forecast import START_S, outlook, predicted_seconds, usual_seconds
from infra.benchmark.stored_run import Shape
from infra.planning.planner import make_plan
from infra.planning.settings.stackfile import read_stack
from infra.planning.units import Band
from tests.benchmark.runs import stored
from tests.projects import ROOT

SETTINGS = stored().settings
PLAN = make_plan("l4", read_stack(ROOT, "l4").settings)


def shape(concurrency: int, input_tokens: int = 1000, output_tokens: int = 1000) -> Shape:
    return Shape(concurrency=concurrency, input_tokens=input_tokens, output_tokens=output_tokens, workload="")


def seconds(point: Shape, *, servers: int = 1, **changed: int) -> Band:
    settings = SETTINGS.model_copy(update=changed)
    return predicted_seconds(PLAN.speed_model, settings, point, servers=servers, requests_at_once=16 * servers)


def test_a_lone_stream_takes_its_tokens_over_its_predicted_speed() -> None:
    model = replace(PLAN.speed_model, prompt_tokens=1000, output_tokens=1000)
    rate = model.tokens_per_second_at(1).with_new_prompts
    counted = seconds(shape(1), requests=10, warmup_requests=0).mid - START_S.mid
    assert counted == pytest.approx(10 * 1000 / rate.mid)


def test_requests_beyond_what_runs_at_once_wait_for_their_turn() -> None:
    assert seconds(shape(32), requests=64, warmup_requests=0).mid == pytest.approx(
        seconds(shape(16), requests=64, warmup_requests=0).mid
    )


def test_two_servers_take_half_the_time() -> None:
    one, two = (seconds(shape(16 * count), servers=count, requests=64, warmup_requests=0) for count in (1, 2))
    assert two.mid - START_S.mid == pytest.approx((one.mid - START_S.mid) / 2)


def test_a_warm_up_adds_less_than_as_many_counted_requests() -> None:
    without, with_it, twice = (
        seconds(shape(4), requests=count, warmup_requests=warm).mid for count, warm in ((8, 0), (8, 8), (16, 0))
    )
    assert without < with_it < twice


def test_before_the_first_repeat_the_prediction_stands() -> None:
    bands = [Band(1, 2, 4), Band(10, 20, 40)]
    assert outlook([2, 20], bands).remaining() == (11, 44)
    assert outlook([2, 20], None).remaining() is None


def test_afterwards_the_pace_stands_and_its_spread() -> None:
    ahead = outlook([10, 10, 10, 10], [Band(9, 10, 11)] * 4)
    ahead.done(20)
    assert ahead.remaining() == pytest.approx((30 * 2 * 0.85, 30 * 2 * 1.15))
    ahead.done(30)
    least, most = ahead.remaining() or (0, 0)
    assert least == pytest.approx(20 * 2.0)
    assert most == pytest.approx(20 * 3.0)
    ahead.done(20)
    ahead.done(20)
    assert ahead.remaining() == (0, 0)


def test_an_unplanned_cell_weighs_by_its_rounds() -> None:
    few, many = (usual_seconds(SETTINGS.model_copy(update={"requests": count}), shape(4)) for count in (4, 40))
    assert many - START_S.mid == pytest.approx(10 * (few - START_S.mid))
