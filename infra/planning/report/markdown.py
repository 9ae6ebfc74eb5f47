"""A plan as the comment of a pull request: refusals and warnings first, then what changes; the plan itself is folded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from infra.planning.plan import Plan
from infra.planning.report.change import SECTIONS, Change
from infra.planning.report.data import as_json
from infra.planning.report.diff import Comparison, compare
from infra.planning.report.resources import ResourceList
from infra.planning.report.rows import command_lines, plan_rows, resource_lines, title, wrapper_lines

MARKER = "<!-- gemma4 plan {stack} -->"
"""First line of a comment: who updates comments in place finds its own by it."""
WIDEST = 60
"""Characters of a value in a table: GitHub shows about 900 pixels."""
_FOLDED = ("resources", "other")
"""Sections of a comparison that are longer than what a reviewer reads first."""
_TONES = {"better": " 🟢", "worse": " 🔴", "": ""}
VERDICTS = {"fits": "✅", "tight": "⚠️", "refused": "⛔"}


def as_markdown(plan: Plan, resources: ResourceList | None, before: Mapping[str, Any] | None = None) -> str:
    """Return the comment. `before` is another plan's JSON to compare with; without it the plan stands open."""
    parts = [MARKER.format(stack=plan.stack), f"### {VERDICTS[plan.verdict.value]} `{plan.stack}`: {title(plan)}"]
    comparison = None if before is None else compare(before, as_json(plan, resources))
    told = [change for change in comparison.changes if change.section == "warnings"] if comparison else []
    new = [change.new for change in told if not change.before]
    faults = [("⛔", fault) for fault in plan.refusals] + [("⚠️", fault) for fault in plan.warnings]
    lines = [
        f"- {sign} {'new, ' * (vars(fault) in new)}**{fault.key}**: {str(fault).partition(': ')[2]}"
        for sign, fault in faults
    ]
    if lines:
        parts.append("\n".join(map(_line, lines)))
    rows = [[name, "<br>".join(_cell(line) for line in lines)] for name, lines in plan_rows(plan)]
    table = _table(["part", f"plan of `{plan.stack}`"], rows)
    if comparison is None:
        parts.append(table)
    else:
        parts += _comparison(comparison, plan.stack)
        parts.append(_folded("The whole plan", table))
    if not plan.refused:
        parts.append(_folded("Command", "```sh\n" + "\n".join([*wrapper_lines(plan), *command_lines(plan)]) + "\n```"))
    if resources is not None:
        listed = "\n".join(f"- {line}" for line in resource_lines(resources)) or resources.missing
        parts.append(_folded(f"All resources: {len(resources.rows)}", listed))
    if plan.notes and not plan.refused:
        parts.append(_folded(f"Notes: {len(plan.notes)}", "\n".join(f"- {note}" for note in plan.notes)))
    return "\n\n".join(parts)


def _comparison(comparison: Comparison, stack: str) -> Iterator[str]:
    """Yield the price, what happens to what runs, and the changes in tables; with none, one sentence."""
    if not comparison.changes:
        yield comparison.verdict
        return
    yield f"**{comparison.price}**"
    if comparison.effects:
        yield "\n".join(f"- {_line(effect)}" for effect in comparison.effects)
    same = comparison.against == stack
    head = ["change", "before" if same else f"`{comparison.against}`", "after" if same else f"`{stack}`"]
    told = [
        change for change in comparison.changes if change.section == "warnings" and change.after
    ]  # with the plan's own
    if shown := [change for change in comparison.changes if change.section not in _FOLDED and change not in told]:
        yield _changes(head, shown)
    for section in _FOLDED:
        if folded := [change for change in comparison.changes if change.section == section]:
            yield _folded(f"Changes: {SECTIONS[section].lower()}, {len(folded)}", _changes(head, folded))
    if comparison.not_compared:
        yield f"Not compared: {'; '.join(comparison.not_compared)}."


def _changes(head: Sequence[str], changes: Sequence[Change]) -> str:
    rows = []
    for change in changes:
        before, after = change.brief(WIDEST)
        rows.append([_cell(change.subject), _cell(before), _cell(after) + _TONES[change.tone]])
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _line(text: str) -> str:
    return text.replace("\n", " ")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
