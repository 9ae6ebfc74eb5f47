"""A plan as the comment of a pull request: the verdict first, what changes, then the plan and, folded, the details."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from infra.planning.plan import Plan
from infra.planning.report.data import ResourceList, as_json
from infra.planning.report.diff import SECTIONS, Change, Comparison, compare
from infra.planning.report.rows import command_lines, plan_rows, resource_lines, title, wrapper_lines

MARKER = "<!-- gemma4 plan {stack} -->"
"""First line of a comment: who updates comments in place finds its own by it."""
WIDEST = 60
"""Characters of a value in a table: GitHub shows about 900 pixels."""
_TONES = {"better": " 🟢", "worse": " 🔴", "": ""}
_VERDICTS = {"fits": "✅", "tight": "⚠️", "refused": "⛔"}


def as_markdown(plan: Plan, resources: ResourceList | None, before: Mapping[str, Any] | None = None) -> str:
    """The comment; `before` is another plan's JSON to compare with."""
    parts = [MARKER.format(stack=plan.stack), f"### {_VERDICTS[plan.verdict.value]} `{plan.stack}`: {title(plan)}"]
    parts += [f"- ⛔ **{fault.key}**: {_cell(_tail(str(fault)))}" for fault in plan.refusals]
    if before is not None:
        parts += _comparison(compare(before, as_json(plan, resources)), plan.stack)
    parts.append(
        _table(
            ["", ""], [[f"**{name}**", "<br>".join(_cell(line) for line in lines)] for name, lines in plan_rows(plan)]
        )
    )
    parts += [f"- ⚠️ **{fault.key}**: {_cell(_tail(str(fault)))}" for fault in plan.warnings]
    if not plan.refused:
        parts.append(_folded("Command", "```sh\n" + "\n".join([*wrapper_lines(plan), *command_lines(plan)]) + "\n```"))
    if resources is not None:
        listed = "\n".join(f"- {line}" for line in resource_lines(resources)) or resources.missing
        parts.append(_folded(f"Resources: {len(resources.rows)}", listed))
    if plan.notes and not plan.refused:
        parts.append(_folded(f"Notes: {len(plan.notes)}", "\n".join(f"- {note}" for note in plan.notes)))
    return "\n\n".join(parts)


def _comparison(comparison: Comparison, stack: str) -> Iterator[str]:
    """Yield the comparison: its sentence, what happens to what runs, and a table; what has no row of its own is folded."""
    if not comparison.changes:
        yield comparison.verdict
        return
    yield comparison.price
    if comparison.effects:
        yield "\n".join(f"- {_cell(effect)}" for effect in comparison.effects)
    same = comparison.against == stack
    head = ["change", "before" if same else f"`{comparison.against}`", "after" if same else f"`{stack}`"]
    folded = ("resources", "other")
    if plain := [change for change in comparison.changes if change.section not in folded]:
        yield _table(head, [_row(change) for change in plain])
    for section in folded:
        if changes := [change for change in comparison.changes if change.section == section]:
            yield _folded(f"{SECTIONS[section]}: {len(changes)}", _table(head, [_row(change) for change in changes]))
    if comparison.not_compared:
        yield f"Not compared: {'; '.join(comparison.not_compared)}."


def _row(change: Change) -> list[str]:
    before, after = change.brief(WIDEST)
    return [_cell(change.subject), _cell(before), _cell(after) + _TONES[change.tone]]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _tail(fault: str) -> str:
    return fault.partition(": ")[2]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
