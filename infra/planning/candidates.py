"""What a recommendation chooses from: a need, the configurations that meet it, and how good the answers of their models are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from infra.catalog import Catalog, Model
from infra.planning.checks.reading_pace import READING_SPEED
from infra.planning.performance.speed import Rate
from infra.planning.plan import Plan
from infra.planning.units import Band

Order = Literal["price", "tokens", "speed"]
"""What candidates are ranked by: dollars an hour, dollars a million tokens, or tokens a second of one stream."""


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
    min_quality: float | None = None
    """Least score of the catalog's benchmark, in percent; None: any."""
    images: bool = False
    """Whether requests carry images; if not, a server may leave the vision tower out to make room."""
    may_end: bool = False
    """Whether the machine may end by itself, as for a batch of some hours."""
    order: Order = "price"

    @property
    def floor(self) -> float:
        """Tokens a second that each user gets at least."""
        return READING_SPEED if self.min_tokens_per_second is None else self.min_tokens_per_second


@dataclass(frozen=True)
class Quality:
    """What is published of how good a model's answers are."""

    benchmark: str
    """Title of the benchmark."""
    percent: float | None
    """None where nothing is known of the model's architecture."""
    own: bool
    """Whether the served weights were tested; if not, the score is that of Google's bf16 weights."""
    says: str
    """Half a sentence on a score that is not the weights' own; empty otherwise."""
    where: str
    """Where the score was published."""

    @property
    def cell(self) -> str:
        """The score as a table has it: 85.2, or 85.2~ where it is not the weights' own."""
        return "?" if self.percent is None else f"{self.percent:.1f}{'' if self.own else '~'}"


def quality_of(model: Model, facts: Catalog, *, quantized_while_loading: bool = False) -> Quality:
    """Return the published score of a model, else that of the bf16 checkpoint of its architecture, marked as not its own."""
    scores = facts.scores
    same = (one for one in facts.models.values() if one.architecture == model.architecture and one.id in scores)
    tested = model if model.id in scores else next(same, None)
    if tested is None:
        return Quality("", None, own=False, says="no score of this model was found", where="")
    score, unscored = scores[tested.id], facts.unscored.get(model.id)
    says = ""
    if quantized_while_loading:
        says = "the score is that of the bf16 weights; none was published of fp8 made while loading"
    elif tested is not model:
        says = unscored.says if unscored else f"the score is that of {tested.id}"
    title = facts.benchmarks[score.benchmark].title
    return Quality(title, score.percent, own=not says, says=says, where=score.source.where)


_NOT_MEASURED = ("workload", "scaling", "tpu", "machine", "gateway")
"""Groups that say nothing about one server."""
_AT_MOST = ("serving.maxModelLen", "serving.maxNumSeqs")
"""Settings of which a smaller value asks less of a server than the measured one did."""


@dataclass(frozen=True)
class Candidate:
    """A configuration that meets the need: the plan of all replicas, each serving `rate.requests` users."""

    plan: Plan
    replicas: int
    rate: Rate
    changes: Mapping[str, Any]
    """What to write in a stack file beyond model and accelerator; `plan` was made with it."""
    quality: Quality

    @cached_property
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


def _as_measured(settings: Mapping[str, object], path: str, value: Any) -> bool:
    """Return whether a change leaves what was measured with `settings` of a recipe as it was."""
    measured = settings.get(path)
    if path.partition(".")[0] in _NOT_MEASURED:
        return True
    return bool(value <= measured if path in _AT_MOST and isinstance(measured, int) else value == measured)
