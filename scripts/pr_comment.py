"""Writes the pull request's comment: the plan of every touched stack, each compared with the base commit's own plan.

A stack is touched when its file changed, or when anything changed that all plans depend on. The base is planned by the
base's code in a work tree of its own, so that a change of the planner shows up as well. A stack whose file is gone is
named. Where no stack is touched, the comment is an empty file.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from infra.planning.settings.stackfile import stack_names

ROOT = Path(__file__).resolve().parents[1]
MARKER = "<!-- gemma4 preview -->"
SHARED = ("infra/", "containers/", "__main__.py", "Pulumi.yaml", "requirements.txt")
REFUSED = 3
LONGEST = 65_000
"""Characters of a comment: GitHub refuses one with more than 65,536."""
_BETWEEN = "\n\n---\n\n"
_CUT = "\n\n*Shortened: GitHub takes no longer comment. The whole is in the summary of the job `plan`.*"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", required=True, help="commit to compare with")
    parser.add_argument("--output", type=Path, required=True, help="where the comment goes, in Markdown")
    parser.add_argument("--whole", type=Path, required=True, help="where the same goes at any length")
    parser.add_argument("--stacks", type=Path, required=True, help="where the list of touched stacks goes, as JSON")
    given = parser.parse_args()
    changes = _git("diff", "--name-status", "--no-renames", f"{given.base}...HEAD").splitlines()
    stacks = touched([change.partition("\t")[2] for change in changes], stack_names(ROOT))
    given.stacks.write_text(json.dumps(stacks))
    parts = [farewell(stack) for stack in removed(changes)]
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        _git("worktree", "add", "--detach", str(base), given.base)
        try:
            parts += [section(stack, base, Path(folder)) for stack in stacks]
        finally:
            _git("worktree", "remove", "--force", str(base))
    given.whole.write_text(joined(parts) or "No stack is touched.\n", encoding="utf-8")
    given.output.write_text(joined(shortened(parts)), encoding="utf-8")


def touched(changed: Sequence[str], stacks: list[str]) -> list[str]:
    """The stacks whose plan may differ after a change of these files."""
    if any(path.startswith(SHARED) for path in changed):
        return stacks
    return [stack for stack in stacks if f"Pulumi.{stack}.yaml" in changed]


def removed(changes: Sequence[str]) -> list[str]:
    """The stacks whose files are gone, from the lines of `git diff --name-status`."""
    return [found[1] for change in changes if (found := re.fullmatch(r"D\tPulumi\.(.+)\.yaml", change))]


def farewell(stack: str) -> str:
    """The comment's part for a stack whose file is gone."""
    return (
        f"### ⚠️ `{stack}` is removed\n\nIts file is gone. What it has deployed stays, and is paid for, until "
        f"`pulumi destroy -s {stack}` has run, which needs the file: run it before this is merged. A renamed stack is "
        "removed here and a new one below."
    )


def section(stack: str, base: Path, folder: Path) -> str:
    """The comment's part for one stack: a diff where the base has a plan, else the plan, or why there is none."""
    saved = folder / f"{stack}.json"
    arguments = ["plan", stack, "--markdown"]
    before = _gemma4(base, "plan", stack, "--json")
    if before.returncode in (0, REFUSED):
        saved.write_text(before.stdout)
        arguments += ["--diff", str(saved)]
    after = _gemma4(ROOT, *arguments)
    if after.returncode in (0, REFUSED):
        return after.stdout.strip()
    return f"### ⛔ `{stack}` cannot be read\n\n```\n{after.stderr.strip()}\n```"


def shortened(parts: Sequence[str], longest: int = LONGEST) -> list[str]:
    """The parts, the longest ones cut at the end of a line, so that all together a comment can hold them."""
    room = longest - len(MARKER) - 1 - len(_BETWEEN) * len(parts)
    if sum(map(len, parts)) <= room:
        return list(parts)
    share, left = 0, len(parts)
    for length in sorted(map(len, parts)):  # what short parts leave is the others'
        share = room // left
        if length > share:
            break
        room, left = room - length, left - 1
    return [part if len(part) <= share else _cut(part, share) for part in parts]


def _cut(part: str, length: int) -> str:
    """The beginning of a part in at most `length` characters, with whatever it leaves open closed."""
    ending = "\n```\n\n</details>" + _CUT
    kept = part[: max(0, length - len(ending))].rpartition("\n")[0]
    fence = "\n```" if kept.count("\n```") % 2 else ""
    fold = "\n\n</details>" * (kept.count("<details>") - kept.count("</details>"))
    return f"{kept}{fence}{fold}{_CUT}"


def joined(parts: Sequence[str]) -> str:
    """The comment; empty without parts."""
    return _BETWEEN.join([MARKER, *parts]) + "\n" if parts else ""


def _gemma4(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from infra.ops.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603 our own command


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S603, S607


if __name__ == "__main__":
    main()
