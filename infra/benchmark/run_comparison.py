"""Says of two runs what is a difference and what is noise, for each cell and metric and for the run as a whole.

The unit is the repeat, never the request: requests of one repeat share a batch, and repeats drift. Each repeat gives one
figure per metric, and intervals are Student's t on the logarithms of these figures.

A change is claimed by intervals that hold all together in 95 of 100 comparisons (Bonferroni): four fifths of the error go to
the metrics of the whole run, one fifth to those of single cells. "No difference" is claimed by the metric's own 95 %
interval, since a false claim needs every metric to miss. docs/benchmarks.md says what that finds and how often it errs;
scripts/simulate_comparisons.py counts it.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from infra.benchmark.cell_key import CellKey, measured_cells
from infra.benchmark.repeat_figures import DECISIVE, METRICS, BenchmarkMetric
from infra.benchmark.stored_run import BenchmarkRun, Repeat
from infra.benchmark.student_t import t_quantile

ERROR = 0.05
"""Share of comparisons in which any change may be claimed that is not there."""
SHARE_OF_RUN = 0.8
"""Of ERROR, what the metrics of the whole run take."""
TOLERANCE = 0.02
"""Changes up to this are called no difference even where they are certain: two runs of the same server at two moments
differ so much by themselves (docs/benchmarks.md), and repeats of one run cannot show it."""
SOUGHT = 0.10
"""The change that a comparison must be able to exclude before it says "no difference"."""
POWER = 0.9
"""How often the sought change should be found where a number of repeats is suggested."""
PAIRED_FROM = 6
"""Repeats from which alternating ones are compared in pairs: with fewer, pairs lose more certainty by the halved degrees of
freedom than they win from drift, which alternating keeps out of the means in either case."""
MOST_REPEATS = 99
"""Beyond it no number of repeats is suggested."""


class Difference(StrEnum):
    """What an interval says."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference"
    TOO_FEW = "too few measurements"
    MIXED = "faster and slower"
    """Of a whole run only."""


@dataclass(frozen=True)
class MetricChange:
    """The change of one metric from A to B. `a` and `b` are geometric means over the repeats (and cells); changes are
    fractions of A: 0.1 for ten percent more."""

    metric: BenchmarkMetric
    verdict: Difference
    a: float
    b: float
    change: float
    interval: tuple[float, float] | None
    """Of the change, 95 % for this metric alone; None without two repeats a side."""
    joint_interval: tuple[float, float] | None
    """Of the change, such that all joint intervals of a comparison hold in 95 of 100 comparisons."""
    repeats_needed: int | None
    """Repeats of each run that would find the change that is sought nine times in ten at this noise; None where unknown."""

    @property
    def slower_by(self) -> float:
        """How much slower B is, as a fraction: of a throughput by how much it sank, of a time by how much it grew."""
        return -self.change if self.metric.higher_is_better else self.change


@dataclass(frozen=True)
class RunComparison:
    """Two runs side by side."""

    verdict: Difference
    alternating: bool
    """Whether repeats of A and B took turns, so that drift of the machine meets both alike."""
    blocked: bool
    """Whether all repeats of a cell were measured before the next cell, so that repeats do not show slow drift."""
    overall: tuple[MetricChange, ...]
    """One a metric, over all shared cells."""
    cells: Mapping[CellKey, tuple[MetricChange, ...]]
    only_a: tuple[CellKey, ...]
    only_b: tuple[CellKey, ...]
    """Cells that were measured in one run only."""
    repeats_a: int
    repeats_b: int

    def named(self, *verdicts: Difference) -> list[MetricChange]:
        """Return the estimates of the whole run that have one of some verdicts."""
        return [one for one in self.overall if one.verdict in verdicts]


@dataclass(frozen=True)
class Claims:
    """What changes are to be told apart, as fractions."""

    tolerance: float = TOLERANCE
    """A change up to this does not count as one."""
    sought: float = SOUGHT
    """A change of this size must be excluded before it says "no difference"."""


