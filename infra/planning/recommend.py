"""Ranks what the catalog could serve for a need: every model on every machine, planned like a stack file, then ranked by price.

What is ranked is what is written: a candidate's plan is that of its own stack file, replicas included.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from infra.catalog import Accelerator, Catalog, Model, catalog
from infra.errors import SettingsError
from infra.planning.checks.reading_pace import READING_SPEED
from infra.planning.memory.verdict import Verdict
from infra.planning.performance.speed import GAIN_MEASURED_ON, Rate
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.server.implementations import implementation_of
from infra.planning.units import Band
from infra.suggestions import did_you_mean


@dataclass(frozen=True)
class Need:
    """What somebody wants to serve. `model` is a catalog id or a part of one; None means any."""

    model: str | None = None
    context: int = 8192
    users: int = 1
    max_usd_per_hour: float | None = None
    min_tokens_per_second: float | None = None
    """None: READING_SPEED; a slower stream is offered only to who asks for one."""
    prompt_tokens: int = 1024
    output_tokens: int = 256

    @property
    def floor(self) -> float:
        """Tokens a second that each user gets at least."""
        return READING_SPEED if self.min_tokens_per_second is None else self.min_tokens_per_second


@dataclass(frozen=True)
class Candidate:
    """A configuration that meets the need: the plan of all replicas, each serving `rate.requests` users."""

    plan: Plan
    replicas: int
    rate: Rate
    changes: Mapping[str, Any]
    """What to write in a stack file beyond model and accelerator; `plan` was made with it."""

    @property
    def usd_per_hour(self) -> float:
        """Dollars an hour while all replicas run."""
        return self.plan.cost.usd_per_hour_at_most

    @property
    def tokens_per_second(self) -> Band:
        """Tokens a second of all replicas together, each with its share of the users, whose prompts are cached."""
        return self.rate.total.times(self.replicas)

    @property
    def tokens_per_second_new_prompts(self) -> Band:
        """Tokens a second of all replicas together, each with its share of the users, whose prompts are new."""
        return self.rate.with_new_prompts.times(self.replicas)

    @property
    def usd_per_million(self) -> Band:
        """Dollars for a million output tokens while all users ask with cached prompts."""
        return self._usd_per_million(self.tokens_per_second)

    @property
    def usd_per_million_new_prompts(self) -> Band:
        """Dollars for a million output tokens while all users ask with new prompts."""
        return self._usd_per_million(self.tokens_per_second_new_prompts)

    def _usd_per_million(self, tokens_per_second: Band) -> Band:
        return tokens_per_second.dividing(1e6 * self.usd_per_hour / 3600)

    @property
    def holds(self) -> int:
        """Requests of the workload that all replicas hold at once."""
        return self.replicas * self.plan.requests_held

    @property
    def holds_band(self) -> Band:
        """`holds` over the band of the KV cache's size."""
        return self.plan.requests_held_band.times(self.replicas)

    @property
    def measured(self) -> Literal["speed", "ran", "no"]:
        """Return whether somebody measured the speed of these settings at such a load, or only ran them, or neither."""
        recipe = next((one for one in self.plan.recipes if one.measured_by), None)
        if recipe is None or not all(_as_measured(recipe.settings, *change) for change in self.changes.items()):
            return "no"
        at = recipe.speed_measured_at
        return "speed" if at and min(at) <= self.rate.requests <= max(at) else "ran"


@dataclass(frozen=True)
class Recommendation:
    """Candidates in the order of `_rank`, and how many pairs fell out for which reason."""

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
                candidates.append(found)
            else:
                rejected["too dear"] += 1
                dear.append(found)
    return Recommendation(
        tuple(sorted(candidates, key=_rank)),
        dict(rejected),
        min(dear, key=lambda one: (not one.plan.accelerator.deployable, *_price(one)), default=None),
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
    ):
        if value is not None and math.isnan(value):
            raise SettingsError.of(f"--{key}", "is not a number.", fix="Write for example 5, or leave it out.")


def _rank(candidate: Candidate) -> tuple[bool, bool, float, float]:
    """Sort what can be deployed before what is only planned, what fits before what may not, then as `_price` does."""
    plan = candidate.plan
    return not plan.accelerator.deployable, plan.verdict is not Verdict.FITS, *_price(candidate)


def _price(candidate: Candidate) -> tuple[float, float]:
    """Sort by price, and by speed where the price is the same."""
    return candidate.usd_per_hour, -candidate.rate.per_stream.mid


