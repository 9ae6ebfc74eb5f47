"""Measures the cells of a run, one repeat after the other, and judges each: measured, or faster than the machine can be.

A run is stored after each cell. What is measured of an interrupted cell is kept too; `--resume` measures what is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from infra.benchmark.aiperf import Load, Recorded
from infra.benchmark.grid import SHORT_ANSWER
from infra.benchmark.stored_run import Cell, Repeat, RunSettings, Shape
from infra.benchmark.summary import summary_of
from infra.errors import Gemma4Error, ServingError
from infra.google.times import moment
from infra.serving.load import ServerLoad, Span
from infra.serving.metrics import Metrics

LEAST_REQUESTS, REQUESTS_PER_STREAM = 8, 3
HIT_BY_CHANCE = 0.02
"""A share of cached prompt tokens above which prompts were not as different as they should be."""
_GENERATED = "vllm:generation_tokens_total"


@dataclass(frozen=True)
class Rig:
    """What a measurement needs: who sends a load, who makes its requests, and who reads the counters of all servers."""

    send: Callable[[Load], Recorded]
    bodies: Callable[..., Iterator[Mapping[str, Any]]]
    """PromptMaker.bodies, or what stands in for it."""
    readings: Callable[[], Sequence[Metrics]]
    """Readings of /metrics of each server. Raises ServingError."""
    url: str
    model: str
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    clock: Callable[[], float] = time.monotonic


@dataclass(frozen=True)
class Limits:
    """What a measured cell is held to. None where the machine is not known."""

    roofline_tokens_per_second: float | None = None
    requests_at_once: int | None = None
    """How many requests all servers run at once; more wait."""
    note: str = ""
    """What else to say of the cell."""


def requests_of(settings: RunSettings, shape: Shape) -> int:
    """Return how many requests a repeat sends: as many as were asked for, else enough for a few rounds of all streams."""
    return settings.requests or max(LEAST_REQUESTS, REQUESTS_PER_STREAM * shape.concurrency)


def warmup_of(settings: RunSettings, shape: Shape) -> int:
    """Return how many requests warm a repeat up: as many as were asked for, else one a stream."""
    return shape.concurrency if settings.warmup_requests is None else settings.warmup_requests


def measure_repeat(rig: Rig, settings: RunSettings, shape: Shape, turn: str) -> Repeat:
    """Measure a cell once. `turn` names this repeat among all, so that its prompts are its own.

    Raises Gemma4Error where no request was answered whole: there is nothing to store then.
    """
    requests, warmup = requests_of(settings, shape), warmup_of(settings, shape)
    bodies = tuple(rig.bodies(shape, warmup=warmup, requests=requests, turn=turn))
    started_at, began = moment(rig.now().timestamp()), rig.clock()
    before = _read(rig)
    recorded = rig.send(Load(rig.url, rig.model, bodies, warmup, shape.concurrency))
    counters = _Counters.between(before, _read(rig), rig.clock() - began)
    if not recorded.answered:
        reasons = (
            "; ".join(f"{count} × {reason}" for reason, count in recorded.errors.items()) or "aiperf recorded none"
        )
        raise Gemma4Error(f"no request of {requests} was answered: {reasons}")
    answered, duration_s = recorded.answered, recorded.duration_s
    generated = None if counters.generated is None else counters.generated - recorded.warmup_output_tokens
    return Repeat(
        started_at=started_at,
        duration_s=duration_s,
        requests=requests,
        failed=requests - len(answered),
        errors=dict(recorded.errors),
        output_tokens_per_second=sum(one.output_tokens for one in answered) / duration_s,
        requests_per_second=len(answered) / duration_s,
        ttft_s=[one.ttft_s for one in answered],
        itl_s=[one.itl_s for one in answered if one.itl_s is not None],
        e2e_s=[one.e2e_s for one in answered],
        output_tokens=[one.output_tokens for one in answered],
        input_tokens=[one.input_tokens for one in answered],
        server_output_tokens=generated,
        acceptance=counters.acceptance,
        prefix_hit_rate=counters.prefix_hit_rate,
        client_cpu_s=recorded.cpu_s,
    )


def measured_cell(shape: Shape, repeats: Sequence[Repeat], settings: RunSettings, limits: Limits) -> Cell:
    """Return the cell of some repeats, which is `impossible` where one of them is faster than the roofline."""
    bound, fastest = limits.roofline_tokens_per_second, max(one.output_tokens_per_second for one in repeats)
    why = ""
    if bound is not None and fastest > bound:
        why = (
            f"{fastest:,.0f} tok/s were measured, and the machine's memory and arithmetic allow {bound:,.0f} at most: an error "
            "of measurement, as a cache that answered, another machine, or another model than planned"
        )
    cell = Cell(
        **_shape(shape),
        status="impossible" if why else "measured",
        why=why,
        notes=[],
        roofline_tokens_per_second=bound,
        repeats=list(repeats),
    )
    return cell.model_copy(update={"notes": list(_notes(cell, settings, limits))})


def skipped_cell(shape: Shape, why: str) -> Cell:
    """Return the cell of a point that cannot run."""
    return Cell(**_shape(shape), status="skipped", why=why, notes=[], roofline_tokens_per_second=None, repeats=[])


def _shape(shape: Shape) -> dict[str, Any]:
    return {name: getattr(shape, name) for name in Shape.model_fields}


def _notes(cell: Cell, settings: RunSettings, limits: Limits) -> Iterator[str]:
    """Yield what a reader of a measured cell should know."""
    summary = summary_of(cell)
    if limits.note:
        yield limits.note
    if summary and summary.failed:
        reasons = "; ".join(dict.fromkeys(reason for one in cell.repeats for reason in one.errors))
        yield f"{summary.failed:,} of {summary.requests:,} requests failed: {reasons[:300]}"
    if len(cell.repeats) < settings.repeats:
        yield f"{len(cell.repeats)} of {settings.repeats} repeats were measured"
    if limits.requests_at_once is not None and cell.concurrency > limits.requests_at_once:
        yield f"{limits.requests_at_once:,} requests run at once, the others wait: the time to the first token contains that"
    if cell.output_tokens < SHORT_ANSWER:
        yield f"answers of {cell.output_tokens} tokens, below {SHORT_ANSWER}, measure the start of requests more than decoding"
    wrong = [count for one in cell.repeats for count in one.output_tokens if count != cell.output_tokens]
    if wrong:
        yield f"{len(wrong):,} answers have another length than {cell.output_tokens:,} tokens, as {wrong[0]:,}"
    yield from _counter_notes(cell, settings)


def _counter_notes(cell: Cell, settings: RunSettings) -> Iterator[str]:
    """Yield where the server counts otherwise than the answers' usage, and what was found in its prefix cache."""
    for one in cell.repeats:
        answered = sum(one.output_tokens)
        more = 0 if one.server_output_tokens is None else one.server_output_tokens - answered
        if one.server_output_tokens is None:
            yield "the server's own count of tokens could not be read, so that the answers' usage stands alone"
            break
        if more < 0 or (more > 0 and not one.failed):
            who = "it restarted or is one of several" if more < 0 else "somebody else asked it meanwhile"
            yield f"the server counted {one.server_output_tokens:,} generated tokens, the answers {answered:,}: {who}"
            break
    hits = [one.prefix_hit_rate for one in cell.repeats if one.prefix_hit_rate is not None]
    if hits and settings.prefix_cache == "unique" and max(hits) > HIT_BY_CHANCE:
        yield f"{max(hits):.0%} of the prompts' tokens were found in the prefix cache, although no two prompts begin alike"
    if hits and settings.prefix_cache == "shared":
        yield f"{sum(hits) / len(hits):.0%} of the prompts' tokens were found in the prefix cache, on purpose"


@dataclass(frozen=True)
class _Counters:
    """What all servers counted meanwhile; None where one of them could not be read or does not say."""

    generated: int | None = None
    acceptance: float | None = None
    prefix_hit_rate: float | None = None

    @classmethod
    def between(cls, before: Sequence[Metrics], after: Sequence[Metrics], seconds: float) -> _Counters:
        if not before or len(before) != len(after):
            return cls()
        spans = [Span.between(early, late, rate_s=seconds) for early, late in zip(before, after, strict=True)]
        load = ServerLoad.of(spans)
        totals = [span.counted.total(_GENERATED) for span in spans]
        generated = None if None in totals else round(sum(total for total in totals if total is not None))
        return cls(generated, load.acceptance_rate, load.prefix_hit_rate)


def _read(rig: Rig) -> Sequence[Metrics]:
    """Return readings of all servers, none where one of them does not answer: a benchmark goes on without."""
    try:
        return tuple(rig.readings())
    except ServingError:
        return ()
