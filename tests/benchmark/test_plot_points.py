"""What is drawn of stored runs: every figure is the stored run's, and what is no result is never drawn."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from infra.benchmark.plot_points import digits, labelled, left_out, plots_of, price_of
from infra.benchmark.stored_run import BenchmarkRun, PlannedServer, Shape
from infra.planning.report.data_models import BandData
from tests.benchmark.runs import cell, repeat, stored
from tests.benchmark.test_run_comparison import STEADY, repeats

PLANNED = PlannedServer(
    model="gemma-4-12b-it-qat-w4a16",
    accelerator="l4",
    usd_per_hour=0.72,
    kv_tokens=BandData(low=1, mid=2, high=3),
    flags=[],
    row={},
)


def grid_run(**changed: Any) -> BenchmarkRun:
    """Three cells of one length and one of another; one more was skipped, and one is impossible."""
    cells = [
        *(cell(*repeats([level * count for level in STEADY]), concurrency=count) for count in (4, 1, 2)),
        cell(*repeats(STEADY), concurrency=1, input_tokens=4000, output_tokens=64, workload="chat"),
        cell(concurrency=64, status="skipped", why="no room for 64"),
        cell(*repeats([0.001]), concurrency=128, status="impossible", why="faster than the machine"),
    ]
    return stored(*cells, **changed)


def test_lines_rise_with_concurrency_and_panels_with_length() -> None:
    plot = plots_of(labelled([grid_run()]))[0]
    assert [panel.title for panel in plot.panels] == ["1,000 tokens in, 101 out", "4,000 tokens in, 64 out (chat)"]
    assert [point.key.concurrency for point in plot.panels[0].lines[0].points] == [1, 2, 4]


def test_what_is_no_result_is_listed_and_never_drawn() -> None:
    runs = labelled([grid_run()])
    drawn = {
        point.key.concurrency
        for plot in plots_of(runs)
        for one in plot.panels
        for line in one.lines
        for point in line.points
    }
    assert drawn == {1, 2, 4}
    assert {row[1] for plot in plots_of(runs) for row in plot.rows} == {"1", "2", "4"}
    assert [(row[2], row[3]) for row in left_out(runs)] == [
        ("skipped", "no room for 64"),
        ("impossible", "faster than the machine"),
    ]


def test_a_cell_that_an_interrupted_run_did_not_reach_is_listed() -> None:
    run = grid_run(complete=False)
    more = Shape(concurrency=256, input_tokens=1000, output_tokens=101, workload="")
    run = run.model_copy(update={"settings": run.settings.model_copy(update={"grid": [*run.settings.grid, more]})})
    assert left_out(labelled([run]))[-1][1:] == ("256 × 1000/101", "not measured", "the run ended before it")


def test_a_table_has_the_figures_of_its_picture_and_of_the_run() -> None:
    (first, second, third) = ([0.1, 0.2, 0.3], [0.2, 0.3, 0.4], [0.3, 0.4, 0.5])
    run = stored(cell(*(repeat(times, rate=rate) for times, rate in ((first, 90.0), (second, 100.0), (third, 110.0)))))
    plot = plots_of(labelled([run]))[0]
    ((_, _, _, rate, p50, p90, p99),) = plot.rows
    pooled = statistics.quantiles([*first, *second, *third], n=100, method="inclusive")
    assert [p50, p90, p99] == [digits(1000 * pooled[at]) for at in (49, 89, 98)]
    assert rate == "100 (75.2 to 125)"  # 4.303 × 10 / sqrt(3) on each side
    (point,) = plot.panels[0].lines[0].points
    assert (point.x, point.y, point.y_ninety, point.y_high) == pytest.approx(
        (100.0, *(1000 * pooled[at] for at in (49, 89, 98)))
    )


def test_a_price_needs_a_plan_and_says_its_day() -> None:
    without, priced = ({plot.id: plot for plot in plots_of(labelled([grid_run(plan=one)]))} for one in (None, PLANNED))
    assert "usd-concurrency" not in without
    plot = priced["usd-concurrency"]
    mean = statistics.fmean(one.output_tokens_per_second for one in grid_run().cells[1].repeats)
    point = plot.panels[0].lines[0].points[0]
    assert point.y == pytest.approx(0.72 / 3600 / mean * 1e6)
    assert point.y_low is not None
    assert point.y_high is not None
    assert point.y_low < point.y < point.y_high
    assert "A price computed, not measured" in plot.reading
    assert "$0.72/hour for one replica, list price as planned on 22 November 2026" in plot.reading
    assert price_of(grid_run()) == "no price is known"


def test_a_run_without_a_metric_has_no_such_plot() -> None:
    one_token = stored(cell(repeat(itl_s=[]), output_tokens=1))
    assert [plot.id for plot in plots_of(labelled([one_token]))] == ["throughput-ttft", "ttft-concurrency"]
    assert plots_of(labelled([stored()])) == []


def test_runs_of_one_target_are_told_apart_by_their_ids() -> None:
    assert [one.label for one in labelled([stored(id="x"), stored(id="y")])] == ["A x", "B y"]
    other = stored().target.model_copy(update={"stack": "l4"})
    assert [one.label for one in labelled([stored(), stored(target=other)])] == ["A http://127.0.0.1:8900", "B l4"]


def test_long_times_are_in_seconds() -> None:
    slow = stored(cell(repeat([4.0, 5.0])))
    assert plots_of(labelled([slow]))[0].y_label == "time to first token, s"
    assert plots_of(labelled([grid_run()]))[0].y_label == "time to first token, ms"


def test_the_words_for_those_who_do_not_see_it_name_each_line_with_both_ends() -> None:
    runs = labelled([grid_run(id="x"), grid_run(id="y")])
    said = plots_of(runs)[2].summary
    assert said.count("from ") == 4
    assert "A x, 1,000 tokens in, 101 out: from 149 at 1 to 595 at 4." in said


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (9.8765, "9.88"), (31, "31.0"), (240.4, "240"), (1240.2, "1,240")]
)
def test_figures_have_three_digits(value: float, text: str) -> None:
    assert digits(value) == text