def _affordable(need: Need, candidate: Candidate) -> bool:
    return need.max_usd_per_hour is None or candidate.usd_per_hour <= need.max_usd_per_hour


def _wanted(need: Need, facts: Catalog) -> list[Model]:
    word = (need.model or "").lower()
    exact = facts.models.get(word)
    known = facts.models.values()
    wanted = [exact] if exact else [model for model in known if word in model.id and not model.third_party]
    if not wanted:
        hint = did_you_mean(word, facts.models) or f"Known: {', '.join(facts.models)}."
        raise SettingsError.of("--model", f"no model of the catalog has {need.model!r} in its id.", fix=hint)
    return wanted


def _best(need: Need, model: Model, accelerator: Accelerator, facts: Catalog) -> Candidate | _Short:
    """Return the first variant of a pair that meets the need, least altered first.

    Else the cheapest of those that are only too dear, else why the last variant fell short.
    """
    short = _Short("too long a context for the model")
    if need.context > facts.architecture_of(model.id).max_position:
        return short
    dear: list[Candidate] = []
    for changes in _variants(need, model, accelerator, facts):
        plan = _planned(model, accelerator, changes, facts)
        if plan.refused:
            short = _Short("too large or not to be loaded there", short.most_users)
            continue
        found = _staffed(need, plan, changes, facts)
        if isinstance(found, _Short):
            short = _Short(found.reason, max(short.most_users, found.most_users))
        elif _affordable(need, found) or found.replicas == 1:
            return found  # too dear perhaps, but no variant needs fewer replicas
        else:
            dear.append(found)
    return min(dear, key=_price, default=short)


def _planned(model: Model, accelerator: Accelerator, changes: Mapping[str, Any], facts: Catalog) -> Plan:
    return make_plan("candidate", {"model": model.id, "accelerator": accelerator.id}, changes, facts=facts)


def _variants(need: Need, model: Model, accelerator: Accelerator, facts: Catalog) -> Iterator[dict[str, Any]]:
    """Yield what to write for a pair, least altered first: as it is, a smaller KV cache, smaller weights, each again with MTP.

    MTP only on GPU, where its gain was measured, and only where the model has a drafter.
    """
    base: dict[str, Any] = {
        "serving.maxModelLen": need.context,
        "workload.promptTokens": need.prompt_tokens,
        "workload.outputTokens": need.output_tokens,
    }
    smaller_kv = base | {"serving.kvCacheDtype": "fp8"}
    plain = [base, smaller_kv]
    if (
        implementation_of(accelerator).quantizes_while_loading
        and not facts.weight_formats[model.weight_format].quantized
    ):
        plain.append(smaller_kv | {"serving.quantization": "fp8"})
    yield from plain
    if accelerator.device is GAIN_MEASURED_ON and facts.assistant_of(model.id) is not None:
        yield from (one | {"serving.speculation.method": "mtp"} for one in plain)


def _staffed(need: Need, plan: Plan, changes: Mapping[str, Any], facts: Catalog) -> Candidate | _Short:
    """Return the fewest replicas that hold all users at the speed asked for, planned as they would be written."""
    reason = "cannot hold so many users"
    for replicas in range(1, plan.platform.most_replicas + 1):
        each = -(-need.users // replicas)
        if each > min(plan.platform.most_requests_each(replicas), plan.requests_held):
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
        final = _planned(plan.model, plan.accelerator, written, facts)
        if not final.refused and min(final.requests_held, final.server.max_num_seqs) >= each:
            return Candidate(final, replicas, rate, written)
        reason = "too little memory to run so many at once"
    return _Short(reason, _most_users(need, plan))


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
        each = min(plan.platform.most_requests_each(replicas), plan.requests_held)
        return replicas * bisect.bisect_left(range(1, each + 1), True, key=too_slow)

    return max(held_by(replicas) for replicas in range(1, plan.platform.most_replicas + 1))


_NOT_MEASURED = ("workload", "scaling", "tpu")
"""Groups that say nothing about one server."""
_AT_MOST = ("serving.maxModelLen", "serving.maxNumSeqs")
"""Settings of which a smaller value asks less of a server than the measured one did."""


def _as_measured(settings: Mapping[str, object], path: str, value: Any) -> bool:
    """Return whether a change leaves what was measured with `settings` of a recipe as it was."""
    measured = settings.get(path)
    if path.partition(".")[0] in _NOT_MEASURED:
        return True
    return bool(value <= measured if path in _AT_MOST and isinstance(measured, int) else value == measured)
