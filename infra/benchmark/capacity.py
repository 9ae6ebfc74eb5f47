"""Which points of a grid a server can run: those that its KV cache and its max_model_len have room for."""

from __future__ import annotations

from dataclasses import dataclass

from infra.benchmark.stored_run import Shape
from infra.planning.memory.kv_cache import KvCapacity


@dataclass(frozen=True)
class Room:
    """What one server takes, and how many servers share the load."""

    max_model_len: int | None
    kv_tokens: float | None
    """Capacity of the KV cache of one server."""
    said_by: str
    """Who says so: `the server` or `the plan's low end`."""
    planned: KvCapacity | None = None
    """The capacity by which requests are counted in blocks; without it each token counts as one."""
    servers: int = 1

    def obstacle(self, shape: Shape) -> str:
        """Return why a point cannot run, empty where it can."""
        tokens = shape.input_tokens + shape.output_tokens
        if self.max_model_len is not None and tokens > self.max_model_len:
            return f"a request has {tokens:,} tokens, and max_model_len is {self.max_model_len:,}"
        held = self._requests_held(tokens)
        if held is None or self.kv_tokens is None or shape.concurrency <= held * self.servers:
            return ""
        copies = f" in each of {self.servers} servers" if self.servers > 1 else ""
        return (
            f"needs KV cache for {shape.concurrency:,} × {tokens:,} = {shape.concurrency * tokens:,} tokens; {self.said_by} "
            f"has {self.kv_tokens:,.0f}{copies}, room for {held * self.servers:,} such requests: the others would wait"
        )

    def _requests_held(self, tokens: int) -> int | None:
        """Return how many requests of so many tokens one server holds to their ends, None where its capacity is not known."""
        if self.kv_tokens is None:
            return None
        if self.planned is None or not self.planned.tokens:
            return int(self.kv_tokens // tokens)
        return int(self.planned.requests_held(tokens) * self.kv_tokens / self.planned.tokens)
