"""The answer of `gemma4 bench run`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infra.benchmark.stored_run import BenchmarkRun, Cell
from infra.benchmark.summary import Interval, Latency, summary_of
from infra.ops.answers.answer_base import JsonAnswer
from infra.planning.report.data_models import Data
from infra.planning.units import exact


class LatencyData(Data):
    """Percentiles of a time over all requests of a cell, seconds."""

    p50: float = Field(description="half of the requests were faster")
    p90: float = Field(description="nine in ten were")
    p99: float = Field(description="ninety-nine in a hundred were")


class IntervalData(Data):
    """A mean over repeats with its 95 % confidence interval, which is null with one repeat."""

    mean: float = Field(description="over the repeats")
    low: float | None = Field(description="lower end of the interval")
    high: float | None = Field(description="upper end")


class BenchCell(Data):
    """What became of one point of the grid."""

    concurrency: int = Field(description="requests in flight at any time")
    input_tokens: int = Field(description="of each prompt")
    output_tokens: int = Field(description="of each answer")
    workload: str = Field(description="the recipe's name of these lengths; empty where it has none")
    status: Literal["measured", "skipped", "impossible"] = Field(
        description="`skipped`: this server cannot run it; `impossible`: faster than the machine can be, so not a result"
    )
    why: str = Field(description="why it was skipped, or is impossible")
    notes: list[str] = Field(description="what a reader should know of it")
    output_tokens_per_second: IntervalData | None = Field(description="of all requests together; null unless measured")
    requests_per_second: IntervalData | None = Field(description="null unless measured")
    ttft_s: LatencyData | None = Field(description="time to first token")
    itl_s: LatencyData | None = Field(description="mean inter-token latency of each request")
    e2e_s: LatencyData | None = Field(alias="e2eS", description="from sending to the last token")
    requests: int = Field(description="sent, in all repeats")
    failed: int = Field(description="of them without a whole answer")


class BenchAnswer(JsonAnswer):
    """What `gemma4 bench run --json` prints. Exit code 1 where nothing was measured."""

    file: str = Field(description="where every request is stored")
    complete: bool = Field(description="whether every cell of the grid is done")
    stack: str | None = Field(description="name of the stack; null where only a URL was given")
    url: str = Field(description="address of the service")
    model: str = Field(description="the name by which requests asked for it")
    member: str = Field(description="name of the slice; empty where there is one server")
    vllm: str = Field(description="version that the server says")
    started_at: str = Field(description="when it began")
    prefix_cache: Literal["unique", "shared"] = Field(
        description="`unique`: no two prompts begin alike; `shared`: every prompt begins with the same half"
    )
    repeats: int = Field(description="of each cell")
    cells: list[BenchCell] = Field(description="in the order of measuring")


def bench_answer_of(run: BenchmarkRun, file: str) -> BenchAnswer:
    """Return what is shown of a stored run."""
    return BenchAnswer(
        file=file,
        complete=run.complete,
        stack=run.target.stack,
        url=run.target.url,
        model=run.target.model,
        member=run.target.member,
        vllm=run.versions.vllm,
        started_at=run.started_at,
        prefix_cache=run.settings.prefix_cache,
        repeats=run.settings.repeats,
        cells=[_cell(cell) for cell in run.cells],
    )


def _cell(cell: Cell) -> BenchCell:
    summary = summary_of(cell) if cell.status == "measured" else None
    return BenchCell(
        concurrency=cell.concurrency,
        input_tokens=cell.input_tokens,
        output_tokens=cell.output_tokens,
        workload=cell.workload,
        status=cell.status,
        why=cell.why,
        notes=cell.notes,
        output_tokens_per_second=_interval(summary.output_tokens_per_second) if summary else None,
        requests_per_second=_interval(summary.requests_per_second) if summary else None,
        ttft_s=_latency(summary.ttft) if summary else None,
        itl_s=_latency(summary.itl) if summary else None,
        e2e_s=_latency(summary.e2e) if summary else None,
        requests=summary.requests if summary else 0,
        failed=summary.failed if summary else 0,
    )


def _interval(found: Interval) -> IntervalData:
    low, high = (None if end is None else exact(end) for end in (found.low, found.high))
    return IntervalData(mean=exact(found.mean), low=low, high=high)


def _latency(found: Latency | None) -> LatencyData | None:
    if found is None:
        return None
    return LatencyData(p50=exact(found.p50), p90=exact(found.p90), p99=exact(found.p99))
