"""What the catalog could serve for a need: every model on every machine, planned like a stack file, then ranked by price."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra.catalog import Accelerator, Backend, Catalog, Model, WeightFormat, catalog
from infra.errors import SettingsError
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.speed import Rate
from infra.words import did_you_mean

_MOST_REPLICAS = 16


@dataclass(frozen=True)
class Need:
    """What somebody wants to serve. `model` is a catalog id or a part of one; None means any."""

    model: str | None = None
    context: int = 8192
    users: int = 1
    max_usd_per_hour: float | None = None
    min_tokens_per_second: float | None = None
    prompt_tokens: int = 1024
    output_tokens: int = 256


@dataclass(frozen=True)
class Candidate:
    """A configuration that meets the need with `replicas` of it, each serving `rate.requests` users."""

    plan: Plan
    replicas: int
    rate: Rate
    changes: Mapping[str, Any]
    """What to write in a stack file beyond model and accelerator."""

    @property
    def usd_per_hour(self) -> float:
        """All replicas, running."""
        return self.replicas * self.plan.cost.usd_per_hour


@dataclass(frozen=True)
class Recommendation:
    """Candidates, the cheapest first, and how many pairs fell out for which reason."""

    candidates: tuple[Candidate, ...]
    rejected: Mapping[str, int]


def recommend(need: Need, *, facts: Catalog | None = None) -> Recommendation:
    """Rank all pairs of the catalog for `need`. Raises SettingsError where no model is meant or the numbers contradict."""
    facts = facts or catalog()
    if need.prompt_tokens + need.output_tokens > need.context:
        fact = f"{need.context:,} is less than prompt and answer together, {need.prompt_tokens + need.output_tokens:,}."
        raise SettingsError.of("--context", fact, fix="Raise it, or lower --prompt-tokens and --output-tokens.")
    candidates, rejected = [], Counter[str]()
    for model in _wanted(need, facts):
        for accelerator in facts.accelerators.values():
            found = _best(need, model, accelerator, facts)
            if isinstance(found, str):
                rejected[found] += 1
            else:
                candidates.append(found)
    ranked = sorted(candidates, key=lambda c: (c.usd_per_hour, -c.rate.per_stream.mid))
    return Recommendation(tuple(ranked), dict(rejected))


def _wanted(need: Need, facts: Catalog) -> list[Model]:
    word = (need.model or "").lower()
    exact = facts.models.get(word)
    wanted = [exact] if exact else [model for model in facts.models.values() if word in model.id]
    if not wanted:
        hint = did_you_mean(word, facts.models) or f"Known: {', '.join(facts.models)}."
        raise SettingsError.of("--model", f"no model of the catalog has {need.model!r} in its id.", fix=hint)
    return wanted


def _best(need: Need, model: Model, accelerator: Accelerator, facts: Catalog) -> Candidate | str:
    """The first variant of a pair that meets the need, least altered first; else why the last one did not."""
    reason = "too long a context for the model"
    if need.context > facts.architecture_of(model.id).max_position:
        return reason
    for changes in _variants(need, model, accelerator):
        plan = make_plan("candidate", {"model": model.id, "accelerator": accelerator.id}, changes, facts=facts)
        if plan.refused:
            reason = "does not fit or cannot load"
            continue
        found = _staffed(need, plan, changes)
        if not isinstance(found, str):
            return found
        reason = found
    return reason


def _variants(need: Need, model: Model, accelerator: Accelerator) -> Iterator[dict[str, Any]]:
    base = {
        "serving.maxModelLen": need.context,
        "workload.promptTokens": need.prompt_tokens,
        "workload.outputTokens": need.output_tokens,
    }
    yield base
    smaller_kv = {"serving.kvCacheDtype": "fp8"}
    yield base | smaller_kv
    if accelerator.backend is Backend.GPU and model.weight_format is WeightFormat.BF16:
        yield base | smaller_kv | {"serving.quantization": "fp8"}


def _staffed(need: Need, plan: Plan, changes: Mapping[str, Any]) -> Candidate | str:
    """The fewest replicas that hold all users at the speed asked for."""
    held = plan.capacity.requests_held(need.prompt_tokens + need.output_tokens)
    reason = "too little KV cache for the users"
    for replicas in range(1, _MOST_REPLICAS + 1):
        each = math.ceil(need.users / replicas)
        if each > held:
            continue
        rate = plan.speed_model.tokens_per_second_at(each)
        if need.min_tokens_per_second is not None and rate.per_stream.mid < need.min_tokens_per_second:
            reason = "too slow"
            continue
        if need.max_usd_per_hour is not None and replicas * plan.cost.usd_per_hour > need.max_usd_per_hour:
            return "too dear"
        return Candidate(plan, replicas, rate, {**changes, "serving.maxNumSeqs": max(each, 1)})
    return reason
