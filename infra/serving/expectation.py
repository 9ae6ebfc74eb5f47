"""What the serving check expects of a server, and what it found: plain data that a stack's state can keep."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

SHORTEST_PROMPT = 32
"""Tokens of the shortest warm-up prompt; each further one is four times as long."""


class CheckExpectation(BaseModel):
    """What the plan promises of one server."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    model: str
    spec_hash: str = ""
    """Served as a second model name, so that an older server is not taken for this one; empty: not compared."""
    max_model_len: int = 0
    """0: not compared."""
    adapters: tuple[str, ...] = ()
    """LoRA adapters, each served as a model of that name."""
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
    evaluated_as: str = ""
    """Architecture to whose floor the answers to the questions of infra/serving/evaluation are held; empty: none is asked."""

    def warm_up_lengths(self) -> tuple[int, ...]:
        """Return prompt lengths in tokens, from `SHORTEST_PROMPT` to the typical prompt or half of `max_model_len`."""
        longest = min(self.prompt_tokens, self.max_model_len // 2 or self.prompt_tokens)
        lengths = [longest]
        step = SHORTEST_PROMPT
        while step < longest:
            lengths.append(step)
            step *= 4
        return tuple(sorted(lengths))


class CheckResult(BaseModel):
    """What the server did. Keys that an older or newer program wrote are ignored."""

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
    """Capacity of the KV cache in tokens as the server says it; None where it does not."""
    predicted_kv_tokens: int | None
    duration_s: float
    """Seconds of the whole check, the wait for readiness included."""
    notes: tuple[str, ...] = ()
    evaluation: dict[str, tuple[int, int]] | None = None
    """By kind of question, how many were answered right, and how many were asked."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON data; without `evaluation` where none was asked for."""
        return self.model_dump(mode="json", exclude=None if self.evaluation else {"evaluation"})
