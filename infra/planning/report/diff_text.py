"""A comparison of two plans for a terminal: the price first, what happens to what runs, then a table for each section."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from infra.planning.report.change import SECTIONS, Change
from infra.planning.report.diff import Comparison
from infra.planning.report.rows import BAD, GOOD
from infra.planning.report.tables import Column, FittedTable
from infra.planning.units import counted

WIDEST = 72
"""Characters of a value; a longer one is cut in its middle, and stands whole in the JSON."""
_TONES = {"better": GOOD, "worse": BAD, "": ""}


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
            when = "changed" if change.before and change.after else "no longer" if change.before else "new"
            yield f"{when}: {change.subject.lower()} {change.after or change.before}"
    told = [change for change in comparison.changes if change.section not in ("warnings", "other")]
    rest = sum(change.section == "other" for change in comparison.changes)
    yield ""
    yield _table(told or comparison.changes, comparison.against, stack if stack != comparison.against else "now")
    if told and rest:
        yield f"{counted(rest, 'further difference')} of figures and words: --json lists them in `diff`."


def _table(changes: Sequence[Change], before: str, after: str) -> FittedTable:
    """Return the changes as a table, a heading over each section and over the inputs of each resource."""
    rows: list[tuple[Text | str, str, Text | str]] = []
    section = resource = ""
    for change in changes:
        if change.section != section:
            section = change.section
            rows.append((Text(SECTIONS[section], style="bold"), "", ""))
        name, separator, path = change.subject.partition(": ")
        if separator and name != resource:
            rows.append((name, "", ""))
        resource = name if separator else ""
        old, new = change.brief(WIDEST)
        rows.append((f"  {path}" if separator else change.subject, old, Text(new, style=_TONES[change.tone])))
    return FittedTable([Column(name, folds=True) for name in ("change", before, after)], rows)
