"""What is shown of a benchmark: a row a cell, then why cells are missing and what to know of the others."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from infra.ops.answers.benchmark_answers import BenchAnswer, BenchCell, IntervalData, LatencyData
from infra.planning.report.tables import Column, FittedTable
from infra.planning.report.terminal import unbroken
from infra.planning.units import counted, read_rate

_PROMPTS = {
    "unique": "prompts unique: no prefix cache answers for the model",
    "shared": "prompts shared: each begins with the same half, which the prefix cache may hold",
}


def bench_lines(answer: BenchAnswer) -> Iterator[RenderableType]:
    """Yield what to print of a benchmark."""
    name = answer.stack or answer.url
    member = f" slice {answer.member}" if answer.member else ""
    yield f"{name}{member}  {answer.model}  vLLM {answer.vllm or 'of unknown version'}"
    yield _PROMPTS[answer.prefix_cache]
    yield f"answers of forced length, temperature 0; {counted(answer.repeats, 'repeat')} of each cell"
    measured = [cell for cell in answer.cells if cell.status == "measured"]
    if measured:
        heads = (
            "tok/s",
            "first token\np50/p90/p99",
            "between tokens\np50/p90/p99",
            "end to end\np50/p90/p99",
        )
        columns = [Column("clients\n× in/out"), *(Column(head, figures=True) for head in heads)]
        yield ""
        yield FittedTable(columns, [_row(cell) for cell in measured])
    others = [f"{cell.status}: {_name(cell)}: {cell.why}" for cell in answer.cells if cell.status != "measured"]
    notes = [f"note: {_name(cell)}: {note}" for cell in measured for note in cell.notes]
    if others or notes:
        yield ""
    yield from (*others, *notes)
    yield ""
    yield unbroken([f"every request is stored in {answer.file}"])


def _row(cell: BenchCell) -> list[str]:
    times = (cell.ttft_s, cell.itl_s, cell.e2e_s)
    return [_name(cell), _rate(cell.output_tokens_per_second), *(_times(one) for one in times)]


def _name(cell: BenchCell) -> str:
    return f"{cell.concurrency} × {cell.input_tokens}/{cell.output_tokens}"


def _rate(found: IntervalData | None) -> str:
    if found is None:
        return ""
    half = "" if found.high is None else f" ±{read_rate(found.high - found.mean)}"
    return f"{read_rate(found.mean)}{half}"


def _times(found: LatencyData | None) -> str:
    """Return three times with one unit: 31/40.5/520 ms."""
    if found is None:
        return ""
    factor, unit = (1000, "ms") if found.p99 < 1 else (1, "s")
    return f"{'/'.join(_three_figures(factor * second) for second in (found.p50, found.p90, found.p99))} {unit}"


def _three_figures(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
