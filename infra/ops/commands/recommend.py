"""`gemma4 recommend`: prints the ranking."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.planning_answers import CandidateRow, Recommendations
from infra.planning.candidates import Candidate, Need, Order
from infra.planning.ranking import POINTS, doubt_about, reason
from infra.planning.recommend import Recommendation, recommend
from infra.planning.report.tables import Column, FittedTable
from infra.planning.report.terminal import show
from infra.planning.units import BAND_CLAIM, counted, exact, exact_band, read_cell, read_count, read_rate, read_usd


def show_recommendations(need: Need, *, top: int, as_json: bool) -> bool:
    """Print at most `top` candidates; False where nothing in the catalog meets the need."""
    found = recommend(need)
    if as_json:
        print_answer(_as_answer(need, found, top))
    elif found.candidates:
        _show(need, found, top)
    else:
        print(f"nothing in the catalog meets this need: {_why(found)}")
    return bool(found.candidates)


def recommend_answer(
    model: str | None = None,
    context: int = Need.context,
    users: int = Need.users,
    max_usd_per_hour: float | None = None,
    min_tokens_per_second: float | None = None,
    prompt_tokens: int = Need.prompt_tokens,
    output_tokens: int = Need.output_tokens,
    min_quality: float | None = None,
    images: bool = False,
    may_end: bool = False,
    order: Order = Need.order,
    top: int = 10,
) -> Recommendations:
    """Return at most `top` candidates for a need; the other parameters are the fields of `Need`."""
    need = Need(
        model,
        context,
        users,
        max_usd_per_hour,
        min_tokens_per_second,
        prompt_tokens,
        output_tokens,
        min_quality,
        images,
        may_end,
        order,
    )
    return _as_answer(need, recommend(need), top)


def _as_answer(need: Need, found: Recommendation, top: int) -> Recommendations:
    return Recommendations(
        candidates=[
            CandidateRow.model_validate(_data(need, found, index)) for index in range(len(found.candidates[:top]))
        ],
        rejected=found.rejected,
        cheapest_too_dear_usd_per_hour=None if found.cheapest is None else exact(found.cheapest.usd_per_hour),
        most_users=found.most_users or None,
    )


def _show(need: Need, found: Recommendation, top: int) -> None:
    shown = found.candidates[:top]
    shape = f"prompts of {need.prompt_tokens:,} and answers of {need.output_tokens:,}"
    head = f"{counted(need.users, 'user')}, {need.context:,} tokens of context, {shape}"
    columns = (
        Column("model"),
        Column("machine"),
        Column("$/hour", figures=True),
        Column("score", figures=True),
        Column("≈ tok/s\neach", figures=True, spare=1),
        Column("≈ tok/s\nin all", figures=True, spare=3),
        Column("≈ $/M\ntokens", figures=True, spare=2),
        Column("holds", figures=True),
        Column("measured", spare=4),
    )
    rows = []
    for number, candidate in enumerate(shown, 1):
        machine = candidate.plan.accelerator
        copies = f"{candidate.replicas} × " if candidate.replicas > 1 else ""
        rows.append(
            [
                f"{number:>{len(str(len(shown)))}} {candidate.plan.model.id}",
                f"{copies}{machine.id}{'' if machine.deployable else ' *'}",
                f"{candidate.usd_per_hour:,.2f}",
                candidate.quality.cell,
                read_cell(candidate.rate.per_stream, read_rate),
                read_cell(candidate.tokens_per_second_new_prompts, read_rate),
                read_cell(candidate.usd_per_million_new_prompts, read_usd).replace("$", ""),
                read_cell(candidate.holds_band, read_count),
                candidate.measured,
            ]
        )
    reasons = [f"{number:>2}  {reason(found.candidates, number - 1, need)}" for number in range(1, len(shown) + 1)]
    show(
        head,
        FittedTable(columns, rows),
        "\n".join(["\nWhy, and what a better score costs:", *reasons, ""]),
        *_below(need, found, shown),
    )


_ORDERS = {
    "price": "price an hour",
    "tokens": "price of a million tokens",
    "speed": "speed of one stream, twice of which is worth four times the price",
}


def _order(need: Need) -> str:
    """Return how the rows are ranked, in a sentence."""
    by = _ORDERS[need.order]
    if need.min_quality is not None:
        return f"Ranked by {by}; what is alike, by score."
    worth = "half the speed" if need.order == "speed" else "half the price"
    return f"Ranked by {by}, {POINTS:g} points of score counting as {worth}; with --min-quality by {by} alone."


def _scores(shown: Sequence[Candidate]) -> Iterator[str]:
    """Yield what the scores are, and of which weights none was published."""
    known = next((one.quality for one in shown if one.quality.percent is not None), None)
    if known is not None:
        yield (
            f"score: {known.benchmark}, percent, as Google's model cards have it. ~: of these quantised weights no score was "
            "published, so it is that of Google's bf16 weights."
        )
    makers: dict[str, dict[str, None]] = {}
    for one in shown:
        if one.plan.model.third_party:
            makers.setdefault(one.plan.model.maker, {})[one.plan.model.id] = None
    for maker, models in makers.items():
        yield f"By {maker}, not Google, so try its answers before you rely on them: {', '.join(models)}."


def _below(need: Need, found: Recommendation, shown: Sequence[Candidate]) -> Iterator[str]:
    yield _order(need)
    yield from _scores(shown)
    yield (
        f"Predictions with their bands (±, or two ends): {BAND_CLAIM}. each: an answer while it streams, prompts cached; in "
        "all and $/M: every request with a new prompt. holds: requests at once."
    )
    yield "measured: their speed was measured at such a load (speed), these settings were seen to run (ran), or neither (no)."
    yield from _terms(shown)
    if drafted := _named(one for one in shown if one.plan.server.speculation == "mtp"):
        yield f"With MTP drafting (serving.speculation.method: mtp): {drafted}."
    if blind := _named(one for one in shown if one.plan.server.text_only):
        yield f"Text only (serving.modalities.image: 0); with --images pictures are served too: {blind}."
    if need.may_end is False and any(one.plan.deployment.settings_without_end for one in shown):
        yield "Machines that end by themselves stand behind those that stay; --may-end ranks them like the others."
    if wanting := _named(one for one in shown if any(need.beyond_default() for need in one.plan.quotas)):
        yield f"More than a new project's usual quotas hold, so ask Google for more first: {wanting}."
    if more := len(found.candidates) - len(shown):
        yield f"{more} more: --top {len(found.candidates)}"
    if found.rejected:
        yield f"Left out: {_why(found)}"
    first = found.candidates[0]
    if (doubt := doubt_about(first, need)) and first.plan.accelerator.deployable:
        yield f"\nNothing better was found, but the first {doubt}."
    if not first.plan.accelerator.deployable:
        yield "\nNone of them can be deployed, so there is no stack file to write."
        return
    yield "\nThe first one as a stack file; plan it with: gemma4 plan STACK"
    yield "\n".join(f"  {line}" for line in stack_file(first))


def _terms(shown: Sequence[Candidate]) -> Iterator[str]:
    """Yield on which terms each machine is bought: whether it queues, ends, or costs nothing while idle."""
    runs: dict[str, dict[str, None]] = {}
    for candidate in shown:
        machine, bought = candidate.plan.accelerator, candidate.plan.deployment.terms
        term = bought if machine.deployable else "planned and priced only (*): no component builds it yet"
        runs.setdefault(term, {})[machine.id] = None
    for term, machines in runs.items():
        yield f"{', '.join(machines)}: {term}."


def _named(candidates: Iterator[Candidate]) -> str:
    return ", ".join(f"{one.plan.model.id} on {one.plan.accelerator.id}" for one in candidates)


def stack_file(candidate: Candidate) -> list[str]:
    """Return the lines of a stack file that asks for a candidate."""
    tree: dict[str, Any] = {}
    for path, value in candidate.changes.items():
        *groups, key = path.split(".")
        node = tree
        for group in groups:
            node = node.setdefault(group, {})
        node[key] = value
    lines = ["config:", f"  gemma4:model: {candidate.plan.model.id}"]
    lines.append(f"  gemma4:accelerator: {candidate.plan.accelerator.id}")
    for group, values in tree.items():
        lines.append(f"  gemma4:{group}:")
        lines += _yaml(values, "    ")
    return lines


def _yaml(values: dict[str, Any], indent: str) -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from _yaml(value, f"{indent}  ")
        else:
            yield f"{indent}{key}: {json.dumps(value) if isinstance(value, list) else value}"


def _why(found: Recommendation) -> str:
    parts = []
    for fact, count in found.rejected.items():
        least = ""
        if fact == "too dear" and found.cheapest is not None:
            plan = found.cheapest.plan
            price = f"{read_usd(found.cheapest.usd_per_hour)}/h"
            least = f" (the cheapest is {price}: {plan.model.id} on {plan.accelerator.id})"
        parts.append(f"{count} {fact}{least}")
    most = f"; the most that one of these would hold is about {found.most_users:,} users" if found.most_users else ""
    return ", ".join(parts) + most


def _data(need: Need, found: Recommendation, index: int) -> dict[str, Any]:
    candidate = found.candidates[index]
    plan, quality = candidate.plan, candidate.quality
    return {
        "model": plan.model.id,
        "accelerator": plan.accelerator.id,
        "deployable": plan.accelerator.deployable,
        "replicas": candidate.replicas,
        "usdPerHour": exact(candidate.usd_per_hour),
        "verdict": plan.verdict.value,
        "usersPerReplica": candidate.rate.requests,
        "tokensPerSecondEach": exact_band(candidate.rate.per_stream),
        "tokensPerSecond": exact_band(candidate.tokens_per_second),
        "withNewPrompts": exact_band(candidate.tokens_per_second_new_prompts),
        "usdPerMillionOutputTokens": exact_band(candidate.usd_per_million),
        "usdPerMillionOutputTokensWithNewPrompts": exact_band(candidate.usd_per_million_new_prompts),
        "holds": candidate.holds,
        "holdsBand": exact_band(candidate.holds_band),
        "measured": candidate.measured,
        "quality": {
            "benchmark": quality.benchmark,
            "percent": quality.percent,
            "ownScore": quality.own,
            "note": quality.says,
            "source": quality.where,
        },
        "maker": plan.model.maker,
        "why": reason(found.candidates, index, need),
        "doubt": doubt_about(candidate, need),
        "scalesToZero": plan.platform.scales_to_zero,
        "endsAfterS": plan.deployment.ends_after_s,
        "settings": dict(candidate.changes),
    }
