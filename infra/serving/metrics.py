"""Reads vLLM's `/metrics`: samples in Prometheus' text format, what they add up to, and what changed between two readings.

The format has one sample a line; a parser of it is shorter than one more pinned dependency is worth.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from infra.serving.histogram import Histogram

CACHE_CONFIG = "vllm:cache_config_info"
STARTED = "process_start_time_seconds"
"""Of the client library that vLLM uses; left out where several API processes share their metrics."""

# name{label="value",…} value [timestamp]
_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?")
_LABEL = re.compile(r'\s*([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?')
_ESCAPED = re.compile(r"\\(.)")
_COUNTS = ("_total", "_bucket", "_count", "_sum")
"""Ends of the names of samples that only grow while their server lives."""


@dataclass(frozen=True)
class Sample:
    """One line: a number with its labels."""

    name: str
    labels: Mapping[str, str]
    value: float

    @property
    def key(self) -> tuple[str, frozenset[tuple[str, str]]]:
        """The name and the labels, by which the sample is found in another reading."""
        return self.name, frozenset(self.labels.items())

    @property
    def counts(self) -> bool:
        """Whether the value only grows while the server lives."""
        return self.name.endswith(_COUNTS)


@dataclass(frozen=True)
class Metrics:
    """One reading of `/metrics`. Behind an address with several servers it is that of the server that answered."""

    samples: tuple[Sample, ...]

    @classmethod
    def parse(cls, text: str) -> Metrics:
        """Read every sample; comments and lines that are not samples are skipped."""
        return cls(tuple(sample for line in text.splitlines() if (sample := _sample(line)) is not None))

    def total(self, name: str) -> float | None:
        """Return the sum of a metric over all its labels (engines, reasons); None where this version does not report it."""
        values = [sample.value for sample in self._of(name)]
        return sum(values) if values else None

    def most(self, name: str) -> float | None:
        """Return the largest value of a metric over all its labels; None where this version does not report it."""
        return max((sample.value for sample in self._of(name)), default=None)

    def totals_by(self, label: str, name: str) -> dict[str, float] | None:
        """Return the sums of a metric by one of its labels; None where this version does not report it."""
        sums: dict[str, float] = {}
        for sample in self._of(name):
            key = sample.labels.get(label, "")
            sums[key] = sums.get(key, 0.0) + sample.value
        return sums or None

    def histogram(self, name: str) -> Histogram | None:
        """Return a histogram, that of all engines together; None where this version does not report it."""
        counts = self.totals_by("le", f"{name}_bucket")
        total = self.total(f"{name}_sum")
        if counts is None or total is None:
            return None
        return Histogram(dict(sorted((float(bound), count) for bound, count in counts.items())), total)

    def started_at(self) -> float | None:
        """Return when the server's process began, in seconds since 1970; None where it does not say."""
        return self.total(STARTED)

    def cache_config(self) -> Mapping[str, str]:
        """Return the settings and the size of the KV cache, as words; empty where this version does not say."""
        return next((sample.labels for sample in self.samples if sample.name == CACHE_CONFIG), {})

    def kv_cache_tokens(self) -> int | None:
        """Return the capacity of the KV cache in tokens, as vLLM logs it at its start; None where this version does not say.

        It is not `num_gpu_blocks * block_size`, since layers with a sliding window share the pool.
        """
        tokens = self.cache_config().get("kv_cache_size_tokens", "")
        return int(tokens) if tokens.isdecimal() else None  # vLLM writes `None` for what it has not decided

    def restarted_since(self, earlier: Metrics) -> bool:
        """Return whether another process answered than the one of `earlier`: it began at another time, or has counted less."""
        began, before = self.started_at(), earlier.started_at()
        if began is not None and before is not None:
            return began != before
        counted = {sample.key: sample.value for sample in earlier.samples if sample.counts}
        return any(sample.value < counted.get(sample.key, 0.0) for sample in self.samples if sample.counts)

    def since(self, earlier: Metrics) -> Metrics:
        """Return this reading with every count less that of `earlier`. After a restart all counts began at zero again, so
        they stay as they are; what was counted before the restart and after `earlier` is lost."""
        if self.restarted_since(earlier):
            return self
        counted = {sample.key: sample.value for sample in earlier.samples if sample.counts}
        return Metrics(
            tuple(
                Sample(sample.name, sample.labels, sample.value - counted.get(sample.key, 0.0))
                if sample.counts
                else sample
                for sample in self.samples
            )
        )

    def _of(self, name: str) -> Iterator[Sample]:
        return (sample for sample in self.samples if sample.name == name and math.isfinite(sample.value))


def _sample(line: str) -> Sample | None:
    match = _SAMPLE.fullmatch(line.strip())
    if not match:
        return None
    name, labels, value = match.groups()
    try:
        number = float(value)  # also NaN, +Inf and -Inf, as the format writes them
    except ValueError:
        return None
    pairs = {
        key: _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], text)
        for key, text in _LABEL.findall(labels or "")
    }
    return Sample(name, MappingProxyType(pairs), number)