def compare_runs(a: Sequence[BenchmarkRun], b: Sequence[BenchmarkRun], claims: Claims | None = None) -> RunComparison:
    """Return the comparison of two runs, or of several runs of each side, whose repeats are then taken together."""
    claims = claims or Claims()
    before, after = _measured(a), _measured(b)
    shared = [key for key in before if key in after]
    paired = _alternate(before, after)
    blocked = any(_is_blocked(run) for run in (*a, *b))
    per_cell: dict[CellKey, tuple[MetricChange, ...]] = {}
    series = {key: _Series(before[key], after[key], paired) for key in shared}
    run_error = ERROR * (SHARE_OF_RUN if len(shared) > 1 else 1) / len(METRICS)
    cell_error = ERROR * (1 - SHARE_OF_RUN if len(shared) > 1 else 1) / len(METRICS) / max(1, len(shared))
    for key in shared:
        found = (_cell_estimate(metric, series[key], cell_error, claims) for metric in METRICS)
        per_cell[key] = tuple(one for one in found if one)
    whole = (_run_estimate(metric, list(series.values()), blocked, run_error, claims) for metric in METRICS)
    overall = tuple(one for one in whole if one)
    return RunComparison(
        verdict=_verdict_of_run(overall, per_cell),
        alternating=paired,
        blocked=blocked,
        overall=overall,
        cells=per_cell,
        only_a=tuple(key for key in before if key not in after),
        only_b=tuple(key for key in after if key not in before),
        repeats_a=min((len(before[key]) for key in shared), default=0),
        repeats_b=min((len(after[key]) for key in shared), default=0),
    )


def _measured(runs: Sequence[BenchmarkRun]) -> dict[CellKey, list[Repeat]]:
    """Return the repeats of every measured cell in the order of time."""
    found: dict[CellKey, list[Repeat]] = {}
    for run in sorted(runs, key=lambda run: run.started_at):
        for key, cell in measured_cells(run).items():
            found.setdefault(key, []).extend(cell.repeats)
    return found


def _alternate(before: Mapping[CellKey, Sequence[Repeat]], after: Mapping[CellKey, Sequence[Repeat]]) -> bool:
    """Return whether in every shared cell the repeats of the two sides took turns: A B A B, or A B B A."""
    shared = [key for key in before if key in after]
    for key in shared:
        sides = [(one.started_at, "a") for one in before[key]] + [(one.started_at, "b") for one in after[key]]
        order = [side for _, side in sorted(sides)]
        turns = [{*order[at : at + 2]} for at in range(0, len(order), 2)]
        if len(turns) < 2 or any(turn != {"a", "b"} for turn in turns):
            return False
    return bool(shared)


def _is_blocked(run: BenchmarkRun) -> bool:
    """Return whether the repeats of each cell follow one another, with other cells before or after them."""
    cells = [cell.repeats for cell in measured_cells(run).values() if len(cell.repeats) > 1]
    spans = sorted((repeats[0].started_at, repeats[-1].started_at) for repeats in cells)
    return len(spans) > 1 and all(end < start for (_, end), (start, _) in itertools.pairwise(spans))


@dataclass(frozen=True)
class _Series:
    """The repeats of one cell in both runs, in the order of time."""

    a: Sequence[Repeat]
    b: Sequence[Repeat]
    paired: bool


@dataclass(frozen=True)
class _Change:
    """The mean change of the logarithm of a figure, its standard error, and the degrees of freedom behind that error."""

    a: float
    b: float
    error: float
    freedom: int
    deviation: float
    """Of one repeat."""


def _logs(metric: BenchmarkMetric, repeats: Iterable[Repeat]) -> list[float]:
    return [math.log(figure) for repeat in repeats if (figure := metric.of(repeat)) is not None]


def _change(a: Sequence[float], b: Sequence[float], paired: bool) -> _Change:
    """Return the change between logarithms of figures. With fewer than two repeats a side there is no freedom."""
    means = statistics.fmean(a), statistics.fmean(b)
    if len(a) < 2 or len(b) < 2:
        return _Change(*means, math.inf, 0, math.inf)
    if paired and len(a) == len(b) >= PAIRED_FROM:
        deviation = statistics.stdev(after - before for before, after in zip(a, b, strict=True))
        return _Change(*means, deviation / math.sqrt(len(a)), len(a) - 1, deviation / math.sqrt(2))
    freedom = len(a) + len(b) - 2
    variance = ((len(a) - 1) * statistics.variance(a) + (len(b) - 1) * statistics.variance(b)) / freedom
    return _Change(*means, math.sqrt(variance * (1 / len(a) + 1 / len(b))), freedom, math.sqrt(variance))


def _cell_estimate(metric: BenchmarkMetric, series: _Series, error: float, claims: Claims) -> MetricChange | None:
    a, b = _logs(metric, series.a), _logs(metric, series.b)
    if not a or not b:
        return None
    change = _change(a, b, series.paired)
    return _estimate(metric, [change], error, claims, enough=_enough(metric, [series]))


def _run_estimate(
    metric: BenchmarkMetric, series: Sequence[_Series], blocked: bool, error: float, claims: Claims
) -> MetricChange | None:
    """Return the estimate over all cells that have the metric, each of the same weight; of a percentile that needs many
    requests, over those that have them where there are any."""
    having = [one for one in series if _logs(metric, one.a) and _logs(metric, one.b)]
    if not having:
        return None
    having = [one for one in having if _enough(metric, [one])] or having
    rows_a = list(zip(*(_logs(metric, one.a) for one in having), strict=False))  # as many sweeps as every cell has
    rows_b = list(zip(*(_logs(metric, one.b) for one in having), strict=False))
    means = [[statistics.fmean(row) for row in rows] for rows in (rows_a, rows_b)]
    sweeps = _change(means[0], means[1], having[0].paired)
    changes = [sweeps]
    if blocked and len(having) > 2:
        changes.append(_across_cells(metric, having, sweeps))
    return _estimate(metric, changes, error, claims, enough=_enough(metric, having))


