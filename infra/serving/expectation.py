"""What a check expects of a server and what it found: plain data, fit to be kept in a stack's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

SHORTEST_PROMPT = 32
"""Tokens of the first warm-up prompt; each further one is four times as long."""


class CheckExpectation(BaseModel):
    """What the plan promises. Times in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    model: str
    spec_hash: str = ""
    """Served as a second name, so that an older server cannot pass for this one; empty: whoever answers is checked."""
    max_model_len: int = 0
    """0: not compared."""
    tools: bool = False
    reasoning: bool = False
    image: bool = False
    audio: bool = False
    video: bool = False
    predicted_kv_tokens: tuple[int, int, int] | None = None
    """Low, likely, high."""
    prompt_tokens: int = 1024
    """The typical prompt: the longest one of the warm-up, and the one whose time to the first token is measured."""
    vllm_version: str = ""
    """Empty: not compared."""
    ready_timeout_s: float = 600.0

    def warm_up_lengths(self) -> tuple[int, ...]:
        """Prompt lengths in tokens, from `SHORTEST_PROMPT` to the typical prompt or half of what the model takes."""
        longest = min(self.prompt_tokens, self.max_model_len // 2 or self.prompt_tokens)
        lengths = [longest]
        step = SHORTEST_PROMPT
        while step < longest:
            lengths.append(step)
            step *= 4
        return tuple(sorted(lengths))


class CheckResult(BaseModel):
    """What the server really did. Keys that an older or newer program wrote are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    vllm_version: str
    ready_s: float
    """Seconds until the right server answered."""
    ttft_s: float
    """Seconds to the first token of a lone request with `prompt_tokens` of prompt, after the warm-up."""
    tokens_per_second: float
    """Output tokens a second of that request, after its first."""
    prompt_tokens: int
    output_tokens: int
    kv_tokens: int | None
    """Capacity of the KV cache as the server says it; None where it does not."""
    predicted_kv_tokens: int | None
    duration_s: float
    """Seconds of the whole check, the wait for readiness included."""
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CheckResult:
        """From `to_dict`, also after a stay in Pulumi's state, which knows no integers."""
        return cls.model_validate(dict(data))
