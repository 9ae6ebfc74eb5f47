"""The plan for a terminal, and as plain text for Pulumi's diagnostics: its first screen, the whole, or what changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from infra.planning.plan import Plan
from infra.planning.report.first_screen import COLUMNS, first_screen, step_lines
from infra.planning.report.resources import ResourceList
from infra.planning.report.rows import (
    BAD,
    GOOD,
    WARNING,
    command_lines,
    plan_rows,
    resource_lines,
    title,
    who_set,
    wrapper_lines,
)
from infra.planning.report.terminal import plain, show, unbroken, width

_VERDICTS = {"fits": GOOD, "tight": WARNING, "refused": BAD}


def print_first_screen(plan: Plan) -> None:
    """Print what decides, and what to type next."""
    show(*first_screen(plan, width(COLUMNS)))


def print_whole(plan: Plan, resources: ResourceList | None) -> None:
    """Print everything that is known of the plan, what to type next at the end."""
    show(*_whole(plan, resources), *([] if plan.refused else step_lines(plan)))


def print_changes(plan: Plan, resources: ResourceList | None, before: Mapping[str, Any]) -> None:
    """Print only what changes; `before` is another plan's JSON."""
    from infra.planning.report.data import as_json
    from infra.planning.report.diff import compare
    from infra.planning.report.diff_text import comparison_parts

    show(*comparison_parts(compare(before, as_json(plan, resources)), plan.stack))


def print_command(plan: Plan) -> None:
    """Print the server's command line as a shell takes it."""
    show(unbroken(command_lines(plan)))


def print_resources(resources: ResourceList) -> None:
    """Print every resource that the program would create, one line a component."""
    show(*_resources(resources))


def print_notes(plan: Plan) -> None:
    """Print every warning and every note."""
    show(*_remarks(plan))


def text(plan: Plan, resources: ResourceList | None = None) -> str:
    """Return the whole plan as plain text in the width of output that is not a terminal; commands are never broken."""
    return plain(*_whole(plan, resources))


def _whole(plan: Plan, resources: ResourceList | None) -> Iterator[RenderableType]:
    yield Text(f"{plan.stack}: {title(plan)}", style="bold")
    yield ""
    body = _grid()
    for fault in plan.refusals:
        body.add_row(Text("Refused", style=f"bold {BAD}"), f"{fault}{who_set(plan, fault.key)}")
    for name, lines in plan_rows(plan):
        style = _VERDICTS[plan.fits.value] if name == "Fits" else ""
        body.add_row(Text(name, style=f"bold {style}".rstrip()), Text("\n".join(lines)))
    yield body
    if not plan.refused:
        yield ""
        yield Text("Command", style="bold")
        yield unbroken([f"  {line}" for line in (*wrapper_lines(plan), *command_lines(plan))])
    if resources is not None:
        yield ""
        yield from _resources(resources)
    if plan.warnings or (plan.notes and not plan.refused):
        yield ""
        yield from _remarks(plan)


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(min_width=8)
    grid.add_column(overflow="fold")
    return grid


def _resources(resources: ResourceList) -> Iterator[RenderableType]:
    count = f": {len(resources.rows)} to create, stack and components included" if resources.rows else ""
    yield Text.assemble(("Resources", "bold"), count)
    if resources.missing:
        yield resources.missing
    grid = _grid()
    for line in resource_lines(resources):
        component, _, members = line.partition(": ")
        grid.add_row(component, members)
    yield grid


def _remarks(plan: Plan) -> Iterator[RenderableType]:
    grid = _grid()
    for fault in plan.warnings:
        grid.add_row(Text("Warning", style=f"bold {WARNING}"), str(fault))
    for number, note in enumerate(() if plan.refused else plan.notes):
        grid.add_row(Text("" if number else "Notes", style="bold"), _hanging(note))
    yield grid


def _hanging(note: str) -> Table:
    """Return a note whose further lines begin below its first word."""
    grid = Table.grid(padding=(0, 1))
    grid.add_row("·", Text(note))
    return grid
