"""Turns stored runs into what is drawn of them: lines of points with their uncertainty, and the tables of the same figures.

A cell that was skipped or is impossible is never a point; `left_out` lists it with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from infra.benchmark.cell_key import CellKey, measured_cells
from infra.benchmark.stored_run import BenchmarkRun, Cell
from infra.benchmark.summary import CellSummary, Latency, summary_of

Read = Callable[[CellSummary], "Latency | None"]


@dataclass(frozen=True)
class LabelledRun:
    """A run with the short name by which plots and tables call it."""

    label: str
    run: BenchmarkRun


@dataclass(frozen=True)
class PlotPoint:
    """A cell in a plot. `x` and `y` are its position; low, ninety and high are None where they are not known."""

    key: CellKey
    x: float
    y: float
    x_low: float | None = None
    x_high: float | None = None
    y_low: float | None = None
    y_ninety: float | None = None
    """The 90th percentile, between `y` (the median) and `y_high` (the 99th)."""
    y_high: float | None = None


@dataclass(frozen=True)
class PlotLine:
    """The points of one run, in the order of concurrency. `number` counts runs from 0: it chooses colour and marker."""

    label: str
    number: int
    points: tuple[PlotPoint, ...]


@dataclass(frozen=True)
class PlotPanel:
    """All runs at one pair of lengths."""

    title: str
    lines: tuple[PlotLine, ...]


@dataclass(frozen=True)
class Plot:
    """A picture of one or more panels that share their axes, and its table."""

    id: str
    """Also the name of its PNG file."""
    title: str
    reading: str
    """How to read it, in a sentence or two."""
    x_label: str
    y_label: str
    x_counts: bool
    """Whether x is a concurrency, whose values double."""
    panels: tuple[PlotPanel, ...]
    heads: tuple[str, ...]
    """Of the table."""
    rows: tuple[tuple[str, ...], ...]

    @property
    def summary(self) -> str:
        """What the picture shows, in words, for those who do not see it."""
        lines = [f"{self.title}. {self.x_label} against {self.y_label}."]
        for panel in self.panels:
            for line in panel.lines:
                first, last = line.points[0], line.points[-1]
                lines.append(
                    f"{line.label}, {panel.title}: from {_at(self, first)}"
                    + (f" to {_at(self, last)}." if last is not first else ".")
                )
        return " ".join(lines)


def _at(plot: Plot, point: PlotPoint) -> str:
    counted = "" if plot.x_counts else f" with {point.key.concurrency} at a time"
    x = f"{point.x:,.0f}" if plot.x_counts else digits(point.x)
    return f"{digits(point.y)} at {x}{counted}"


def digits(value: float) -> str:
    """Return a figure to three digits, whole from a thousand on: 9.87, 31.0, 240, 1,240."""
    return f"{value:#.3g}".rstrip(".") if 0.001 <= abs(value) < 999.5 else f"{value:,.0f}" if value else "0"


def labelled(runs: Sequence[BenchmarkRun]) -> list[LabelledRun]:
    """Return runs with names that tell them apart: the target, where that is not the same twice; else the id."""
    names = [" ".join(filter(None, (run.target.stack or run.target.url, run.target.member))) for run in runs]
    if len({*names}) < len(names):
        names = [run.id for run in runs]
    letters = "ABCDEFGH"
    single = len(runs) == 1
    return [
        LabelledRun(name if single else f"{letters[at]} {name}", run)
        for at, (name, run) in enumerate(zip(names, runs, strict=True))
    ]


def plots_of(runs: Sequence[LabelledRun]) -> list[Plot]:
    """Return the plots that the runs have figures for; the one of prices only where a plan gives one."""
    plots: list[Plot] = [
        _latency_plot(
            runs,
            "throughput-ttft",
            "Time to first token against throughput",
            "time to first token",
            lambda one: one.ttft,
        ),
        _latency_plot(
            runs,
            "throughput-inter-token",
            "Inter-token latency against throughput",
            "inter-token latency",
            lambda one: one.itl,
        ),
        _ttft_by_concurrency(runs),
        _price_plot(runs),
    ]
    return [plot for plot in plots if plot.panels]


def left_out(runs: Sequence[LabelledRun]) -> list[tuple[str, str, str, str]]:
    """Return run, cell, state and reason of every cell that is not drawn."""
    found: list[tuple[str, str, str, str]] = [
        (one.label, str(CellKey.of(cell)), cell.status, cell.why)
        for one in runs
        for cell in one.run.cells
        if cell.status != "measured" or not cell.repeats
    ]
    for one in runs:
        done = {CellKey.of(cell) for cell in one.run.cells}
        for shape in one.run.settings.grid:
            key = CellKey(shape.input_tokens, shape.output_tokens, shape.concurrency)
            if key not in done:
                found.append((one.label, str(key), "not measured", "the run ended before it"))
    return found


def _latency_plot(runs: Sequence[LabelledRun], name: str, title: str, what: str, read: Read) -> Plot:
    scale, unit = _scale(runs, read)

    def point(key: CellKey, found: CellSummary, run: BenchmarkRun) -> PlotPoint | None:
        times, rate = read(found), found.output_tokens_per_second
        if times is None:
            return None
        y, ninety, high = (scale * second for second in (times.p50, times.p90, times.p99))
        return PlotPoint(key, rate.mean, y, rate.low, rate.high, y_ninety=ninety, y_high=high)

    panels = tuple(_panels(runs, point))
    rate_head = "output tok/s, 95 % interval"
    return Plot(
        id=name,
        title=title,
        reading="Each point is a number of requests at a time, written beside it where there is room. It stands at the median; "
        "the thick bar ends at the 90th percentile, the thin one at the 99th. The bar across is the 95 % interval of the "
        "throughput. Each panel has scales of its own.",
        x_label="output tokens per second, all requests together",
        y_label=f"{what}, {unit}",
        x_counts=False,
        panels=panels,
        heads=("run", "at a time", "tokens in/out", rate_head, *(f"{p}, {unit}" for p in ("p50", "p90", "p99"))),
        rows=tuple(_rows(panels, lambda one: (_between(one.x, one.x_low, one.x_high), *_percentiles(one)))),
    )


def _ttft_by_concurrency(runs: Sequence[LabelledRun]) -> Plot:
    scale, unit = _scale(runs, lambda one: one.ttft)

    def point(key: CellKey, found: CellSummary, run: BenchmarkRun) -> PlotPoint | None:
        if found.ttft is None:
            return None
        y, ninety, high = (scale * second for second in (found.ttft.p50, found.ttft.p90, found.ttft.p99))
        return PlotPoint(key, key.concurrency, y, y_ninety=ninety, y_high=high)

    panels = tuple(_panels(runs, point))
    return Plot(
        id="ttft-concurrency",
        title="Time to first token against concurrency",
        reading="The point is the median; the thick bar ends at the 90th percentile, the thin one at the 99th. Where more "
        "requests come than the server runs at once, this contains their wait.",
        x_label="requests at a time",
        y_label=f"time to first token, {unit}",
        x_counts=True,
        panels=panels,
        heads=("run", "at a time", "tokens in/out", *(f"{p}, {unit}" for p in ("p50", "p90", "p99"))),
        rows=tuple(_rows(panels, _percentiles)),
    )


def _price_plot(runs: Sequence[LabelledRun]) -> Plot:
    def point(key: CellKey, found: CellSummary, run: BenchmarkRun) -> PlotPoint | None:
        if run.plan is None:
            return None
        rate = found.output_tokens_per_second
        low, mid, high = (usd_per_million(run, one) for one in (rate.high, rate.mean, rate.low))
        return None if mid is None else PlotPoint(key, key.concurrency, mid, y_low=low, y_high=high)

    panels = tuple(_panels(runs, point))
    said = "; ".join(f"{one.label}: {price_of(one.run)}" for one in runs if one.run.plan)
    return Plot(
        id="usd-concurrency",
        title="Price of a million output tokens against concurrency",
        reading=f"A price computed, not measured: of one hour by the tokens of an hour. {said}. Only while this many requests "
        "come all the time; the bar is the 95 % interval of the throughput.",
        x_label="requests at a time",
        y_label="$ per million output tokens",
        x_counts=True,
        panels=panels,
        heads=("run", "at a time", "tokens in/out", "$ per million output tokens, 95 % interval"),
        rows=tuple(_rows(panels, lambda one: (_between(one.y, one.y_low, one.y_high),))),
    )


def usd_per_million(run: BenchmarkRun, tokens_per_second: float | None) -> float | None:
    """Return what a million output tokens cost at a rate; None without a plan or a rate above 0."""
    if run.plan is None or tokens_per_second is None or tokens_per_second <= 0:
        return None
    return run.plan.usd_per_hour / 3600 / tokens_per_second * 1e6


def price_of(run: BenchmarkRun) -> str:
    """Return the price behind a run with its date, e.g. $0.71/hour, list price when planned on 22 November 2026."""
    if run.plan is None:
        return "no price is known"
    return f"${run.plan.usd_per_hour:.2f}/hour for one replica, list price as planned on {read_day(run.started_at)}"


def read_day(moment: str) -> str:
    """Return the day of a moment in RFC 3339: 22 November 2026."""
    day = datetime.fromisoformat(moment)
    return f"{day.day} {day:%B %Y}"


def _scale(runs: Sequence[LabelledRun], read: Read) -> tuple[float, str]:
    """Return the factor and the unit in which all of some times are easy to read."""
    times = [read(found) for one in runs for _, found in _summaries(one.run)]
    longest = max((time.p50 for time in times if time), default=0.0)
    return (1.0, "s") if longest >= 2 else (1000.0, "ms")


def _summaries(run: BenchmarkRun) -> Iterator[tuple[CellKey, CellSummary]]:
    for key, cell in measured_cells(run).items():
        if found := summary_of(cell):
            yield key, found


def _panels(
    runs: Sequence[LabelledRun], point: Callable[[CellKey, CellSummary, BenchmarkRun], PlotPoint | None]
) -> Iterator[PlotPanel]:
    """Yield a panel for each pair of lengths, the shortest first."""
    drawn = [
        (number, one, found)
        for number, one in enumerate(runs)
        for key, summary in _summaries(one.run)
        if (found := point(key, summary, one.run))
    ]
    for lengths in sorted({(found.key.input_tokens, found.key.output_tokens) for _, _, found in drawn}):
        lines = []
        for number, one in enumerate(runs):
            points = [
                found
                for other, _, found in drawn
                if other == number and (found.key.input_tokens, found.key.output_tokens) == lengths
            ]
            if points:
                lines.append(PlotLine(one.label, number, tuple(sorted(points, key=lambda found: found.key))))
        yield PlotPanel(f"{lengths[0]:,} tokens in, {lengths[1]:,} out{_workload(runs, lengths)}", tuple(lines))


def _workload(runs: Sequence[LabelledRun], lengths: tuple[int, int]) -> str:
    """Return the recipe's name of two lengths, where a run gives one."""

    def has(cell: Cell) -> bool:
        return (cell.input_tokens, cell.output_tokens) == lengths and bool(cell.workload)

    names = {cell.workload for one in runs for cell in one.run.cells if has(cell)}
    return f" ({', '.join(sorted(names))})" if names else ""


def _rows(panels: Sequence[PlotPanel], cells: Callable[[PlotPoint], tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    for panel in panels:
        for line in panel.lines:
            for point in line.points:
                yield line.label, str(point.key.concurrency), point.key.lengths, *cells(point)


def _percentiles(point: PlotPoint) -> tuple[str, ...]:
    return tuple(digits(value) for value in (point.y, point.y_ninety, point.y_high) if value is not None)


def _between(value: float, low: float | None, high: float | None) -> str:
    """Return a figure with its interval: 112 (109 to 115)."""
    if low is None or high is None:
        return f"{digits(value)} (one repeat)"
    return f"{digits(value)} ({digits(low)} to {digits(high)})"
