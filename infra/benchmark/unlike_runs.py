"""Says in what two runs differ before their figures are compared: what is being compared, and what must not differ."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from infra.benchmark.cell_key import CellKey, measured_cells
from infra.benchmark.stored_run import BenchmarkRun, Cell
from infra.errors import Fault

_TOKENS_APART = 0.01
"""Prompts or answers that differ by more than this share are not the same work."""


@dataclass(frozen=True)
class Unlikeness:
    """One thing that differs between two servers: what a comparison may be about."""

    what: str
    a: str
    b: str


@dataclass(frozen=True)
class Unlike:
    """All in which two runs differ."""

    servers: tuple[Unlikeness, ...]
    """Versions, plan, settings of the server: what is being compared."""
    refusals: tuple[Fault, ...]
    """Different measurements, whose figures mean different things."""
    warnings: tuple[str, ...]
    """Sentences about what makes a comparison weaker."""


def unlike(a: BenchmarkRun, b: BenchmarkRun) -> Unlike:
    """Return in what two runs differ. The seed and the number of repeats may."""
    return Unlike(
        tuple(Unlikeness(what, x, y) for what, x, y in _servers(a, b) if x != y),
        tuple(_refusals(a, b)),
        tuple(_warnings(a, b)),
    )


def _servers(a: BenchmarkRun, b: BenchmarkRun) -> Iterator[tuple[str, str, str]]:
    """Yield every fact of the two servers, named."""
    pairs: list[tuple[str, Any, Any]] = [
        ("stack", a.target.stack, b.target.stack),
        ("member", a.target.member, b.target.member),
        ("model's name", a.target.model, b.target.model),
        ("vLLM", a.versions.vllm, b.versions.vllm),
        ("specification", (a.versions.plan or "")[:12], (b.versions.plan or "")[:12]),
        ("KV cache, tokens", a.server.kv_tokens, b.server.kv_tokens),
        ("longest request, tokens", a.server.max_model_len, b.server.max_model_len),
        ("most running requests", a.server.max_num_seqs, b.server.max_num_seqs),
        ("prefix caching", _on(a.server.prefix_caching), _on(b.server.prefix_caching)),
    ]
    if a.plan and b.plan:
        pairs += [
            ("model", a.plan.model, b.plan.model),
            ("machine", a.plan.accelerator, b.plan.accelerator),
            ("$/hour", a.plan.usd_per_hour, b.plan.usd_per_hour),
            ("flags", *_flags(a.plan.flags, b.plan.flags)),
        ]
    elif a.plan or b.plan:
        pairs.append(("plan", a.plan and a.plan.model, b.plan and b.plan.model))
    for what, x, y in pairs:
        yield what, "not known" if x in (None, "") else str(x), "not known" if y in (None, "") else str(y)


def _on(known: bool | None) -> str | None:
    return None if known is None else "on" if known else "off"


def _flags(a: Sequence[str], b: Sequence[str]) -> tuple[str, str]:
    """Return the flags that only one command has, with their values."""
    split = [" ".join(flags).replace(" --", "\n--").splitlines() for flags in (a, b)]
    mine, others = ([flag for flag in one if flag not in other] for one, other in (split, split[::-1]))
    return " ".join(mine) or "none more", " ".join(others) or "none more"


def _refusals(a: BenchmarkRun, b: BenchmarkRun) -> Iterator[Fault]:
    if a.settings.prefix_cache != b.settings.prefix_cache:
        yield Fault(
            "prompts",
            f"A was measured with {a.settings.prefix_cache} prompts, B with {b.settings.prefix_cache} ones.",
            "The times to first token would differ by the prefix cache alone.",
            f"Measure B again with --prefix-cache {a.settings.prefix_cache}; or compare them --anyway.",
        )


def _warnings(a: BenchmarkRun, b: BenchmarkRun) -> Iterator[str]:
    for name, run in (("A", a), ("B", b)):
        if not run.complete:
            yield f"{name} was interrupted: it holds {len(run.cells)} of {len(run.settings.grid)} cells."
        failed, sent = (sum(getattr(repeat, key) for repeat in _repeats(run)) for key in ("failed", "requests"))
        if failed:
            yield f"{name}: {failed:,} of {sent:,} requests failed; its figures are of the others."
    if a.versions.aiperf != b.versions.aiperf:
        yield f"A was measured with aiperf {a.versions.aiperf or '?'}, B with {b.versions.aiperf or '?'}."
    if a.settings.warmup_requests != b.settings.warmup_requests:
        counts = [_warmup(run) for run in (a, b)]
        yield f"A was warmed up with {counts[0]} requests before each cell, B with {counts[1]}."
    others = measured_cells(b)
    for key, cell in measured_cells(a).items():
        if key in others:
            yield from _different_work(key, cell, others[key])


def _repeats(run: BenchmarkRun) -> Iterator[Any]:
    return (repeat for cell in run.cells for repeat in cell.repeats)


def _warmup(run: BenchmarkRun) -> str:
    return "its concurrency in" if run.settings.warmup_requests is None else str(run.settings.warmup_requests)


def _different_work(name: CellKey, a: Cell, b: Cell) -> Iterator[str]:
    """Yield what is not the same in a cell that both runs measured."""
    for word, key in (("prompts", "input_tokens"), ("answers", "output_tokens")):
        means = [statistics.fmean(tokens) for cell in (a, b) if (tokens := _tokens(cell, key))]
        if len(means) == 2 and abs(means[1] - means[0]) > _TOKENS_APART * means[0]:
            yield f"{name}: {word} have {means[0]:,.0f} tokens in A and {means[1]:,.0f} in B."
    counts = [statistics.fmean(repeat.requests for repeat in cell.repeats) for cell in (a, b)]
    if max(counts) > 1.5 * min(counts):
        yield f"{name}: {counts[0]:,.0f} requests per repeat in A, {counts[1]:,.0f} in B; a p99 of fewer is lower."


def _tokens(cell: Cell, key: str) -> list[int]:
    return [count for repeat in cell.repeats for count in getattr(repeat, key)]
