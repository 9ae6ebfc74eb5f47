"""A comparison of two plans for a terminal: the price first, what happens to what runs, then a table for each section."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from infra.planning.report.change import SECTIONS, Change
from infra.planning.report.diff import Comparison

WIDEST = 72
"""Characters of a value; a longer one is cut in its middle, and stands whole in the JSON."""
_SUBJECT = 36
"""Characters of the first column that the others leave to it; a longer subject is folded where the terminal is narrow."""
_TONES = {"better": "green", "worse": "red", "": ""}


def comparison_parts(comparison: Comparison, stack: str) -> Iterator[RenderableType]:
    """Yield the comparison in reading order. Figures without a row of their own are counted, unless all else is the same."""
    yield Text(comparison.verdict, style="bold")
    if not comparison.changes:
        return
    yield Text(comparison.price, style="bold")
    for effect in comparison.effects:
        yield f"· {effect}"
    for change in comparison.changes:
        if change.section == "warnings":
            yield f"{'no longer' if change.before else 'new'}: {change.subject.lower()} {change.before or change.after}"
    told = [change for change in comparison.changes if change.section not in ("warnings", "other")]
    rest = sum(change.section == "other" for change in comparison.changes)
    yield ""
    yield _table(told or comparison.changes, comparison.against, stack if stack != comparison.against else "now")
    if told and rest:
        yield f"{rest} further figure{'s' if rest > 1 else ''} and words differ: --json lists them in `diff`."


def _table(changes: list[Change] | tuple[Change, ...], before: str, after: str) -> Table:
    """Return the changes as a table, a heading over each section and over the inputs of each resource."""
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    table.add_column("change", min_width=min(_SUBJECT, max(len(change.subject) for change in changes)), overflow="fold")
    for column in (before, after):
        table.add_column(column, overflow="fold")
    section = resource = ""
    for change in changes:
        if change.section != section:
            section = change.section
            table.add_row(Text(SECTIONS[section], style="bold"))
        name, separator, path = change.subject.partition(": ")
        if separator and name != resource:
            table.add_row(name)
        resource = name if separator else ""
        old, new = change.brief(WIDEST)
        table.add_row(f"  {path}" if separator else change.subject, Text(old), Text(new, style=_TONES[change.tone]))
    return table
