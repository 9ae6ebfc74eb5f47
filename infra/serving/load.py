"""What a server does now and has done: the figures of `/metrics` that say whether it keeps up, of one server or of several.

Names and meanings as in vLLM 0.32 (vllm/v1/metrics/loggers.py and vllm/v1/spec_decode/metrics.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

from infra.serving.histogram import Histogram
from infra.serving.metrics import Metrics

_S = TypeVar("_S")
_V = TypeVar("_V")

HIGH_KV_USAGE = 0.85
"""Share of the KV cache above which requests will soon wait or be preempted (alert of the TPU rig that this follows)."""
LONG_WAIT_S = 30.0
"""How long requests may wait in line before somebody should know (alert of the same rig)."""

_RUNNING, _WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
_KV_USAGE = "vllm:kv_cache_usage_perc"  # a share: 1 means 100 percent
_TTFT, _INTER_TOKEN = "vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds"
_PROMPT, _GENERATION = "vllm:prompt_tokens_total", "vllm:generation_tokens_total"
_QUERIES, _HITS = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
_PREEMPTIONS, _FINISHED = "vllm:num_preemptions_total", "vllm:request_success_total"
_DRAFTS, _DRAFTED = "vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_draft_tokens_total"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"


@dataclass(frozen=True)
class Span:
    """A server between two moments: its newest reading, what it counted in the span, and what it counted in the `rate_s`
    seconds before the newest reading, from which speeds are made; 0 where there is no reading before it."""

    now: Metrics
    counted: Metrics
    lately: Metrics
    rate_s: float

    @classmethod
    def since_start(cls, now: Metrics, *, before: Metrics, rate_s: float) -> Self:
        """Return the span from the server's start until `now`, with speeds since the reading `before`."""
        return cls(now, now, now.since(before), rate_s)

    @classmethod
    def between(cls, before: Metrics, now: Metrics, *, rate_s: float) -> Self:
        """Return the span between two readings."""
        counted = now.since(before)
        return cls(now, counted, counted, rate_s)


@dataclass(frozen=True)
class ServerLoad:
    """One server, or several together. None is a figure that a server's version does not report, or for which nothing has
    happened yet; `unknown` names the former."""

    running: int | None
    waiting: int | None
    kv_usage: float | None
    """Share of the KV cache that is in use; of several servers by their capacities."""
    kv_tokens: int | None
    prompt_tokens_per_second: float | None
    generation_tokens_per_second: float | None
    ttft: Histogram | None
    """Seconds from a request's arrival to its first token, as the server sees them: without network."""
    inter_token: Histogram | None
    """Seconds between two tokens of an answer."""
    prefix_hit_rate: float | None
    """Share of the prompts' tokens that were found in the prefix cache."""
    preemptions: int | None
    acceptance_rate: float | None
    """Share of the drafted tokens that were accepted."""
    accepted_length: float | None
    """Tokens that one step of the model yields: the accepted ones and the one that is always right."""
    finished: Mapping[str, int] | None
    """Ended requests by reason; reasons that did not occur are left out."""
    unknown: tuple[str, ...] = ()

    @classmethod
    def of(cls, spans: Sequence[Span]) -> Self:
        """Return the load of one server, or of several together. Counts and histograms are added, then divided or read."""
        now = [span.now for span in spans]
        counted = [span.counted for span in spans]
        read = _Reader()
        queries, hits = (read.total(counted, name, "prefix_hit_rate") for name in (_QUERIES, _HITS))
        drafts, drafted, accepted = (
            read.total(counted, name, "acceptance_rate", "accepted_length") for name in (_DRAFTS, _DRAFTED, _ACCEPTED)
        )
        extra = _ratio(accepted, drafts)
        return cls(
            running=_whole(read.total(now, _RUNNING, "running")),
            waiting=_whole(read.total(now, _WAITING, "waiting")),
            kv_usage=read.kv_usage(now),
            kv_tokens=read.kv_tokens(now),
            prompt_tokens_per_second=read.rate(spans, _PROMPT, "prompt_tokens_per_second"),
            generation_tokens_per_second=read.rate(spans, _GENERATION, "generation_tokens_per_second"),
            ttft=read.histogram(counted, _TTFT, "ttft"),
            inter_token=read.histogram(counted, _INTER_TOKEN, "inter_token"),
            prefix_hit_rate=_ratio(hits, queries),
            preemptions=_whole(read.total(counted, _PREEMPTIONS, "preemptions")),
            acceptance_rate=_ratio(accepted, drafted),
            accepted_length=None if extra is None else 1 + extra,
            finished=read.finished(counted),
            unknown=tuple(read.unknown),
        )


def requests_waiting(now: Metrics) -> float:
    """Return how many requests are in line; 0 where the server does not say."""
    return now.total(_WAITING) or 0.0


class _Reader:
    """Reads figures from several servers; `unknown` names those that one of them does not report."""

    def __init__(self) -> None:
        self.unknown: dict[str, None] = {}

    def total(self, readings: Sequence[Metrics], metric: str, *figures: str) -> float | None:
        values = self._known(readings, lambda reading: reading.total(metric), *figures)
        return None if values is None else sum(values)

    def rate(self, spans: Sequence[Span], metric: str, figure: str) -> float | None:
        """Servers were read at different times, so each has a speed of its own."""
        values = self._known(spans, lambda span: span.lately.total(metric), figure)
        if values is None or not all(span.rate_s for span in spans):
            return None
        return sum(value / span.rate_s for value, span in zip(values, spans, strict=True))

    def histogram(self, readings: Sequence[Metrics], metric: str, figure: str) -> Histogram | None:
        values = self._known(readings, lambda reading: reading.histogram(metric), figure)
        return None if values is None else Histogram.together(values)

    def kv_tokens(self, readings: Sequence[Metrics]) -> int | None:
        values = self._known(readings, Metrics.kv_cache_tokens, "kv_tokens")
        return None if values is None else sum(values)

    def kv_usage(self, readings: Sequence[Metrics]) -> float | None:
        """Several engines of one server report shares of caches of equal size: the fullest one counts."""
        usages = self._known(readings, lambda reading: reading.most(_KV_USAGE), "kv_usage")
        if usages is None or len(usages) == 1:
            return usages[0] if usages else None
        sizes = self._known(readings, Metrics.kv_cache_tokens, "kv_usage")
        if sizes is None or not sum(sizes):
            return None
        return sum(usage * size for usage, size in zip(usages, sizes, strict=True)) / sum(sizes)

    def finished(self, readings: Sequence[Metrics]) -> dict[str, int] | None:
        values = self._known(readings, lambda reading: reading.totals_by("finished_reason", _FINISHED), "finished")
        if values is None:
            return None
        reasons = dict.fromkeys(reason for counts in values for reason in counts)
        sums = {reason: round(sum(counts.get(reason, 0.0) for counts in values)) for reason in reasons}
        return {reason: count for reason, count in sums.items() if count}

    def _known(self, sources: Sequence[_S], read: Callable[[_S], _V | None], *figures: str) -> list[_V] | None:
        values = [value for source in sources if (value := read(source)) is not None]
        if len(values) == len(sources):
            return values
        self.unknown.update(dict.fromkeys(figures))
        return None


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
