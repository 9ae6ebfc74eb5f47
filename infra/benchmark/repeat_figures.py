"""Reads one figure per metric from a repeat: the values that two runs are compared by."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from infra.benchmark.stored_run import Repeat

Times = Literal["ttft_s", "itl_s", "e2e_s"]


@dataclass(frozen=True)
class BenchmarkMetric:
    """A figure of a repeat. Latencies are in seconds, throughput in output tokens per second of all requests together."""

    id: str
    """As keys of JSON have it."""
    title: str
    short: str
    """For the head of a narrow column; a line break within."""
    times: Times | None
    """The list of a repeat that it is a percentile of; None for throughput."""
    percent: int = 50

    @property
    def higher_is_better(self) -> bool:
        return self.times is None

    @property
    def fewest_requests(self) -> int:
        """Requests of a cell, all repeats together, below which the percentile is only the slowest request."""
        return 100 if self.percent == 99 else 1

    def of(self, repeat: Repeat) -> float | None:
        """Return the figure of a repeat. None where no request has it: all failed, or no answer had two tokens."""
        if self.times is None:
            return repeat.output_tokens_per_second or None
        return percentile(getattr(repeat, self.times), self.percent) or None


THROUGHPUT = BenchmarkMetric("throughput", "throughput", "through-\nput", None)
TTFT_P50 = BenchmarkMetric("ttftP50", "TTFT p50", "TTFT\np50", "ttft_s")
TTFT_P99 = BenchmarkMetric("ttftP99", "TTFT p99", "TTFT\np99", "ttft_s", 99)
ITL_P50 = BenchmarkMetric("itlP50", "inter-token p50", "token\np50", "itl_s")
ITL_P99 = BenchmarkMetric("itlP99", "inter-token p99", "token\np99", "itl_s", 99)
E2E_P50 = BenchmarkMetric("e2eP50", "end-to-end p50", "e2e\np50", "e2e_s")

METRICS = (THROUGHPUT, TTFT_P50, TTFT_P99, ITL_P50, ITL_P99, E2E_P50)
"""In the order of tables."""

DECISIVE = (THROUGHPUT, ITL_P50, E2E_P50)
"""The metrics of which each must be known well before two runs are called equal. Times to first token vary far more from
request to request, and a p99 needs many requests: where these are not known, the verdict names them beside it."""


def percentile(values: Sequence[float], percent: int) -> float | None:
    """Return a percentile, interpolated between neighbours as numpy does; None of no values."""
    if len(values) < 2:
        return values[0] if values else None
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
