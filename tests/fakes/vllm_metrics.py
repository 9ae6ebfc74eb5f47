"""The counters of the fake vLLM, printed as vLLM 0.32 prints them (names, labels and bounds as a real one sent them)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

TTFT_BOUNDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
               80.0, 160.0, 640.0, 2560.0)  # fmt: skip
TOKEN_BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
                80.0)  # fmt: skip
REASONS = ("stop", "length", "abort", "error", "repetition")


class FakeMetrics:
    """What a server has counted since its start; tests write the attributes."""

    def __init__(self) -> None:
        self.kv_tokens: int | None = 30_000
        self.kv_blocks = 1024
        self.block_size = 16
        self.cache_dtype = "auto"
        self.missing: set[str] = set()
        """Metrics that this server's version does not have, by the names that stand in the text before any ending."""
        self.started_at = 1.795e9
        self.reset()

    def reset(self) -> None:
        """Count from zero again."""
        self.running = self.waiting = 0
        self.kv_usage = 0.0
        self.ttft_s: list[float] = []
        self.inter_token_s: list[float] = []
        self.prompt_tokens = self.generation_tokens = self.preemptions = 0
        self.prefix_queries = self.prefix_hits = 0
        self.speculation: tuple[int, int, int] | None = None
        """Drafts, drafted tokens, accepted tokens; None without speculation."""
        self.finished = dict.fromkeys(REASONS, 0)

    def restart(self, at: float) -> None:
        """Begin anew as another process, which started at `at` seconds since 1970."""
        self.reset()
        self.started_at = at

    def text(self, model: str) -> str:
        """Return the answer of /metrics."""
        lines = (line for line in self._lines(model) if not any(name in line for name in self.missing))
        return "\n".join(lines) + "\n"

    def _lines(self, model: str) -> Iterator[str]:
        labels = f'engine="0",model_name="{model}"'
        yield f"process_start_time_seconds {self.started_at}"
        yield "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig"
        yield "# TYPE vllm:cache_config_info gauge"
        yield f"vllm:cache_config_info{{{self._cache_config()}}} 1.0"
        yield f"vllm:num_requests_running{{{labels}}} {float(self.running)}"
        yield f"vllm:num_requests_waiting{{{labels}}} {float(self.waiting)}"
        yield f"vllm:kv_cache_usage_perc{{{labels}}} {self.kv_usage}"
        counts = {
            "prefix_cache_queries": self.prefix_queries,
            "prefix_cache_hits": self.prefix_hits,
            "num_preemptions": self.preemptions,
            "prompt_tokens": self.prompt_tokens,
            "generation_tokens": self.generation_tokens,
        }
        if self.speculation is not None:
            names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
            counts |= {f"spec_decode_{name}": count for name, count in zip(names, self.speculation, strict=True)}
        for name, count in counts.items():
            yield f"# TYPE vllm:{name}_total counter"
            yield f"vllm:{name}_total{{{labels}}} {float(count)}"
            yield f"vllm:{name}_created{{{labels}}} {self.started_at}"
        for reason, count in self.finished.items():
            yield f'vllm:request_success_total{{engine="0",finished_reason="{reason}",model_name="{model}"}} {float(count)}'
        yield from _histogram("time_to_first_token_seconds", TTFT_BOUNDS, self.ttft_s, model)
        yield from _histogram("inter_token_latency_seconds", TOKEN_BOUNDS, self.inter_token_s, model)

    def _cache_config(self) -> str:
        size = "" if self.kv_tokens is None else f',kv_cache_size_tokens="{self.kv_tokens}"'
        return (
            f'block_size="{self.block_size}",cache_dtype="{self.cache_dtype}",enable_prefix_caching="True",engine="0",'
            f'gpu_memory_utilization="0.9",num_gpu_blocks="{self.kv_blocks}"{size}'
        )


def _histogram(name: str, bounds: Sequence[float], observed: Sequence[float], model: str) -> Iterator[str]:
    yield f"# TYPE vllm:{name} histogram"
    for bound in (*bounds, math.inf):
        upto = "+Inf" if bound == math.inf else str(bound)
        count = float(sum(value <= bound for value in observed))
        yield f'vllm:{name}_bucket{{engine="0",le="{upto}",model_name="{model}"}} {count}'
    yield f'vllm:{name}_count{{engine="0",model_name="{model}"}} {float(len(observed))}'
    yield f'vllm:{name}_sum{{engine="0",model_name="{model}"}} {sum(observed)}'
