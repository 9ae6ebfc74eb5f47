"""Spells figures of benchmarks, and what a comparison of two found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infra.benchmark.repeat_figures import METRICS
from infra.benchmark.run_comparison import Claims, Difference, MetricChange, RunComparison
from infra.planning.units import counted

TITLES = {metric.id: metric.title for metric in METRICS}
"""By id, the name of a metric."""


def read_measured(metric: str, value: float) -> str:
    """Return a measured figure to three digits: 1,240 tok/s, 9.87 ms, 1.24 s."""
    if metric == "throughput":
        return f"{_digits(value)} tok/s"
    return f"{_digits(1000 * value)} ms" if value < 0.9995 else f"{_digits(value)} s"


def _digits(value: float) -> str:
    return f"{value:#.3g}".rstrip(".") if value < 999.5 else f"{value:,.0f}"


def read_change(percent: float | None) -> str:
    """Return a change with its sign: +9.8 %, −0.3 %, 0 %."""
    if percent is None:
        return "?"
    text = f"{abs(percent):.0f}" if abs(percent) >= 99.5 else f"{abs(percent):.1f}"
    return f"{'' if not float(text) else '+' if percent > 0 else '−'}{text} %"


def read_interval(low: float | None, high: float | None) -> str:
    """Return the two ends of a change: −1.2 to +3.4 %."""
    if low is None or high is None:
        return "not known"
    return f"{read_change(low).removesuffix(' %')} to {read_change(high)}"


def sentence_of(found: RunComparison, claims: Claims) -> str:
    """Return what a comparison found, in a few sentences."""
    return " ".join(_sentences(found, claims))


def _sentences(found: RunComparison, claims: Claims) -> Iterator[str]:
    for verdict, word in ((Difference.SLOWER, "slower"), (Difference.FASTER, "faster")):
        if over_all := found.named(verdict):
            yield f"B is {word} than A: {_changes(over_all)}."
        elif cells := [key for key, row in found.cells.items() if any(one.verdict is verdict for one in row)]:
            yield f"B is {word} than A in {len(cells)} of {counted(len(found.cells), 'cell')}: {_first(map(str, cells))}."
    sought = f"{100 * claims.sought:g} %"
    open_ = found.named(Difference.TOO_FEW)
    if found.verdict is Difference.NO_DIFFERENCE:
        known = [one.metric.title for one in found.named(Difference.NO_DIFFERENCE)]
        yield f"No difference: {sought} is excluded for {_and(known)}."
        if open_:
            yield f"Too few measurements to exclude it for {_and([one.metric.title for one in open_])}."
    elif found.verdict is Difference.TOO_FEW:
        yield from _undecided(found, open_, sought)


def _undecided(found: RunComparison, open_: Sequence[MetricChange], sought: str) -> Iterator[str]:
    if min(found.repeats_a, found.repeats_b) < 2:
        yield "Too few measurements: one repeat cannot show what is noise. Measure both with --repeats 5."
        return
    yield f"Too few measurements: a difference of {sought} may hide in {_changes(open_, interval=True)}."
    needed = [one.repeats_needed for one in open_ if one.metric.percent != 99]
    if needed and None not in needed:
        most = max(count for count in needed if count is not None)
        more = max(most, 1 + min(found.repeats_a, found.repeats_b))
        yield f"About {more} repeats of each would show it (--repeats {more}), taking turns if the machine is not quiet."
    else:
        yield "The machine is too uneven for any reasonable number of repeats; measure where nothing else runs."


def _changes(changes: Sequence[MetricChange], *, interval: bool = False) -> str:
    """Return metrics with their changes, in words."""

    def one(change: MetricChange) -> str:
        said = read_change(100 * change.change)
        if interval and change.interval:
            said = read_interval(*(100 * end for end in change.interval))
        return f"{change.metric.title} {said}"

    return _and([one(change) for change in changes])


def _first(names: Iterator[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:5]) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "nothing"
