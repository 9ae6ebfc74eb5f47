"""Reads vLLM's `/metrics`: samples in Prometheus' text format, and the size of the KV cache among them.

The format has one sample a line; a parser of it is shorter than one more pinned dependency is worth.
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
    """One line: a number with its labels."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Metrics:
    """One reading of `/metrics`. Behind an address with several servers it is that of the server that answered."""

    samples: tuple[Sample, ...]

    @classmethod
    def parse(cls, text: str) -> Metrics:
        """Read every sample; comments and lines that are not samples are skipped."""
        return cls(tuple(sample for line in text.splitlines() if (sample := _sample(line)) is not None))

    def kv_cache_tokens(self) -> int | None:
        """Return the capacity of the KV cache in tokens, as vLLM logs it at its start; None where this version does not say.

        It is not `num_gpu_blocks * block_size`, since layers with a sliding window share the pool.
        """
        labels = next((sample.labels for sample in self.samples if sample.name == CACHE_CONFIG), {})
        tokens = labels.get("kv_cache_size_tokens", "")
        return int(tokens) if tokens.isdecimal() else None  # vLLM writes `None` for what it has not decided


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
