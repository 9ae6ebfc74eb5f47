"""A plan as the comment of a pull request: the verdict first, what changes, then the plan and, folded, the details."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.planning.plan import Plan
from infra.planning.report.data import ResourceList, as_json
from infra.planning.report.diff import COMPARED, changes
from infra.planning.report.rows import command_lines, plan_rows, resource_lines, title, wrapper_lines

MARKER = "<!-- gemma4 plan {stack} -->"
"""First line of a comment: who updates comments in place finds its own by it."""
_TONES = {"better": " 🟢", "worse": " 🔴", "": ""}
_VERDICTS = {"fits": "✅", "tight": "⚠️", "refused": "⛔"}


def as_markdown(plan: Plan, resources: ResourceList | None, before: Mapping[str, Any] | None = None) -> str:
    """The comment; `before` is another plan's JSON to compare with."""
    parts = [MARKER.format(stack=plan.stack), f"### {_VERDICTS[plan.verdict.value]} `{plan.stack}`: {title(plan)}"]
    parts += [f"- ⛔ **{fault.key}**: {_cell(_tail(str(fault)))}" for fault in plan.refusals]
    if before is not None:
        parts.append(_diff_table(before, as_json(plan, resources), plan.stack))
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


def _diff_table(before: Mapping[str, Any], after: Mapping[str, Any], stack: str) -> str:
    rows = [[c.subject, _cell(c.before), _cell(c.after) + _TONES[c.tone]] for c in changes(before, after)]
    if not rows:
        return f"No change against `{before['stack']}`. {COMPARED}"
    head = "before" if before["stack"] == stack else f"`{before['stack']}`"
    return _table(["change", head, "after" if before["stack"] == stack else f"`{stack}`"], rows)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _tail(fault: str) -> str:
    return fault.partition(": ")[2]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
