"""`gemma4 bench compare`: two stored benchmarks side by side, and what of their difference is noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from infra.benchmark.cell_key import CellKey
from infra.benchmark.run_comparison import (
    SOUGHT,
    TOLERANCE,
    Claims,
    Difference,
    MetricChange,
    RunComparison,
    compare_runs,
)
from infra.benchmark.stored_run import BenchmarkRun, load
from infra.benchmark.unlike_runs import Unlike, unlike
from infra.errors import Fault, RefusedError, SettingsError
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.comparison_answers import (
    CellChangesData,
    ChangeData,
    ComparedRunData,
    ComparisonAnswer,
    LoneCellData,
    OverallChangeData,
    UnlikeData,
)
from infra.ops.commands.bench_words import TITLES, read_change, read_interval, read_measured, sentence_of
from infra.planning.report.tables import Column, FittedTable
from infra.planning.report.terminal import NARROW, show
from infra.planning.units import counted

Form = Literal["text", "json", "markdown"]
STORED = "bench"
"""The folder in which `gemma4 bench` stores runs."""


@dataclass(frozen=True)
class _Sides:
    """The runs of both sides."""

    a: Sequence[BenchmarkRun]
    b: Sequence[BenchmarkRun]


def compare_answer(
    a: str,
    b: str,
    also_a: list[str] | None = None,
    also_b: list[str] | None = None,
    *,
    fail_if_slower: float | None = None,
    cells: bool = False,
    anyway: bool = False,
) -> ComparisonAnswer:
    """Return what is a difference between two stored runs, each a file or its id.

    `fail_if_slower` is a slowdown in percent that matters. Raises SettingsError for what is not a stored run, RefusedError for
    runs whose figures mean different things.
    """
    sides = _Sides(*([load_run(name) for name in (first, *(more or ()))] for first, more in ((a, also_a), (b, also_b))))
    differences = _examined(sides, anyway=anyway)
    sought = SOUGHT if fail_if_slower is None else fail_if_slower / 100
    claims = Claims(tolerance=min(TOLERANCE, sought / 2), sought=sought)
    found = compare_runs(sides.a, sides.b, claims)
    if not found.cells:
        raise RefusedError(
            [
                Fault(
                    "cells",
                    "A and B have no measured cell in common.",
                    f"A has {_listed(found.only_a)}; B has {_listed(found.only_b)}.",
                    "Measure B with the grid of A.",
                )
            ]
        )
    overall = [_overall(one) for one in found.overall]
    shown = {key: [one for one in row if cells or _certain(one)] for key, row in found.cells.items()}
    return ComparisonAnswer(
        verdict=found.verdict.value,
        sentence=sentence_of(found, claims),
        a=_side(sides.a, found.repeats_a),
        b=_side(sides.b, found.repeats_b),
        servers=[UnlikeData(what=one.what, a=one.a, b=one.b) for one in differences.servers],
        warnings=[*(str(one) for one in differences.refusals), *differences.warnings, *_warnings(found)],
        alternating=found.alternating,
        tolerance_percent=_brief(100 * claims.tolerance),
        sought_percent=_brief(100 * claims.sought),
        cells_compared=len(found.cells),
        overall=overall,
        cells=[
            CellChangesData(**vars(key), changes=[_change(one) for one in row]) for key, row in shown.items() if row
        ],
        lone_cells=[*_lone("A", found.only_a, sides.b), *_lone("B", found.only_b, sides.a)],
        too_slow=None if fail_if_slower is None else _too_slow(found, sides, sought),
    )


def show_comparison(answer: ComparisonAnswer, form: Form) -> None:
    """Print the answer."""
    if form == "json":
        print_answer(answer)
    elif form == "markdown":
        print("\n".join(_markdown(answer)))
    else:
        show(*_text(answer), columns=NARROW)


def load_run(name: str) -> BenchmarkRun:
    """Return a stored run by its file, or by its id in the folder of stored runs here. Raises SettingsError."""
    file = Path(name)
    if not file.exists() and not file.suffix and (inside := Path(STORED) / f"{name}.json").exists():
        file = inside
    return load(file)


def _examined(sides: _Sides, *, anyway: bool) -> Unlike:
    """Return in what the sides differ. Raises what makes a comparison senseless."""
    ids = [run.id for run in (*sides.a, *sides.b)]
    if len({*ids}) < len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise SettingsError.of(twice, "is named twice.", "A run is always like itself.", "Name two different runs.")
    for letter, side in (("A", sides.a), ("B", sides.b)):
        for other in side[1:]:
            found = unlike(side[0], other)
            if (found.servers or found.refusals) and not anyway:
                what = ", ".join([one.what for one in found.servers] + [one.key for one in found.refusals])
                raise RefusedError(
                    [
                        Fault(
                            letter,
                            f"{side[0].id} and {other.id} differ in {what}.",
                            "The runs of one side are taken together, so they must be of the same server.",
                            "Compare them one by one; or take them together --anyway.",
                        )
                    ]
                )
    found = unlike(sides.a[0], sides.b[0])
    if found.refusals and not anyway:
        raise RefusedError(found.refusals)
    return found


def _warnings(found: RunComparison) -> Iterator[str]:
    if found.blocked and not found.alternating:
        yield (
            "Repeats of a cell were measured one right after another, so that they do not show slow drift of the machine; "
            "the spread between cells stands in for it."
        )


def _too_slow(found: RunComparison, sides: _Sides, sought: float) -> bool | None:
    """Return whether B is slower by what is sought, or fails more often by a hundredth; None where that is not known."""
    changes = [*found.overall, *(one for row in found.cells.values() for one in row)]
    if any(one.verdict is Difference.SLOWER and one.slower_by >= sought for one in changes):
        return True
    if _failed(sides.b) > _failed(sides.a) + 0.01:
        return True
    return None if found.verdict is Difference.TOO_FEW else False


def _failed(runs: Sequence[BenchmarkRun]) -> float:
    """Return the share of requests that failed."""
    repeats = [repeat for run in runs for cell in run.cells for repeat in cell.repeats]
    return sum(one.failed for one in repeats) / max(1, sum(one.requests for one in repeats))


def _certain(change: MetricChange) -> bool:
    return change.verdict in (Difference.FASTER, Difference.SLOWER)


def _side(runs: Sequence[BenchmarkRun], repeats: int) -> ComparedRunData:
    first = runs[0]
    return ComparedRunData(
        ids=[run.id for run in runs],
        started_at=first.started_at,
        target=" ".join(filter(None, (first.target.stack or first.target.url, first.target.member))),
        vllm=first.versions.vllm,
        repeats=repeats,
    )


def _change(change: MetricChange) -> ChangeData:
    low, high = _percents(change.interval)
    return ChangeData(
        metric=change.metric.id,
        verdict=change.verdict.value,
        a=_brief(change.a),
        b=_brief(change.b),
        change_percent=_brief(100 * change.change),
        low_percent=low,
        high_percent=high,
    )


def _overall(change: MetricChange) -> OverallChangeData:
    low, high = _percents(change.joint_interval)
    return OverallChangeData(
        **vars(_change(change)),
        joint_low_percent=low,
        joint_high_percent=high,
        repeats_needed=change.repeats_needed,
    )


def _percents(interval: tuple[float, float] | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (_brief(100 * interval[0]), _brief(100 * interval[1]))


def _brief(value: float) -> float:
    """Return a measured value to four digits: more are noise, and a model's context is short."""
    return float(f"{value:.4g}")


