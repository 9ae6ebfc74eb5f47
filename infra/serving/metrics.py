"""vLLM's `/metrics`: the Prometheus text format, as far as vLLM writes it, and the figures that a check reads from it.

The format is one line a sample; reading it takes less code than looking after one more pinned dependency would.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

CACHE_CONFIG = "vllm:cache_config_info"

# name{label="value",…} value [timestamp]
_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?")
_LABEL = re.compile(r'\s*([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?')
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True)
class Sample:
    """One line: a number with its labels. Counters end in `_total`, histograms in `_bucket`, `_sum` and `_count`."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class CacheConfig:
    """The KV cache that the engine allocated; None where this server's version does not say.

    `kv_tokens` is the capacity that vLLM logs at start; it is not `num_gpu_blocks * block_size`, since layers with a
    sliding window share the pool.
    """

    kv_tokens: int | None
    num_gpu_blocks: int | None
    block_size: int | None
    cache_dtype: str


@dataclass(frozen=True)
class Metrics:
    """One reading of `/metrics`. Of several engines behind one address, the last one to answer is what it shows."""

    samples: tuple[Sample, ...]

    @classmethod
    def parse(cls, text: str) -> Metrics:
        """Comments and lines that are no samples are passed over: a server may write more than we know."""
        return cls(tuple(sample for line in text.splitlines() if (sample := _sample(line)) is not None))

    def total(self, name: str, **labels: str) -> float | None:
        """The sum over all samples of that name which carry these labels; None where there is none."""
        found = [
            sample.value
            for sample in self.samples
            if sample.name == name and all(sample.labels.get(key) == value for key, value in labels.items())
        ]
        return sum(found) if found else None

    def counters(self) -> Mapping[str, float]:
        """Every vLLM counter by name, summed over its labels."""
        totals: dict[str, float] = {}
        for sample in self.samples:
            if sample.name.startswith("vllm:") and sample.name.endswith("_total"):
                totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
        return MappingProxyType(totals)

    def cache_config(self) -> CacheConfig | None:
        """What `vllm:cache_config_info` says, None where this server does not have it."""
        labels = next((sample.labels for sample in self.samples if sample.name == CACHE_CONFIG), None)
        if labels is None:
            return None
        return CacheConfig(
            kv_tokens=_whole(labels.get("kv_cache_size_tokens")),
            num_gpu_blocks=_whole(labels.get("num_gpu_blocks")),
            block_size=_whole(labels.get("block_size")),
            cache_dtype=labels.get("cache_dtype", ""),
        )


def _sample(line: str) -> Sample | None:
    match = _SAMPLE.fullmatch(line.strip())
    if not match:
        return None
    name, labels, value = match.groups()
    try:
        number = float(value)  # also NaN, +Inf and -Inf, as the format spells them
    except ValueError:
        return None
    pairs = {key: _ESCAPED.sub(_unescaped, text) for key, text in _LABEL.findall(labels or "")}
    return Sample(name, MappingProxyType(pairs), number)


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match.group(1) == "n" else match.group(1)


def _whole(text: str | None) -> int | None:
    """vLLM writes `None` for what it has not decided."""
    return int(text) if text is not None and text.isdecimal() else None
