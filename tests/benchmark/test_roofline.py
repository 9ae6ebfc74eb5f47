"""No prediction, and so no true measurement, is faster than the roofline; nothing twice as fast as bandwidth slips through."""

from __future__ import annotations

from dataclasses import replace

import pytest

from infra.benchmark.roofline import most_tokens_per_second
from infra.benchmark.stored_run import Shape
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.scorecard.predict import compare, server_of_run
from infra.planning.scorecard.published_runs import SHIPPED, PublishedRun, read_runs
from infra.planning.settings.stackfile import read_stack, stack_names
from tests.projects import ROOT


def planned(stack: str) -> Plan:
    return make_plan(stack, read_stack(ROOT, stack).settings)


def shape(concurrency: int, input_tokens: int = 1000, output_tokens: int = 1000) -> Shape:
    return Shape(concurrency=concurrency, input_tokens=input_tokens, output_tokens=output_tokens, workload="")


@pytest.mark.parametrize("stack", stack_names(ROOT))
def test_what_is_predicted_at_best_lies_below_it(stack: str) -> None:
    plan = planned(stack)
    for concurrency in (1, plan.server.max_num_seqs):
        for lengths in ((100, 1000), (1000, 1000), (4000, 128)):
            model = replace(plan.speed_model, prompt_tokens=lengths[0], output_tokens=lengths[1])
            best = model.tokens_per_second_at(concurrency).with_new_prompts.high
            assert best < most_tokens_per_second(plan.server, shape(concurrency, *lengths))


def test_no_published_run_is_called_impossible() -> None:
    checked = 0
    for name, row in read_runs(SHIPPED):
        if not isinstance(row, PublishedRun) or row.what != "speed" or not compare(name, row).figures:
            continue
        rate = row.published.tokens_per_second
        if rate and row.running and row.prompt_tokens and row.output_tokens:
            point = shape(row.running, row.prompt_tokens, row.output_tokens)
            bound = most_tokens_per_second(server_of_run(row), point, prompts_computed=row.prompts == "new")
            assert rate < bound, row.id
            checked += 1
    assert checked > 20


def test_one_stream_cannot_read_the_weights_faster_than_memory() -> None:
    plan = planned("l4")
    server = plan.server
    assert server.speculative_tokens == 0
    weights = server.weights.linear + server.weights.embedding
    by_weights = server.accelerator.bandwidth / weights
    assert 0.8 * by_weights < most_tokens_per_second(server, shape(1)) < by_weights


def test_two_servers_allow_twice_as_much() -> None:
    server = planned("l4").server
    assert most_tokens_per_second(server, shape(8), servers=2) == pytest.approx(
        2 * most_tokens_per_second(server, shape(4))
    )


def test_prompts_that_a_cache_answers_cost_no_arithmetic() -> None:
    server, long = planned("v6e4").server, shape(256, 8000, 16)
    assert most_tokens_per_second(server, long) < most_tokens_per_second(server, long, prompts_computed=False)
