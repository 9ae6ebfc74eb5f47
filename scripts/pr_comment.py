"""Writes the pull request's comment: the plan of every touched stack, each compared with the base commit's own plan.

A stack is touched when its file changed, or when anything changed that all plans depend on. The base is planned by the
base's code in a work tree of its own, so that a change of the planner shows up as well. The comment begins with one line a
stack, with its price; details of a stack follow only where its plan changes. A stack whose file is gone or renamed is
named. Where no stack is touched, the comment is an empty file. The exit code is 3 where a touched stack is refused or cannot
be read; all files are written all the same.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from infra.errors import Gemma4Error
from infra.ops.commands.plan import list_resources
from infra.ops.plan_inputs import plan_stack, saved_plan
from infra.planning.report.data import as_json
from infra.planning.report.diff import compare
from infra.planning.report.figure_changes import price_sentence
from infra.planning.report.markdown import VERDICTS, as_markdown
from infra.planning.settings.stackfile import stack_names
from infra.planning.units import counted

ROOT = Path(__file__).resolve().parents[1]
MARKER = "<!-- gemma4 preview -->"
SHARED = ("infra/", "containers/", "__main__.py", "Pulumi.yaml", "requirements.txt")
REFUSED = 3
LONGEST = 65_000
"""Characters of a comment: GitHub refuses one with more than 65,536."""
_BETWEEN = "\n\n---\n\n"
_CUT = "\n\n*Shortened: GitHub takes no longer comment. The whole is in the summary of the job `plan`.*"


@dataclass(frozen=True)
class Part:
    """What the comment says of one stack: a line at its top, empty where nothing changes, and the details."""

    stack: str
    line: str = ""
    details: str = ""
    failed: bool = False
    """True where the stack is refused or cannot be read: the job fails."""


def main(argv: Sequence[str] | None = None) -> int:
    """Write the three files, and return REFUSED where a touched stack cannot be deployed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", required=True, help="commit to compare with")
    parser.add_argument("--commit", default="HEAD", help="commit that is planned, to be named in the comment")
    parser.add_argument("--output", type=Path, required=True, help="where the comment goes, in Markdown")
    parser.add_argument("--whole", type=Path, required=True, help="where the same goes at any length")
    parser.add_argument("--stacks", type=Path, required=True, help="where the list of touched stacks goes, as JSON")
    given = parser.parse_args(argv)
    changes = _git("diff", "--name-status", "-M", f"{given.base}...HEAD").splitlines()
    stacks = touched([path for change in changes for path in change.split("\t")[1:]], stack_names(ROOT))
    given.stacks.write_text(json.dumps(stacks))
    moved = renamed(changes)
    parts = [part_of_removed(stack) for stack in removed(changes)] + [
        part_of_removed(old, new) for new, old in moved.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        _git("worktree", "add", "--detach", str(base), given.base)
        try:
            parts += [part_of(stack, _base_plan(base, moved.get(stack, stack), Path(folder))) for stack in stacks]
        finally:
            _git("worktree", "remove", "--force", str(base))
    commits = [_git("rev-parse", "--short", commit).strip() for commit in (given.commit, given.base)]
    given.whole.write_text(joined(parts, *commits) or "No stack is touched.\n", encoding="utf-8")
    given.output.write_text(joined(shortened(parts), *commits), encoding="utf-8")
    return REFUSED if any(part.failed for part in parts) else 0


def touched(changed: Sequence[str], stacks: list[str]) -> list[str]:
    """Return the stacks whose plan may differ after a change of these files."""
    if any(path.startswith(SHARED) for path in changed):
        return stacks
    return [stack for stack in stacks if f"Pulumi.{stack}.yaml" in changed]


def removed(changes: Sequence[str]) -> list[str]:
    """Return the stacks whose files are gone, from the lines of `git diff --name-status`."""
    return [found[1] for change in changes if (found := re.fullmatch(r"D\tPulumi\.(.+)\.yaml", change))]


def renamed(changes: Sequence[str]) -> dict[str, str]:
    """Return the stacks whose files have another name, old name by new, from the lines of `git diff --name-status -M`."""
    moves = (re.fullmatch(r"R\d*\tPulumi\.(.+)\.yaml\tPulumi\.(.+)\.yaml", change) for change in changes)
    return {found[2]: found[1] for found in moves if found}


def part_of_removed(stack: str, new_name: str = "") -> Part:
    """Return the part for a stack whose file is gone, or has become that of `new_name`."""
    what = f"is renamed to `{new_name}`, which is another stack for Pulumi" if new_name else "is removed"
    return Part(
        stack,
        f"⚠️ **`{stack}`** {what}: what it has deployed stays and is paid for.",
        f"### ⚠️ `{stack}` {what}\n\nIts file is gone. What it has deployed stays, and is paid for, until "
        f"`pulumi destroy -s {stack}` has run, which needs the file: run it before this is merged.",
    )


def part_of(stack: str, before: Mapping[str, Any] | None) -> Part:
    """Return the part for a touched stack, compared with `before`: None where the base has no plan of it."""
    try:
        planned = plan_stack(stack, root=ROOT)
        listed = list_resources(planned)
    except Gemma4Error as error:
        details = f"### ⛔ `{stack}` cannot be read\n\n```\n{error}\n```"
        return Part(stack, f"⛔ **`{stack}`** cannot be read.", details, failed=True)
    plan, after = planned.plan, as_json(planned.plan, listed)
    sign = f"{VERDICTS[plan.verdict.value]} **`{stack}`**"
    if plan.refused:
        keys = ", ".join(dict.fromkeys(f"`{fault.key}`" for fault in plan.refusals))
        return Part(stack, f"{sign} is refused: {keys}.", as_markdown(plan, listed, before), failed=True)
    if before is None:
        return Part(stack, f"{sign} is new. {price_sentence(None, after)}", as_markdown(plan, listed))
    found = compare(before, after)
    if not found.changes:
        return Part(stack, f"{sign}: {found.verdict}" if found.not_compared else "")
    return Part(
        stack, f"{sign}: {counted(len(found.changes), 'change')}. {found.price}", as_markdown(plan, listed, before)
    )


def _base_plan(base: Path, stack: str, folder: Path) -> dict[str, Any] | None:
    """Return the plan of a stack as the code in `base` makes it, None where it has none or cannot read its file."""
    command = [sys.executable, "-c", "from infra.ops.cli import main; main()", "plan", stack, "--json"]
    answer = subprocess.run(command, cwd=base, capture_output=True, text=True, check=False)  # noqa: S603 our own command
    if answer.returncode not in (0, REFUSED):
        return None
    saved = folder / f"{stack}.json"
    saved.write_text(answer.stdout, encoding="utf-8")
    return saved_plan(saved)


def shortened(parts: Sequence[Part], longest: int = LONGEST) -> list[Part]:
    """Return the parts, the longest details cut at the end of a line, so that all together a comment can hold them."""
    lengths = sorted(len(part.details) for part in parts)
    top = joined([replace(part, details="") for part in parts], "0" * 40, "0" * 40)
    room = longest - len(top) - len(_BETWEEN) * len(parts)
    if sum(lengths) <= room:
        return list(parts)
    share, left = 0, len(parts)
    for length in lengths:  # what short parts leave is the others'
        share = room // left
        if length > share:
            break
        room, left = room - length, left - 1
    return [part if len(part.details) <= share else replace(part, details=_cut(part.details, share)) for part in parts]


def _cut(details: str, length: int) -> str:
    """Return the beginning of a stack's details in at most `length` characters, with whatever it leaves open closed."""
    ending = "\n```\n\n</details>\n\n</details>" + _CUT
    kept = details[: max(0, length - len(ending))].rpartition("\n")[0]
    fence = "\n```" if kept.count("\n```") % 2 else ""
    fold = "\n\n</details>" * (kept.count("<details>") - kept.count("</details>"))
    return f"{kept}{fence}{fold}{_CUT}"


def joined(parts: Sequence[Part], commit: str, base: str) -> str:
    """Return the comment: a line for each stack, one for all that stay as they are, then the details; empty without parts."""
    if not parts:
        return ""
    changed, failed = [part for part in parts if part.line], sum(part.failed for part in parts)
    change = "changes" if len(changed) == 1 else "change"
    count = f"{len(changed)} of {counted(len(parts), 'touched stack')} {change}" if changed else "no plan changes"
    title = f"## gemma4: {count}" + (f", {failed} cannot be deployed ⛔" if failed else "")
    lines = [f"- {part.line}" for part in changed]
    if same := [f"`{part.stack}`" for part in parts if not part.line]:
        lines.append(f"- As before: {', '.join(same)}.")
    commits = f"Planned at `{commit}`, compared with `{base}`; this comment is updated when the pull request is."
    top = f"{MARKER}\n{title}\n\n" + "\n".join(lines) + f"\n\n{commits}"
    return _BETWEEN.join([top, *(part.details for part in parts if part.details)]) + "\n"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S603, S607


if __name__ == "__main__":
    sys.exit(main())