def _across_cells(metric: BenchmarkMetric, series: Sequence[_Series], sweeps: _Change) -> _Change:
    """Return the change with the error that the cells' own changes show: each cell was measured at another moment, so
    that slow drift moves them apart."""
    moved = [statistics.fmean(_logs(metric, one.b)) - statistics.fmean(_logs(metric, one.a)) for one in series]
    error = statistics.stdev(moved) / math.sqrt(len(moved))
    return _Change(sweeps.a, sweeps.b, error, len(moved) - 1, sweeps.deviation)


def _enough(metric: BenchmarkMetric, series: Sequence[_Series]) -> bool:
    """Return whether every cell has the requests that a percentile needs."""
    if metric.times is None:
        return True
    counts = [sum(len(getattr(repeat, metric.times)) for repeat in side) for one in series for side in (one.a, one.b)]
    return min(counts) >= metric.fewest_requests


def _estimate(
    metric: BenchmarkMetric, changes: Sequence[_Change], error: float, claims: Claims, *, enough: bool
) -> MetricChange:
    """Return the estimate by the widest of the intervals that `changes` give."""
    moved = changes[0].b - changes[0].a
    own, joint = (_half_width(changes, share) for share in (ERROR, error))
    return MetricChange(
        metric=metric,
        verdict=_verdict(metric, moved, own, joint, claims) if enough else Difference.TOO_FEW,
        a=math.exp(changes[0].a),
        b=math.exp(changes[0].b),
        change=math.expm1(moved),
        interval=_interval(moved, own),
        joint_interval=_interval(moved, joint),
        repeats_needed=_repeats_needed(changes[0].deviation, error, claims) if math.isfinite(own) else None,
    )


def _half_width(changes: Sequence[_Change], error: float) -> float:
    """Return half of the widest interval that misses with a probability of `error`, infinite without freedom."""
    return max(one.error * t_quantile(1 - error / 2, one.freedom) if one.freedom else math.inf for one in changes)


def _interval(moved: float, half: float) -> tuple[float, float] | None:
    return (math.expm1(moved - half), math.expm1(moved + half)) if math.isfinite(half) else None


def _verdict(metric: BenchmarkMetric, moved: float, own: float, joint: float, claims: Claims) -> Difference:
    """Return what is claimed of a change of logarithms, given half the widths of its own and its joint interval."""
    slowed = -moved if metric.higher_is_better else moved
    tolerated, sought = math.log1p(claims.tolerance), math.log1p(claims.sought)
    if slowed - joint > tolerated:
        return Difference.SLOWER
    if slowed + joint < -tolerated:
        return Difference.FASTER
    return Difference.NO_DIFFERENCE if abs(moved) + own < sought else Difference.TOO_FEW


def _repeats_needed(deviation: float, error: float, claims: Claims) -> int | None:
    """Return the repeats of each run with which the sought change is found with POWER, if repeats deviate so."""
    room = math.log1p(claims.sought) - math.log1p(claims.tolerance)
    for repeats in range(2, MOST_REPEATS + 1):
        freedom = 2 * repeats - 2
        width = t_quantile(1 - error / 2, freedom) + t_quantile(POWER, freedom)
        if width * deviation * math.sqrt(2 / repeats) <= room:
            return repeats
    return None


def _verdict_of_run(overall: Sequence[MetricChange], cells: Mapping[CellKey, Sequence[MetricChange]]) -> Difference:
    """Return the verdict of the whole: any certain change of the run or of a cell counts; no difference only where every
    decisive metric is known to differ by less than what is sought."""
    said = {one.verdict for one in overall} | {one.verdict for one in _estimates(cells)}
    if {Difference.FASTER, Difference.SLOWER} <= said:
        return Difference.MIXED
    for verdict in (Difference.SLOWER, Difference.FASTER):
        if verdict in said:
            return verdict
    decisive = [one.verdict for one in overall if one.metric in DECISIVE]
    known = bool(decisive) and all(one is Difference.NO_DIFFERENCE for one in decisive)
    return Difference.NO_DIFFERENCE if known else Difference.TOO_FEW


def _estimates(cells: Mapping[CellKey, Sequence[MetricChange]]) -> Iterator[MetricChange]:
    for estimates in cells.values():
        yield from estimates
