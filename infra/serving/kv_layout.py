"""How a server has laid out its KV cache, by the labels of `vllm:cache_config_info`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeVar

from infra.serving.metrics import Metrics

_V = TypeVar("_V", int, float)


@dataclass(frozen=True)
class KvLayout:
    """Figures of one server, as vLLM 0.32 resolved them at its start; None is what a version does not say."""

    tokens: int | None
    """The "KV cache size" that vLLM logs."""
    blocks: int | None
    """On each device; of several engines together."""
    block_size: int | None
    """Tokens of the smallest block; groups of layers may have larger ones."""
    dtype: str
    """As vLLM spells it; `auto` is the type in which the model computes. Empty where the version does not say."""
    requests_of_max_model_len: float | None
    """The "maximum concurrency" that vLLM logs."""
    memory_utilization: float | None
    """The share of a device's memory that vLLM may plan with."""
    kv_bytes: int | None
    """Where the size was given in bytes, which overrides the share; a device's."""
    prefix_caching: bool | None

    @classmethod
    def of(cls, reading: Metrics) -> Self:
        """Return the layout that a reading tells."""
        labels = reading.cache_config()

        def number(name: str, kind: Callable[[str], _V]) -> _V | None:
            text = labels.get(name, "")
            return (
                kind(text) if re.fullmatch(r"\d+(\.\d+)?(e[+-]?\d+)?", text) else None
            )  # vLLM writes None for what is open

        return cls(
            tokens=reading.kv_cache_tokens(),
            blocks=number("num_gpu_blocks", int),
            block_size=number("block_size", int),
            dtype=labels.get("cache_dtype", ""),
            requests_of_max_model_len=number("kv_cache_max_concurrency", float),
            memory_utilization=number("gpu_memory_utilization", float),
            kv_bytes=number("kv_cache_memory_bytes", int),
            prefix_caching={"True": True, "False": False}.get(labels.get("enable_prefix_caching", "")),
        )
