"""Builds stored benchmarks for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infra.benchmark.stored_run import BenchmarkRun, Cell, Repeat, RunSettings, ServerFacts, Shape, Target, Versions


def repeat(ttft_s: Sequence[float] = (0.1, 0.2), *, rate: float = 100.0, **changed: Any) -> Repeat:
    """Return a repeat in which each request took a second after its first token."""
    count = len(ttft_s)
    values: dict[str, Any] = {
        "started_at": "2026-11-22T08:00:00Z",
        "duration_s": 2.0,
        "requests": count,
        "failed": 0,
        "errors": {},
        "output_tokens_per_second": rate,
        "requests_per_second": count / 2.0,
        "ttft_s": list(ttft_s),
        "itl_s": [0.01] * count,
        "e2e_s": [first + 1.0 for first in ttft_s],
        "output_tokens": [101] * count,
        "input_tokens": [1000] * count,
        "server_output_tokens": 101 * count,
        "acceptance": None,
        "prefix_hit_rate": 0.0,
        "client_cpu_s": 0.1,
    }
    return Repeat(**values | changed)


def cell(
    *repeats: Repeat, concurrency: int = 1, input_tokens: int = 1000, output_tokens: int = 101, **changed: Any
) -> Cell:
    """Return a cell that was measured."""
    values: dict[str, Any] = {
        "concurrency": concurrency,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "workload": "",
        "status": "measured",
        "why": "",
        "notes": [],
        "roofline_tokens_per_second": None,
        "repeats": list(repeats),
    }
    return Cell(**values | changed)


def stored(*cells: Cell, **changed: Any) -> BenchmarkRun:
    """Return a complete run of some cells against a URL."""
    grid = [Shape(**{key: getattr(cell, key) for key in Shape.model_fields}) for cell in cells]
    values: dict[str, Any] = {
        "id": "20261122T080000Z-gemma",
        "started_at": "2026-11-22T08:00:00Z",
        "ended_at": "2026-11-22T08:05:00Z",
        "complete": True,
        "target": Target(stack=None, url="http://127.0.0.1:8900", model="gemma", member=""),
        "versions": Versions(gemma4="0.1.0", vllm="0.32.0", aiperf="0.13.0", plan=None),
        "plan": None,
        "server": ServerFacts(kv_tokens=30000, max_model_len=4096, max_num_seqs=None, prefix_caching=True),
        "settings": RunSettings(
            prefix_cache="unique", warmup_requests=None, requests=None, repeats=1, seed=0, grid=grid
        ),
        "cells": list(cells),
    }
    return BenchmarkRun(**values | changed)
