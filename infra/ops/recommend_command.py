"""`gemma4 recommend`: prints the ranking."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from infra.planning.quantities import read_rate, read_usd
from infra.planning.recommend import Candidate, Need, Recommendation, recommend


def show_recommendations(need: Need, *, top: int, as_json: bool) -> bool:
    """Print at most `top` candidates; False where nothing in the catalog meets the need."""
    found = recommend(need)
    if as_json:
        print(
            json.dumps(
                {"schema": 1, "candidates": [_data(c) for c in found.candidates[:top]], "rejected": found.rejected},
                indent=2,
            )
        )
    elif found.candidates:
        _show(need, found, top)
    else:
        print(f"nothing in the catalog meets this need: {_why(found)}")
    return bool(found.candidates)


def _show(need: Need, found: Recommendation, top: int) -> None:
    console = Console(highlight=False)
    shape = f"prompts of {need.prompt_tokens:,} and answers of {need.output_tokens:,}"
    console.print(f"{need.users} user(s), {need.context:,} tokens of context, {shape}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("model")
    table.add_column("accelerator")
    for column in ("replicas", "$/hour", "tok/s each", "tok/s in all", "$/M tokens", "holds"):
        table.add_column(column, justify="right")
    table.add_column("measured")
    for candidate in found.candidates[:top]:
        table.add_row(*_row(candidate, need))
    console.print(table)
    console.print("Speeds and $/M tokens are predictions: ±20 % dense, ±35 % 26B-A4B, more where the plan says so.")
    if len(found.candidates) > top:
        console.print(f"{len(found.candidates) - top} more: --top {len(found.candidates)}")
    if found.rejected:
        console.print(f"Left out: {_why(found)}")
    best = found.candidates[0]
    console.print(f"\nPlan the first one: write model {best.plan.model.id}, accelerator {best.plan.accelerator.id} and")
    for path, value in best.changes.items():
        console.print(f"  {path}: {value}")


def _row(candidate: Candidate, need: Need) -> list[str]:
    plan, rate = candidate.plan, candidate.rate
    per_million = candidate.usd_per_hour / 3600 / (candidate.replicas * rate.total.mid) * 1e6
    return [
        plan.model.id,
        plan.accelerator.id + ("" if plan.accelerator.deployable else " *"),
        str(candidate.replicas),
        f"{candidate.usd_per_hour:.2f}",
        f"≈ {read_rate(rate.per_stream.mid)}",
        f"≈ {read_rate(candidate.replicas * rate.total.mid)}",
        f"≈ {read_usd(per_million)}",
        str(candidate.replicas * plan.capacity.requests_held(need.prompt_tokens + need.output_tokens)),
        "yes" if any(recipe.measured_by for recipe in plan.recipes) else "no",
    ]


def _why(found: Recommendation) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in found.rejected.items())


def _data(candidate: Candidate) -> dict[str, Any]:
    rate = candidate.rate
    return {
        "model": candidate.plan.model.id,
        "accelerator": candidate.plan.accelerator.id,
        "deployable": candidate.plan.accelerator.deployable,
        "replicas": candidate.replicas,
        "usdPerHour": round(candidate.usd_per_hour, 4),
        "verdict": candidate.plan.verdict.value,
        "usersPerReplica": rate.requests,
        "tokensPerSecondEach": {
            "low": round(rate.per_stream.low, 2),
            "mid": round(rate.per_stream.mid, 2),
            "high": round(rate.per_stream.high, 2),
        },
        "settings": dict(candidate.changes),
    }
