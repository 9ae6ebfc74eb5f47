"""From an endpoint and its plan to what is asked of it: which kinds, how long the longest text, held to which floor."""

from __future__ import annotations

from collections.abc import Sequence

from infra.catalog import catalog
from infra.errors import SettingsError
from infra.planning.plan import Plan
from infra.serving.client import ServedModel
from infra.serving.evaluation.check_answers import switched_off
from infra.serving.evaluation.evaluator import CONCURRENCY, EvaluationScope
from infra.serving.evaluation.task_set import KINDS, Kind, TaskSet
from infra.serving.planned_expectation import planned_expectation
from infra.suggestions import did_you_mean, printable

MOST_CONCURRENCY = 64
_REFUSABLE: frozenset[Kind] = frozenset(("tools", "image"))
"""Kinds that a server may have been started without."""


def chosen_kinds(tasks: Sequence[str]) -> tuple[Kind, ...]:
    """Return the kinds that --tasks names, all where it names none; names may be separated by commas. Raises SettingsError."""
    names = [name.strip() for text in tasks for name in text.split(",") if name.strip()]
    for name in names:
        if name not in KINDS:
            fix = did_you_mean(name, KINDS) or f"Write some of: {', '.join(KINDS)}."
            raise SettingsError.of("--tasks", f"there are no questions of the kind {printable(name)!r}.", fix=fix)
    return tuple(kind for kind in KINDS if not names or kind in names)


def scope_of(
    served: ServedModel,
    kinds: tuple[Kind, ...],
    questions: TaskSet,
    plan: Plan | None,
    *,
    longest_context: int | None = None,
    concurrency: int | None = None,
) -> EvaluationScope:
    """Return what is asked of a served model. Without a plan, what the server refuses counts as not asked."""
    most = served.max_model_len or 0
    longest = min(longest_context, most or longest_context) if longest_context is not None else most
    without: dict[Kind, str] = {}
    if longest < min(questions.context.lengths):
        without["context"] = (
            "the server does not say how long a request may be"
            if longest_context is None and not most
            else f"the longest text was to have fewer than {min(questions.context.lengths):,} tokens"
        )
    if plan is not None:
        without |= switched_off(planned_expectation(plan))
    return EvaluationScope(
        model=served.name,
        longest_context=longest,
        kinds=kinds,
        without=without,
        may_refuse=frozenset() if plan else _REFUSABLE,
        concurrency=concurrency or CONCURRENCY,
    )


def architecture_of(model: str) -> str:
    """Return the architecture of a checkpoint by the name that a server gives it; empty where the catalog has none such."""
    name = model.lower().rpartition("/")[2]
    rows = catalog().models.values()
    return next(
        (row.architecture for row in rows if name in (row.id.lower(), row.hub_id.lower().rpartition("/")[2])), ""
    )