def _lone(side: Literal["A", "B"], keys: Iterable[CellKey], others: Sequence[BenchmarkRun]) -> Iterator[LoneCellData]:
    """Yield the cells that only one side has, with what the other side says of them."""
    said = {CellKey.of(cell): f"{cell.status}: {cell.why}" for run in others for cell in run.cells}
    for key in keys:
        yield LoneCellData(side=side, **vars(key), why=said.get(key, "it was not asked for, or not reached"))


def _listed(keys: Sequence[CellKey]) -> str:
    return ", ".join(map(str, keys[:6])) + (f" and {len(keys) - 6} more" if len(keys) > 6 else "") or "none"


def _text(answer: ComparisonAnswer) -> Iterator[str | FittedTable]:
    """Yield what the two are and in what they differ, then the verdict, then figures."""
    for letter, side in (("A", answer.a), ("B", answer.b)):
        yield f"{letter}  {' + '.join(side.ids)}: {side.target}, vLLM {side.vllm}, {side.repeats} repeats of a cell"
    for one in answer.servers:
        yield f"   {one.what}: {one.a} in A, {one.b} in B"
    for warning in answer.warnings:
        yield f"Warning: {warning}"
    for lone in answer.lone_cells:
        yield f"Only in {lone.side}: {_name(lone)}; the other: {lone.why}"
    yield f"\n{answer.sentence}\n"
    figures = [Column("A", True, 1), Column("B", True, 1), Column("change", True), Column("95 % interval", True)]
    yield FittedTable(
        [Column("all cells"), *figures, Column("verdict")],
        [[TITLES[one.metric], *_cells(one)] for one in answer.overall],
    )
    rows = [
        [_name(cell) if number == 0 else "", TITLES[one.metric], *_cells(one)]
        for cell in answer.cells
        for number, one in enumerate(cell.changes)
    ]
    if rows:
        yield ""
        yield FittedTable([Column("cell"), Column("metric"), *figures, Column("verdict")], rows)
    yield f"\n{_legend(answer)}"


