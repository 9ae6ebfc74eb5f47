"""Cells without room are skipped, with what they need and what there is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from infra.benchmark.capacity import Room
from infra.benchmark.stored_run import Shape
from infra.planning.planner import make_plan
from infra.planning.settings.stackfile import read_stack
from tests.projects import ROOT


def shape(concurrency: int, input_tokens: int = 1000, output_tokens: int = 1000) -> Shape:
    return Shape(concurrency=concurrency, input_tokens=input_tokens, output_tokens=output_tokens, workload="")


def test_requests_up_to_the_servers_word_run_and_one_more_does_not() -> None:
    room = Room(max_model_len=4096, kv_tokens=30_615, said_by="the server")
    assert room.obstacle(shape(15)) == ""
    assert room.obstacle(shape(16)) == (
        "needs KV cache for 16 × 2,000 = 32,000 tokens; the server has 30,615, room for 15 such requests: the others would wait"
    )


def test_several_servers_hold_several_times_as_much() -> None:
    room = Room(max_model_len=None, kv_tokens=30_000, said_by="the server", servers=3)
    assert room.obstacle(shape(45)) == ""
    assert "in each of 3 servers" in room.obstacle(shape(46))


def test_a_request_longer_than_max_model_len_cannot_run_at_all() -> None:
    room = Room(max_model_len=2048, kv_tokens=None, said_by="")
    assert room.obstacle(shape(1, 1048, 1000)) == ""
    assert room.obstacle(shape(1, 1049, 1000)) == "a request has 2,049 tokens, and max_model_len is 2,048"


def test_a_server_that_says_nothing_is_tried() -> None:
    assert Room(max_model_len=None, kv_tokens=None, said_by="").obstacle(shape(10_000)) == ""


def test_with_a_plan_requests_are_counted_in_blocks_and_by_the_servers_size() -> None:
    """Layers with a sliding window hold less of a long request, so tokens alone do not say how many requests fit."""
    plan = make_plan("l4", read_stack(ROOT, "l4").settings)
    held = plan.capacity.requests_held(2000)
    room = Room(None, plan.capacity.tokens, "the server", planned=plan.capacity)
    assert room.obstacle(shape(held)) == ""
    assert room.obstacle(shape(held + 1)) != ""
    assert replace(room, kv_tokens=plan.capacity.tokens / 2).obstacle(shape(held // 2 + 1)) != ""


@pytest.mark.parametrize("word", ["the server", "the plan's low end"])
def test_it_says_whose_figure_it_is(word: str) -> None:
    assert word in Room(None, 100, word).obstacle(shape(1))
