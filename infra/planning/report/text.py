"""The plan for a terminal, and as plain text for Pulumi's diagnostics: its first screen, the whole, or what changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from infra.planning.plan import Plan
from infra.planning.report.first_screen import COLUMNS, first_screen, step_lines
from infra.planning.report.resources import ResourceList
from infra.planning.report.rows import (
    BAD,
    VERDICTS,
    WARNING,
    command_lines,
    plan_rows,
    resource_lines,
    title,
    who_set,
    wrapper_lines,
)
from infra.planning.report.tables import Cell, labelled
from infra.planning.report.terminal import plain, show, unbroken, width

_LABELS = 8
"""Columns of the names before the rows, at least."""


def print_first_screen(plan: Plan) -> None:
    """Print what decides, and what to type next."""
    show(*first_screen(plan, width(COLUMNS)))


def first_screen_text(plan: Plan) -> str:
    """Return the same as plain text."""
    return plain(*first_screen(plan, COLUMNS))


def changes_text(plan: Plan, before: Mapping[str, Any]) -> str:
    """Return what changes against another plan's JSON as plain text, resources left out."""
    return plain(*_changes(plan, None, before))


def print_whole(plan: Plan, resources: ResourceList | None) -> None:
    """Print everything that is known of the plan, what to type next at the end."""
    show(*_whole(plan, resources), *([] if plan.refused else step_lines(plan, width())))


def print_changes(plan: Plan, resources: ResourceList | None, before: Mapping[str, Any]) -> None:
    """Print only what changes; `before` is another plan's JSON."""
    show(*_changes(plan, resources, before))


def _changes(plan: Plan, resources: ResourceList | None, before: Mapping[str, Any]) -> Iterable[RenderableType]:
    from infra.planning.report.data import as_json
    from infra.planning.report.diff import compare
    from infra.planning.report.diff_text import comparison_parts

    return comparison_parts(compare(before, as_json(plan, resources)), plan.stack)


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
    rows = [(Text("Refused", style=f"bold {BAD}"), f"{fault}{who_set(plan, fault.key)}") for fault in plan.refusals]
    for name, lines in plan_rows(plan):
        style = VERDICTS[plan.fits.value] if name == "Fits" else ""
        rows.append((Text(name, style=f"bold {style}".rstrip()), "\n".join(lines)))
    yield labelled(rows, _LABELS)
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


def _resources(resources: ResourceList) -> Iterator[RenderableType]:
    count = f": {len(resources.rows)} to create, stack and components included" if resources.rows else ""
    yield Text.assemble(("Resources", "bold"), count)
    if resources.missing:
        yield resources.missing
    lines = (line.partition(": ") for line in resource_lines(resources))
    yield labelled(((component, members) for component, _, members in lines), _LABELS)


def _remarks(plan: Plan) -> Iterator[RenderableType]:
    """Yield warnings, then notes, each of these with its further lines below its first word."""
    rows: list[tuple[Cell, RenderableType]]
    rows = [(Text("Warning", style=f"bold {WARNING}"), str(fault)) for fault in plan.warnings]
    for number, note in enumerate(() if plan.refused else plan.notes):
        rows.append((Text("" if number else "Notes", style="bold"), labelled([("·", note)], 1)))
    yield labelled(rows, _LABELS)