def _name(cell: CellChangesData | LoneCellData) -> str:
    return str(CellKey(cell.input_tokens, cell.output_tokens, cell.concurrency))


def _cells(change: ChangeData) -> list[str]:
    figures = [read_measured(change.metric, value) for value in (change.a, change.b)]
    interval = read_interval(change.low_percent, change.high_percent)
    return [*figures, read_change(change.change_percent), interval, change.verdict.removesuffix(" measurements")]


def _legend(answer: ComparisonAnswer) -> str:
    turns = "A and B took turns. " if answer.alternating else ""
    return (
        f"{turns}Faster, slower: more than {answer.tolerance_percent:g} % for certain, with at most 1 error in 20 comparisons "
        f"of {counted(answer.cells_compared, 'cell')} and {counted(len(answer.overall), 'metric')}. No difference: "
        f"{answer.sought_percent:g} % is excluded. Too few: neither is known, or a p99 of fewer than 100 requests."
    )


def _markdown(answer: ComparisonAnswer) -> Iterator[str]:
    """Yield a comment for a pull request."""
    sign = {"slower": "🔴 ", "faster": "🟢 ", "faster and slower": "🟠 "}.get(answer.verdict, "")
    yield f"### {sign}Benchmark: {answer.verdict}"
    yield f"\n{answer.sentence}\n"
    for letter, side in (("A", answer.a), ("B", answer.b)):
        yield f"- {letter}: `{' + '.join(side.ids)}` ({side.target}, vLLM {side.vllm}, {side.repeats} repeats)"
    yield from (f"- {one.what}: `{one.a}` in A, `{one.b}` in B" for one in answer.servers)
    yield from (f"- ⚠️ {warning}" for warning in answer.warnings)
    for lone in answer.lone_cells:
        yield f"- only in {lone.side}: {_name(lone)}; the other: {lone.why}"
    yield "\n| all cells | A | B | change | 95 % interval | verdict |\n|---|--:|--:|--:|--:|---|"
    yield from (f"| {TITLES[one.metric]} | {' | '.join(_cells(one))} |" for one in answer.overall)
    if answer.cells:
        yield "\n| cell | metric | A | B | change | 95 % interval | verdict |\n|---|---|--:|--:|--:|--:|---|"
    for cell in answer.cells:
        yield from (f"| {_name(cell)} | {TITLES[one.metric]} | {' | '.join(_cells(one))} |" for one in cell.changes)
    yield f"\n{_legend(answer)}"
