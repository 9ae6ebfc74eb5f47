"""Runs `pulumi preview` for those of the touched stacks for which it can say something, and says why not for the others.

A stack is left out where nobody has deployed it, its machine cannot be deployed yet, or no project is set. Nothing is
refreshed: that would read every resource, the value of the token in Secret Manager included, with rights that a job on a
pull request should not have.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from infra.catalog import catalog
from infra.errors import Gemma4Error
from infra.google.gcp_settings import GcpSettings
from infra.planning.settings.stackfile import read_stack

ROOT = Path(__file__).resolve().parents[1]
PREVIEW = ("preview", "--refresh=false", "--non-interactive", "--color", "never")


def main(argv: list[str] | None = None, root: Path = ROOT) -> int:
    """Preview each; 1 where one failed, else 0. The job's summary gets what was printed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stacks", type=json.loads, required=True, help="touched stacks, a JSON list of names")
    given = parser.parse_args(argv)
    listed = _pulumi("stack", "ls", "--json")
    if listed.returncode:
        _say(f"### ⛔ The state cannot be read\n\n~~~~\n{listed.stderr}\n~~~~")
        return 1
    deployed = in_backend(listed.stdout)
    failed = False
    for stack in given.stacks:
        reason = why_not(root, stack, deployed, os.environ)
        if reason:
            _say(f"### `{stack}`: no `pulumi preview`\n\n{reason}.")
            continue
        done = _pulumi(*PREVIEW, "--stack", stack)
        failed |= done.returncode != 0
        sign = "⛔" if done.returncode else "✅"
        _say(f"### {sign} `{stack}`: `pulumi preview`\n\n~~~~\n{done.stdout}{done.stderr}\n~~~~")
    return int(failed)


def why_not(root: Path, stack: str, deployed: Collection[str], environ: Mapping[str, str]) -> str:
    """Why a preview of a stack would fail whatever the change is; empty where it would not."""
    if stack not in deployed:
        return "The state holds no such stack: nobody has run `pulumi stack init` for it"
    try:
        file = read_stack(root, stack)
    except Gemma4Error:
        return ""  # the preview fails with these very words, and it should
    accelerator = catalog().accelerators.get(str(file.settings.get("accelerator")))
    if accelerator and not accelerator.deployable:
        return f"{accelerator.title} can be planned but not deployed yet"
    if not GcpSettings.read(file.gcp.get, environ).project:
        return f"No project is set: `pulumi config set gcp:project PROJECT -s {stack}`, and commit the stack file"
    return ""


def in_backend(listed: str) -> set[str]:
    """The names in the output of `pulumi stack ls --json`; a backend may write the organisation before them."""
    return {str(row["name"]).rsplit("/", 1)[-1] for row in json.loads(listed)}


def _pulumi(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["pulumi", *arguments], capture_output=True, text=True, check=False)  # noqa: S603, S607


def _say(text: str) -> None:
    print(text, flush=True)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text + "\n\n")


if __name__ == "__main__":
    sys.exit(main())
