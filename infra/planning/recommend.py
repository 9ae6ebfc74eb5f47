"""Searches what the catalog could serve for a need: every model on every machine, planned like a stack file, then ranked.

What is ranked is what is written: a candidate's plan is that of its own stack file, replicas included. The search goes over
formats of weights, fp8 while loading, the type of the KV cache, MTP, starts for text only, replicas and, on TPU, the terms
on which capacity is bought.
"""

from __future__ import annotations

import bisect
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from infra.catalog import Accelerator, Catalog, Model, catalog
from infra.errors import SettingsError
from infra.planning.candidates import Candidate, Need, quality_of
from infra.planning.performance.speed import GAIN_MEASURED_ON
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.ranking import doubt_about, ranked, usd
from infra.planning.server.implementations import implementation_of
from infra.suggestions import did_you_mean

KEPT_PLANS = 1024
"""Plans, of about 35 KiB each, that a further search may use again: needs for other numbers of users share most of theirs."""


@dataclass(frozen=True)
class Recommendation:
    """Candidates in the order of `ranked`, and how many pairs fell out for which reason."""

    candidates: tuple[Candidate, ...]
    rejected: Mapping[str, int]
    cheapest: Candidate | None
    """Of those that cost more than the need allows; None where none does."""
    most_users: int
    """About how many users the largest pair holds, of those that cannot hold all at the speed asked for; 0: none."""


@dataclass(frozen=True)
class _Short:
    """Why a pair cannot serve the need, and about how many users it would hold."""

    reason: str
    most_users: int = 0


def recommend(need: Need, *, facts: Catalog | None = None) -> Recommendation:
    """Rank all pairs of the catalog for `need`. Raises SettingsError where no model is meant or the numbers contradict."""
    facts = facts or catalog()
    _check(need)
    candidates, dear, rejected = [], [], Counter[str]()
    most_users = 0
    for model in _wanted(need, facts):
        for accelerator in facts.accelerators.values():
            found = _best(need, model, accelerator, facts)
            if isinstance(found, _Short):
                rejected[found.reason] += 1
                most_users = max(most_users, found.most_users if accelerator.deployable else 0)
            elif _affordable(need, found):
                candidates += [found, *_lasting(need, found, facts)]
            else:
                rejected["too dear"] += 1
                dear.append(found)
    return Recommendation(
        ranked(candidates, need),
        dict(rejected),
        min(dear, key=lambda one: (not one.plan.accelerator.deployable, one.usd_per_hour), default=None),
        most_users,
    )


def _check(need: Need) -> None:
    total = need.prompt_tokens + need.output_tokens
    if total > need.context:
        fact = f"{need.context:,} is less than prompt and answer together, {total:,}."
        raise SettingsError.of("--context", fact, fix="Raise it, or lower --prompt-tokens and --output-tokens.")
    for key, value in (
        ("max-usd-per-hour", need.max_usd_per_hour),
        ("min-tokens-per-second", need.min_tokens_per_second),
        ("min-quality", need.min_quality),
    ):
        if value is not None and math.isnan(value):
            raise SettingsError.of(f"--{key}", "is not a number.", fix="Write for example 5, or leave it out.")


def _affordable(need: Need, candidate: Candidate) -> bool:
    return need.max_usd_per_hour is None or candidate.usd_per_hour <= need.max_usd_per_hour


def _wanted(need: Need, facts: Catalog) -> list[Model]:
    word = (need.model or "").lower()
    exact = facts.models.get(word)
    wanted = [exact] if exact else [model for model in facts.models.values() if word in model.id]
    if not wanted:
        hint = did_you_mean(word, facts.models) or f"Known: {', '.join(facts.models)}."
        raise SettingsError.of("--model", f"no model of the catalog has {need.model!r} in its id.", fix=hint)
    return wanted


