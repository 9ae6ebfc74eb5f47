"""A plan in words, as an assistant gets it. Apart from plan.py, which prints a plan without the models of JSON answers."""

from __future__ import annotations

from infra.ops.answers.planning_answers import PlanScreen
from infra.ops.commands.plan import comparison
from infra.ops.plan_inputs import plan_stack, project_root
from infra.planning.report import text


def plan_answer(stack: str, assignments: list[str] | None = None, diff: str | None = None) -> PlanScreen:
    """Return the first screen of the plan of `stack`, or what changes against another plan; no resources are listed."""
    root = project_root()
    plan = plan_stack(stack, assignments or [], root=root).plan
    shown = text.first_screen_text(plan)
    if diff is not None:
        shown = text.changes_text(plan, comparison(diff, root, resources=False))
    return PlanScreen(stack=stack, verdict=plan.verdict.value, text=shown)
