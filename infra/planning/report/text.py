"""The plan for a terminal, and as plain text for Pulumi's diagnostics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from infra.planning.plan import Plan
from infra.planning.report.data import ResourceList, as_json
from infra.planning.report.diff import compare
from infra.planning.report.diff_text import comparison_parts
from infra.planning.report.rows import command_lines, plan_rows, resource_lines, title, wrapper_lines
from infra.planning.report.terminal import plain, show
from infra.planning.settings.resolve import Origin

_VERDICTS = {"fits": "green", "tight": "yellow", "refused": "red"}


def print_plan(plan: Plan, resources: ResourceList | None, before: Mapping[str, Any] | None = None) -> None:
    """Print to standard output, in colour where it is a terminal; `before` is another plan's JSON to compare with."""
    show(*_parts(plan, resources, before))


def text(plan: Plan, resources: ResourceList | None = None) -> str:
    """The plan as plain text of at most 110 columns."""
    return plain(*_parts(plan, resources, None))


def _parts(plan: Plan, resources: ResourceList | None, before: Mapping[str, Any] | None) -> Iterator[RenderableType]:
    head = Table.grid(expand=True)
    head.add_column(ratio=1)
    head.add_column(justify="right")
    head.add_row(Text(title(plan), style="bold"), f"stack {plan.stack}")
    yield head
    yield ""
    if before is not None:
        yield from comparison_parts(compare(before, as_json(plan, resources)), plan.stack)
        yield ""
    yield _body(plan, resources)


def _body(plan: Plan, resources: ResourceList | None) -> Table:
    body = Table.grid(padding=(0, 2))
    body.add_column(min_width=9)
    body.add_column(overflow="fold")
    for fault in plan.refusals:
        body.add_row(Text("Refused", style="bold red"), Text(f"{fault}{_not_written(plan, fault.key)}"))
    for name, lines in plan_rows(plan):
        style = _VERDICTS[plan.fits.value] if name == "Fits" else ""
        body.add_row(Text(name, style="bold"), Text("\n".join(lines), style=style))
    if not plan.refused:
        body.add_row(Text("Command", style="bold"), Text("\n".join([*wrapper_lines(plan), *command_lines(plan)])))
    if resources is not None:
        count = f"{len(resources.rows)} to create, stack and components included" if resources.rows else ""
        lines = [*filter(None, (count, resources.missing)), *resource_lines(resources)]
        body.add_row(Text("Resources", style="bold"), Text("\n".join(lines)))
    for fault in plan.warnings:
        body.add_row(Text("Warning", style="bold yellow"), Text(str(fault)))
    if plan.notes and not plan.refused:
        body.add_row(Text("Notes", style="bold"), Text("\n".join(f"· {note}" for note in plan.notes)))
    return body


_NOT_WRITTEN = {
    Origin.DEFAULT: "stands at its default",
    Origin.RECIPE: "comes from the recipe",
    Origin.PROFILE: "comes from the recipe of the profile",
    Origin.PLANNER: "was chosen by the planner",
}


def _not_written(plan: Plan, key: str) -> str:
    """Who set what is refused, where its reader did not."""
    who = _NOT_WRITTEN.get(plan.origins.get(key, Origin.STACK_FILE))
    return f" ({key} {who}.)" if who else ""