def _best(need: Need, model: Model, accelerator: Accelerator, facts: Catalog) -> Candidate | _Short:
    """Return the variant of a pair that serves the need best, the least altered of equal ones; else why the last fell short.

    Ranked by price, the first that fits on one machine is best: no other costs less.
    """
    if need.context > facts.architecture_of(model.id).max_position:
        return _Short("too long a context for the model")
    if need.min_quality is not None and (quality_of(model, facts).percent or 0) < need.min_quality:
        return _Short(f"below a quality of {need.min_quality:g}")
    short = _Short("")
    found: list[Candidate] = []

    def tried(variants: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Try variants until one cannot be bettered, and return those that can be loaded."""
        nonlocal short
        loaded = []
        for changes in variants:
            if _unbeatable(need, found):
                break
            plan = _planned(model, accelerator, changes, facts)
            if plan.refused:
                short = _Short("too large or not to be loaded there", short.most_users)
                continue
            one = _staffed(need, plan, changes, facts)
            if isinstance(one, _Short):
                short = _Short(one.reason, max(short.most_users, one.most_users))
            else:
                found.append(one)
            loaded.append(changes)
        return loaded

    plain = _plain_variants(need, model, accelerator, facts)
    loadable = tried(plain)
    if accelerator.device is GAIN_MEASURED_ON and facts.assistant_of(model.id) is not None:
        # A drafter needs memory too, so only where the model loads.
        tried({**changes, **_MTP} for changes in loadable)
    if not need.images and all(doubt_about(one, need) for one in found):
        tried({**changes, **_TEXT_ONLY} for changes in reversed(plain))
    return min(found, key=lambda one: _preference(need, one), default=short)


def _unbeatable(need: Need, found: Sequence[Candidate]) -> bool:
    """Return whether no further variant is worth a plan: ranked by price, none costs less than the fewest replicas."""
    if not found or need.order != "price" or doubt_about(found[-1], need):
        return False
    fewest = -(-need.users // found[-1].plan.server.implementation.most_useful_seqs)
    return found[-1].replicas <= fewest


def _preference(need: Need, one: Candidate) -> tuple[bool, bool, float]:
    """Sort what is affordable first, then what fits, then by what the need is ranked by."""
    value = -one.rate.per_stream.mid if need.order == "speed" else usd(one, need)
    return not _affordable(need, one), bool(doubt_about(one, need)), value


def _lasting(need: Need, found: Candidate, facts: Catalog) -> Iterator[Candidate]:
    """Yield a candidate that ends by itself on the terms on which it would not, where the need is one that stays."""
    terms = found.plan.deployment.settings_without_end
    if not terms or need.may_end:
        return
    changes = {**found.changes, **terms}
    plan = _planned(found.plan.model, found.plan.accelerator, changes, facts)
    lasting = replace(found, plan=plan, changes=changes)
    if not plan.refused and _affordable(need, lasting):
        yield lasting


def _planned(model: Model, accelerator: Accelerator, changes: Mapping[str, Any], facts: Catalog) -> Plan:
    return _plan_of(model.id, accelerator.id, json.dumps({**changes}), facts)


@lru_cache(maxsize=KEPT_PLANS)
def _plan_of(model: str, accelerator: str, changes: str, facts: Catalog) -> Plan:
    """Return the plan of a pair with `changes`, as JSON: lists among them would not be a key."""
    file = {"model": model, "accelerator": accelerator}
    return make_plan("candidate", file, json.loads(changes), facts=facts, advise=False)


_MTP: Mapping[str, Any] = {"serving.speculation.method": "mtp"}
"""Written only where its gain was measured, and the model has a drafter."""
_TEXT_ONLY: Mapping[str, Any] = {"serving.modalities.image": 0}
"""Written only where nothing else fits, and the need has no images: sound and video are off by default."""


def _plain_variants(need: Need, model: Model, accelerator: Accelerator, facts: Catalog) -> list[dict[str, Any]]:
    """Return what to write for a pair, least altered first: as it is, a smaller KV cache, smaller weights."""
    base: dict[str, Any] = {
        "serving.maxModelLen": need.context,
        "workload.promptTokens": need.prompt_tokens,
        "workload.outputTokens": need.output_tokens,
    }
    recipe = facts.recipe(model.id, accelerator.id)
    if need.images and recipe is not None and recipe.settings.get("serving.modalities.image") == 0:
        base["serving.modalities.image"] = 1
    smaller_kv = base | {"serving.kvCacheDtype": "fp8"}
    plain = [base, smaller_kv]
    if (
        implementation_of(accelerator).quantizes_while_loading
        and not facts.weight_formats[model.weight_format].quantized
    ):
        plain.append(smaller_kv | {"serving.quantization": "fp8"})
    return plain


def _staffed(need: Need, plan: Plan, changes: Mapping[str, Any], facts: Catalog) -> Candidate | _Short:
    """Return the fewest replicas that hold all users at the speed asked for, planned as they would be written."""
    reason = "cannot hold so many users"
    for replicas in _numbers(plan):
        each = -(-need.users // replicas)
        if each > min(_most_each(plan, replicas), plan.requests_held):
            continue
        rate = plan.speed_model.tokens_per_second_at(each)
        if rate.per_stream.mid < need.floor:
            reason = (
                "too slow"
                if need.min_tokens_per_second is not None
                else f"slower than people read ({need.floor:g} tok/s)"
            )
            continue
        written = {**changes, **_scaling(plan, replicas, each)}
        final = plan if written == changes else _planned(plan.model, plan.accelerator, written, facts)
        if not final.refused and min(final.requests_held, final.server.max_num_seqs) >= each:
            fp8 = final.server.quantization == "fp8" and not final.server.weight_format.quantized
            quality = quality_of(final.model, facts, quantized_while_loading=fp8)
            return Candidate(final, replicas, rate, written, quality)
        reason = "too little memory to run so many at once"
    return _Short(reason, _most_users(need, plan))


def _most_each(plan: Plan, replicas: int) -> int:
    """Return how many requests one of `replicas` servers is recommended for: no more than a plan would choose by itself."""
    return min(plan.platform.most_requests_each(replicas), plan.server.implementation.most_useful_seqs)


def _scaling(plan: Plan, replicas: int, each: int) -> dict[str, Any]:
    """Return what to write for so many replicas that run so many requests each; nothing where the plan already does."""
    written: dict[str, Any] = {}
    if replicas > 1 or plan.server.max_num_seqs < each:
        written["serving.maxNumSeqs"] = each
    elif plan.server.max_num_seqs > plan.requests_held:  # a recipe's, for shorter requests
        written["serving.maxNumSeqs"] = plan.requests_held
    return {**written, **plan.deployment.settings_of(replicas, each)}


def _most_users(need: Need, plan: Plan) -> int:
    """Return about how many users all replicas hold at the speed asked for."""

    def too_slow(each: int) -> bool:
        return plan.speed_model.tokens_per_second_at(each).per_stream.mid < need.floor

    def held_by(replicas: int) -> int:
        each = min(_most_each(plan, replicas), plan.requests_held)
        return replicas * bisect.bisect_left(range(1, each + 1), True, key=too_slow)

    return max(held_by(replicas) for replicas in _numbers(plan))


def _numbers(plan: Plan) -> range:
    """Return how many replicas there may be: those that one machine runs come together."""
    each = plan.deployment.together
    return range(each, max(each, plan.platform.most_replicas) + 1, each)
