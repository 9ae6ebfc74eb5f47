"""The points of a benchmark, from what was typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.benchmark.grid import WORKLOADS, Lengths, grid, named, numbers, scaled, scaling_note, usual_concurrencies
from infra.errors import SettingsError


def test_numbers_are_read_once_each_in_their_order() -> None:
    assert numbers("--concurrency", "32, 1,8,1,1_000") == [32, 1, 8, 1000]


@pytest.mark.parametrize("text", ["", "0", "-1", "1,,2", "8x", "1.5", "²", "one"])
def test_what_is_not_a_number_of_at_least_one_is_named_with_its_option(text: str) -> None:
    with pytest.raises(SettingsError, match="--input") as caught:
        numbers("--input", text)
    assert caught.value.faults[0].key == "--input"


@pytest.mark.parametrize(("most", "found"), [(1, [1]), (4, [1, 4]), (40, [1, 4, 16, 40]), (64, [1, 4, 16, 64])])
def test_usual_concurrencies_end_with_what_runs_at_once(most: int, found: list[int]) -> None:
    assert usual_concurrencies(most) == found


def test_every_unknown_workload_is_named_with_the_nearest() -> None:
    with pytest.raises(SettingsError) as caught:
        named(["balanced", "prompt_heavy", "sonnet"])
    first, second = map(str, caught.value.faults)
    assert "Did you mean prompt-heavy?" in first
    assert "Known: prompt-heavy, decode-heavy, balanced." in second


@given(st.sampled_from(sorted(WORKLOADS)), st.integers(min_value=16, max_value=20_000))
def test_a_scaled_workload_fits_in_its_own_proportion(name: str, max_model_len: int) -> None:
    recipe, found = WORKLOADS[name], scaled(WORKLOADS[name], max_model_len)
    if sum(recipe) <= max_model_len:
        assert found == recipe
    else:
        assert sum(found) <= max_model_len
        assert found.input_tokens / recipe.input_tokens == pytest.approx(
            found.output_tokens / recipe.output_tokens, abs=1 / min(recipe)
        )


def test_a_scaled_workload_says_so_and_another_point_does_not() -> None:
    (cut,) = grid([1], [(scaled(WORKLOADS["prompt-heavy"], 4096), "prompt-heavy")])
    assert scaling_note(cut, 4096) == "the recipe's 8,000/1,000 tokens were scaled to 3,568/446: max_model_len is 4,096"
    (whole,) = grid([1], [(WORKLOADS["balanced"], "balanced")])
    (own,) = grid([1], [(Lengths(7, 5), "")])
    assert scaling_note(whole, 4096) == scaling_note(own, 4096) == ""


def test_the_smallest_load_comes_first() -> None:
    shapes = list(grid([8, 1], [(Lengths(10, 20), ""), (Lengths(30, 40), "")]))
    assert [(shape.concurrency, shape.input_tokens) for shape in shapes] == [(1, 10), (8, 10), (1, 30), (8, 30)]
