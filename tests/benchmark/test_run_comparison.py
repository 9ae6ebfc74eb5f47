"""Two runs compared: what is called a difference, what noise, and what too few measurements."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest

from infra.benchmark.cell_key import CellKey
from infra.benchmark.repeat_figures import E2E_P50, ITL_P99, METRICS, THROUGHPUT, TTFT_P50, TTFT_P99
from infra.benchmark.run_comparison import Claims, Difference, MetricChange, RunComparison, compare_runs
from infra.benchmark.stored_run import BenchmarkRun, Repeat
from scripts.simulate_comparisons import QUIET, USUAL, Layout, comparisons, invented_pair, share
from tests.benchmark.runs import cell, repeat, stored

STEADY = (1.000, 1.004, 0.997, 1.002, 0.998)
"""Levels of repeats that differ by little."""


def at(minute: int) -> str:
    return f"2026-11-22T{8 + minute // 60:02}:{minute % 60:02}:00Z"


def repeats(levels: Sequence[float], *, slow: float = 1.0, start: int = 0, requests: int = 40) -> list[Repeat]:
    """Repeats whose latencies have these levels, one a minute."""
    return [
        repeat(
            [0.1 * level * slow * (1 + number / requests) for number in range(requests)],
            rate=100 / (level * slow),
            started_at=at(start + minute),
            itl_s=[0.01 * level * slow] * requests,
            e2e_s=[1.0 * level * slow] * requests,
        )
        for minute, level in enumerate(levels)
    ]


def run(levels: Sequence[float] = STEADY, **changed: float) -> BenchmarkRun:
    """A run of one cell."""
    return stored(cell(*repeats(levels, **changed)))  # type: ignore[arg-type]


def overall(found: RunComparison) -> dict[str, MetricChange]:
    return {one.metric.id: one for one in found.overall}


class TestVerdicts:
    def test_the_same_figures_are_no_difference(self) -> None:
        found = compare_runs([run()], [run(start=60)])
        assert found.verdict is Difference.NO_DIFFERENCE
        assert {one.verdict for one in found.overall} == {Difference.NO_DIFFERENCE}
        assert [one.metric for one in found.overall] == list(METRICS)

    @pytest.mark.parametrize(
        ("slow", "verdict"), [(1.1, Difference.SLOWER), (1 / 1.1, Difference.FASTER), (1.04, Difference.SLOWER)]
    )
    def test_what_all_repeats_agree_on_is_a_difference(self, slow: float, verdict: Difference) -> None:
        found = compare_runs([run()], [run(slow=slow, start=60)])
        assert found.verdict is verdict
        assert {one.verdict for one in found.overall} == {verdict}
        change = overall(found)["ttftP50"]
        assert change.change == pytest.approx(slow - 1)
        assert change.slower_by == pytest.approx(slow - 1)
        assert overall(found)["throughput"].change == pytest.approx(1 / slow - 1)
        assert overall(found)["throughput"].slower_by == pytest.approx(1 - 1 / slow)

    def test_a_certain_change_within_the_tolerance_is_no_difference(self) -> None:
        assert compare_runs([run()], [run(slow=1.015, start=60)]).verdict is Difference.NO_DIFFERENCE
        assert compare_runs([run()], [run(slow=1.015, start=60)], Claims(tolerance=0.0)).verdict is Difference.SLOWER

    def test_what_only_some_repeats_show_is_not_called_a_difference(self) -> None:
        found = compare_runs([run()], [run((1.0, 1.3, 1.0, 1.25, 1.0), start=60)])
        assert found.verdict is Difference.TOO_FEW
        assert overall(found)["throughput"].change < -0.08

    @pytest.mark.parametrize("count", [1, 2])
    def test_with_one_or_two_repeats_nothing_can_be_said(self, count: int) -> None:
        found = compare_runs([run(STEADY[:1])], [run(STEADY[:count], slow=1.5, start=60)])
        assert found.verdict is Difference.TOO_FEW
        assert [one.interval for one in found.overall] == [None] * len(METRICS)
        assert overall(found)["e2eP50"].change == pytest.approx(0.5, abs=0.01)

    def test_one_cell_alone_can_be_slower(self) -> None:
        shapes = (1, 2, 4, 8)
        a = stored(*(cell(*repeats(STEADY), concurrency=one) for one in shapes))
        b = stored(*(cell(*repeats(STEADY, slow=1.5 if one == 8 else 1.0), concurrency=one) for one in shapes))
        found = compare_runs([a], [b])
        slower = [key.concurrency for key, row in found.cells.items() if row[0].verdict is Difference.SLOWER]
        assert slower == [8]
        assert found.verdict is Difference.SLOWER

    def test_faster_in_one_cell_and_slower_in_another_is_both(self) -> None:
        a = stored(*(cell(*repeats(STEADY), concurrency=one) for one in (1, 2)))
        b = stored(*(cell(*repeats(STEADY, slow=(0.7, 1.4)[one - 1]), concurrency=one) for one in (1, 2)))
        assert compare_runs([a], [b]).verdict is Difference.MIXED


class TestIntervals:
    def test_of_one_cell_it_is_student_s_t(self) -> None:
        """Two samples of the logarithms of three repeats: mean 0.1 apart, pooled deviation 0.1, t of four degrees 2.776."""
        a, b = (run([2.718281828459045 ** (x + by) for x in (-0.1, 0.0, 0.1)]) for by in (0.0, 0.1))
        low, high = overall(compare_runs([a], [b]))["e2eP50"].interval or (0, 0)
        half = 2.7764 * 0.1 * (2 / 3) ** 0.5
        assert (1 + low, 1 + high) == pytest.approx((2.71828 ** (0.1 - half), 2.71828 ** (0.1 + half)), rel=1e-4)

    def test_the_joint_interval_is_wider_and_grows_with_the_cells(self) -> None:
        widths = []
        for count in (1, 4, 16):
            shapes = [cell(*repeats(STEADY), concurrency=one + 1) for one in range(count)]
            found = compare_runs([stored(*shapes)], [stored(*shapes)])
            (own, joint) = (
                (one.interval, one.joint_interval) for one in [found.cells[CellKey(1000, 101, 1)][0]]
            ).__next__()
            assert own
            assert joint
            assert joint[1] > own[1]
            widths.append(joint[1])
        assert all(narrow < wide for narrow, wide in pairwise(widths))

    def test_requests_of_a_repeat_are_not_taken_for_independent(self) -> None:
        """A hundred times the requests of the same repeats leave the interval as it was."""
        few, many = (
            overall(compare_runs([run(requests=count)], [run((1.0, 1.05, 0.95, 1.02, 1.0), requests=count)]))["e2eP50"]
            for count in (10, 1000)
        )
        assert few.interval == pytest.approx(many.interval)

    def test_repeats_that_took_turns_are_compared_in_pairs(self) -> None:
        """The machine drifts by half, both sides alike: only pairs see through it."""
        drift = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5]
        a, b = (run(drift, slow=slow) for slow in (1.0, 1.1))
        a, b = [one.model_copy(update={"cells": [_moved(one.cells[0], by)]}) for one, by in ((a, 0), (b, 1))]
        assert compare_runs([a], [b]).alternating
        assert compare_runs([a], [b]).verdict is Difference.SLOWER
        apart = b.model_copy(update={"cells": [_moved(b.cells[0], 600)]})
        assert not compare_runs([a], [apart]).alternating
        assert compare_runs([a], [apart]).verdict is Difference.TOO_FEW

    def test_where_cells_were_measured_one_after_another_their_drift_widens_the_interval(self) -> None:
        levels = (1.0, 1.08, 0.93, 1.04)
        a = stored(*(cell(*repeats(STEADY, start=10 * n), concurrency=n + 1) for n in range(4)))
        blocked, swept = (
            stored(
                *(
                    cell(*repeats(STEADY, slow=level, start=100 + (10 * n if apart else 0)), concurrency=n + 1)
                    for n, level in enumerate(levels)
                )
            )
            for apart in (True, False)
        )
        found = compare_runs([a], [blocked])
        assert found.blocked
        assert (overall(found)["itlP50"].interval or (0, 0))[1] > 0.1
        assert not compare_runs([swept], [swept]).blocked

    def test_says_how_many_repeats_it_would_take(self) -> None:
        wild = (1.0, 1.12, 0.9, 1.05, 0.95)
        change = overall(compare_runs([run(wild)], [run(wild, start=60)]))["throughput"]
        assert change.verdict is Difference.TOO_FEW
        assert change.repeats_needed
        assert change.repeats_needed > 5
        steady = overall(compare_runs([run()], [run(start=60)]))["throughput"]
        assert steady.repeats_needed is not None
        assert steady.repeats_needed <= 4


def _moved(cell_: object, minutes: int) -> object:
    """The cell with repeats every two minutes, the first after some minutes."""
    moved = [
        one.model_copy(update={"started_at": at(2 * number + minutes)})
        for number, one in enumerate(cell_.repeats)  # type: ignore[attr-defined]
    ]
    return cell_.model_copy(update={"repeats": moved})  # type: ignore[attr-defined]


class TestWhatIsCompared:
    def test_cells_of_one_run_only_are_named_and_count_nowhere(self) -> None:
        a = stored(*(cell(*repeats(STEADY), concurrency=one) for one in (1, 2)))
        b = stored(*(cell(*repeats(STEADY, slow=3.0 if one == 4 else 1.0), concurrency=one) for one in (1, 4)))
        found = compare_runs([a], [b])
        assert [key.concurrency for key in found.only_a] == [2]
        assert [key.concurrency for key in found.only_b] == [4]
        assert found.verdict is Difference.NO_DIFFERENCE

    @pytest.mark.parametrize("status", ["skipped", "impossible"])
    def test_a_cell_that_is_no_result_is_not_compared(self, status: str) -> None:
        b = stored(cell(*repeats(STEADY, slow=2.0), status=status, why="x"))
        found = compare_runs([run()], [b])
        assert found.cells == {}
        assert [str(key) for key in found.only_a] == ["1 × 1000/101"]
        assert found.verdict is Difference.TOO_FEW

    def test_a_p99_of_few_requests_is_not_judged(self) -> None:
        found = overall(compare_runs([run(requests=19)], [run(requests=19, slow=1.5, start=60)]))
        assert found["ttftP99"].verdict is Difference.TOO_FEW
        assert found["ttftP50"].verdict is Difference.SLOWER

    def test_a_metric_that_one_run_lacks_is_left_out(self) -> None:
        """Answers of one token have no inter-token latency."""
        one_token = stored(cell(*(one.model_copy(update={"itl_s": []}) for one in repeats(STEADY))))
        found = overall(compare_runs([one_token], [run()]))
        assert set(found) == {one.id for one in METRICS} - {"itlP50", "itlP99"}

    def test_several_runs_of_a_side_are_one(self) -> None:
        parts = [run(STEADY[:2]), run(STEADY[2:], start=10)]
        whole = compare_runs([run()], [run(start=60)])
        assert compare_runs(parts, [run(start=60)]).overall == whole.overall


class TestFigures:
    def test_a_figure_is_of_one_repeat(self) -> None:
        one = repeat([float(second) for second in range(1, 102)], rate=42.0)
        assert THROUGHPUT.of(one) == 42.0
        assert TTFT_P50.of(one) == 51.0
        assert TTFT_P99.of(one) == 100.0
        assert E2E_P50.of(one) == 52.0

    def test_without_requests_there_is_none(self) -> None:
        failed = repeat([], rate=0.0)
        assert [metric.of(failed) for metric in METRICS] == [None] * len(METRICS)
        assert TTFT_P99.fewest_requests == ITL_P99.fewest_requests == 100


class TestTheBars:
    """A small count of what scripts/simulate_comparisons.py counts in full; the same seed gives the same pairs."""

    layout = Layout(cells=3, repeats=5, requests=16)

    def test_equal_runs_are_hardly_ever_called_different(self) -> None:
        found = list(comparisons(60, self.layout, USUAL, 0.0, seed=1))
        assert share(found, Difference.NO_DIFFERENCE, Difference.TOO_FEW) >= 0.95

    def test_a_server_that_is_slower_by_a_tenth_is_found(self) -> None:
        found = list(comparisons(30, self.layout, QUIET, 0.1, seed=2))
        assert share(found, Difference.SLOWER) >= 0.9

    def test_the_same_seed_invents_the_same_pair(self) -> None:
        pairs = [invented_pair(self.layout, USUAL, 0.1, random.Random(seed)) for seed in (1, 1, 2)]
        assert pairs[0] == pairs[1] != pairs[2]
