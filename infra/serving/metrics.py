"""Reads vLLM's /metrics: the few figures that the check and the operator need, from Prometheus' text format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SAMPLE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Sample:
    """One line: name, labels, value."""

    name: str
    labels: dict[str, str]
    value: float


def samples(text: str) -> Iterator[Sample]:
    """Every sample of an exposition; comments and what cannot be read are passed over."""
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        labels = {key: re.sub(r"\\(.)", r"\1", raw) for key, raw in _LABEL.findall(match[2] or "")}
        yield Sample(match[1], labels, value)


def kv_cache_tokens(text: str) -> int | None:
    """The KV cache size that vLLM logs, from `vllm:cache_config_info`; None where the server does not say."""
    for sample in samples(text):
        size = sample.labels.get("kv_cache_size_tokens", "")
        if sample.name == "vllm:cache_config_info" and size.isdecimal():
            return int(size)
    return None
