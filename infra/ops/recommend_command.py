"""`gemma4 recommend`: prints the ranking."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from infra.ops.output import print_json
from infra.planning.quantities import read_rate, read_usd
from infra.planning.recommend import Candidate, Need, Recommendation, recommend
from infra.planning.report.terminal import show


def show_recommendations(need: Need, *, top: int, as_json: bool) -> bool:
    """Print at most `top` candidates; False where nothing in the catalog meets the need."""
    found = recommend(need)
    if as_json:
        print_json({"candidates": [_data(c) for c in found.candidates[:top]], "rejected": found.rejected})
    elif found.candidates:
        _show(need, found, top)
    else:
        print(f"nothing in the catalog meets this need: {_why(found)}")
    return bool(found.candidates)


def _show(need: Need, found: Recommendation, top: int) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("model", no_wrap=True, overflow="fold")
    table.add_column("accelerator", no_wrap=True, overflow="fold")
    for column in ("replicas", "$/hour", "tok/s each", "tok/s in all", "$/M tokens", "holds"):
        table.add_column(column, justify="right")
    table.add_column("measured")
    for candidate in found.candidates[:top]:
        table.add_row(*_row(candidate, need))
    shape = f"prompts of {need.prompt_tokens:,} and answers of {need.output_tokens:,}"
    show(f"{need.users} user(s), {need.context:,} tokens of context, {shape}", table, *_below(found, top))


def _below(found: Recommendation, top: int) -> Iterator[str]:
    yield "Speeds and $/M tokens are predictions: ±20 % dense, ±35 % 26B-A4B, more where the plan says so."
    if any(not candidate.plan.accelerator.deployable for candidate in found.candidates[:top]):
        yield "* planned and priced only: no component builds it yet."
    if len(found.candidates) > top:
        yield f"{len(found.candidates) - top} more: --top {len(found.candidates)}"
    if found.rejected:
        yield f"Left out: {_why(found)}"
    yield "\nThe first one as a stack file; plan it with: gemma4 plan STACK"
    yield "\n".join(f"  {line}" for line in stack_file(found.candidates[0]))


def stack_file(candidate: Candidate) -> list[str]:
    """Lines of a stack file that asks for a candidate."""
    tree: dict[str, Any] = {}
    for path, value in candidate.changes.items():
        group, _, key = path.partition(".")
        tree.setdefault(group, {})[key] = value
    lines = ["config:", f"  gemma4:model: {candidate.plan.model.id}"]
    lines.append(f"  gemma4:accelerator: {candidate.plan.accelerator.id}")
    for group, values in tree.items():
        lines.append(f"  gemma4:{group}:")
        lines += [f"    {key}: {value}" for key, value in values.items()]
    return lines


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
