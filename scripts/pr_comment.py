"""Writes the pull request's comment: the plan of every touched stack, each compared with the base commit's own plan.

A stack is touched when its file changed, or when anything changed that all plans depend on. The base is planned by the
base's code in a work tree of its own, so that a change of the planner shows up as well.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from infra.planning.stackfile import stack_names

ROOT = Path(__file__).resolve().parents[1]
MARKER = "<!-- gemma4 preview -->"
SHARED = ("infra/", "containers/", "__main__.py", "Pulumi.yaml", "requirements.txt")
REFUSED = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", required=True, help="commit to compare with")
    parser.add_argument("--output", type=Path, required=True, help="where the Markdown goes")
    parser.add_argument("--stacks", type=Path, required=True, help="where the list of touched stacks goes, as JSON")
    given = parser.parse_args()
    stacks = touched(_git("diff", "--name-only", f"{given.base}...HEAD").splitlines(), stack_names(ROOT))
    given.stacks.write_text(json.dumps(stacks))
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        _git("worktree", "add", "--detach", str(base), given.base)
        try:
            parts = [section(stack, base, Path(folder)) for stack in stacks]
        finally:
            _git("worktree", "remove", "--force", str(base))
    body = parts or ["No stack is touched."]
    given.output.write_text("\n\n---\n\n".join([MARKER, *body]) + "\n", encoding="utf-8")


def touched(changed: list[str], stacks: list[str]) -> list[str]:
    """The stacks whose plan may differ after a change of these files."""
    if any(path.startswith(SHARED) for path in changed):
        return stacks
    return [stack for stack in stacks if f"Pulumi.{stack}.yaml" in changed]


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


def _gemma4(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from infra.ops.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603 our own command


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S603, S607


if __name__ == "__main__":
    main()
