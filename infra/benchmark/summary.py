"""Computes what is shown of a cell: percentiles over all its requests, and throughput with an interval over its repeats."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from infra.benchmark.stored_run import Cell
from infra.benchmark.student_t import t_quantile


@dataclass(frozen=True)
class Latency:
    """Percentiles of one time over all requests of a cell, in seconds."""

    p50: float
    p90: float
    p99: float
    mean: float


@dataclass(frozen=True)
class Interval:
    """A mean over repeats, and the 95 % confidence interval of that mean; `low` and `high` None with fewer than two."""

    mean: float
    low: float | None
    high: float | None

    @property
    def half_width(self) -> float | None:
        """Half of the interval, None where there is none."""
        return None if self.high is None else self.high - self.mean


@dataclass(frozen=True)
class CellSummary:
    """What a table shows of a cell. A latency is None where no request succeeded, or none had two tokens."""

    ttft: Latency | None
    itl: Latency | None
    e2e: Latency | None
    output_tokens_per_second: Interval
    requests_per_second: Interval
    requests: int
    failed: int


def summary_of(cell: Cell) -> CellSummary | None:
    """Return the summary of a cell, None where nothing was measured."""
    if not cell.repeats:
        return None
    return CellSummary(
        ttft=latency([second for repeat in cell.repeats for second in repeat.ttft_s]),
        itl=latency([second for repeat in cell.repeats for second in repeat.itl_s]),
        e2e=latency([second for repeat in cell.repeats for second in repeat.e2e_s]),
        output_tokens_per_second=interval([repeat.output_tokens_per_second for repeat in cell.repeats]),
        requests_per_second=interval([repeat.requests_per_second for repeat in cell.repeats]),
        requests=sum(repeat.requests for repeat in cell.repeats),
        failed=sum(repeat.failed for repeat in cell.repeats),
    )


def latency(seconds: Sequence[float]) -> Latency | None:
    """Return the percentiles of some times, interpolated between neighbours as numpy does; None of no times."""
    if not seconds:
        return None
    values = seconds if len(seconds) > 1 else [*seconds, *seconds]
    percentiles = statistics.quantiles(values, n=100, method="inclusive")
    return Latency(percentiles[49], percentiles[89], percentiles[98], statistics.fmean(seconds))


def interval(values: Sequence[float]) -> Interval:
    """Return the mean of at least one value and its 95 % confidence interval by Student's t."""
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Interval(mean, None, None)
    half = t_quantile(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)
