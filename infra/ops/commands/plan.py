"""`gemma4 plan` and `gemma4 stacks`: make the plan, run the real program where its resources are wanted, print."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Literal

from infra.errors import SettingsError
from infra.ops.plan_inputs import CHECKOUT, Planned, plan_stack, project_root, saved_plan
from infra.planning.report.resources import ResourceList
from infra.planning.settings.stackfile import stack_names

Part = Literal["screen", "full", "command", "resources", "notes", "json", "markdown"]
"""The part of a plan that is printed."""


def show_plan(stack: str, assignments: Sequence[str], *, part: Part, diff: str | None, resources: bool | None) -> bool:
    """Print `part` of the plan of `stack`, or with `diff` what changes against that; True if the plan is refused.

    The program is run for its resources where they are printed or compared, unless `resources` is False. Raises
    SettingsError."""
    root = project_root()
    planned = plan_stack(stack, assignments, root=root)
    plan = planned.plan
    run = resources is not False and (diff is not None or part in ("full", "resources", "json", "markdown"))
    before = comparison(diff, root, resources=run) if diff is not None else None
    listed = list_resources(planned) if run else None
    if part == "json":
        _print_json(planned, listed, before)
    elif part == "markdown":
        from infra.planning.report.markdown import as_markdown

        print(as_markdown(plan, listed, before))
    else:
        from infra.planning.report import text

        if before is not None:
            text.print_changes(plan, listed, before)
        elif part == "full":
            text.print_whole(plan, listed)
        elif part == "resources" and listed is not None and not plan.refused:
            text.print_resources(listed)
        elif part == "command" and not plan.refused:
            text.print_command(plan)
        elif part == "notes" and not plan.refused:
            text.print_notes(plan)
        else:
            text.print_first_screen(plan)
    return plan.refused


def comparison(name: str, root: Path, *, resources: bool) -> dict[str, Any]:
    """Return the plan to compare with, as JSON data: from a file that `gemma4 plan --json` wrote, or of another stack."""
    if os.path.exists(name) and not os.path.isdir(
        name
    ):  # a pipe of the shell as well; unlike pathlib's, no error for a name that no file can have
        return saved_plan(Path(name))
    if name not in stack_names(root) and (not name.strip() or os.path.isdir(name) or re.search(r"[/\\]|\.json$", name)):
        fact = (
            f"{name} is a folder."
            if os.path.isdir(name)
            else f"there is no file {name}."
            if name.strip()
            else "is empty."
        )
        fix = "Name a stack, or a file written with: gemma4 plan STACK --json > plan.json"
        raise SettingsError.of("--diff", fact, "There is nothing to compare with.", fix)
    from infra.planning.report.data import as_json

    other = plan_stack(name, root=root)
    return as_json(other.plan, list_resources(other) if resources else None)


def _print_json(planned: Planned, listed: ResourceList | None, before: dict[str, object] | None) -> None:
    from infra.planning.report.data import as_json

    data = as_json(planned.plan, listed)
    if before is not None:
        from infra.planning.report.diff import compare

        found = compare(before, data)
        data["comparison"] = found.as_json()
        data["diff"] = [change.as_json() for change in found.changes]
    print(json.dumps(data, indent=2))


def list_resources(planned: Planned) -> ResourceList:
    """Return every resource that the real program registers for this plan, or why there is none."""
    plan = planned.plan
    if plan.refused:
        return ResourceList((), "refused: nothing would be created")
    if not plan.accelerator.deployable:
        return ResourceList((), f"{plan.accelerator.title} is planned only: no component builds it yet")
    from infra.ops.program import resource_list

    if threading.current_thread() is threading.main_thread():
        return resource_list(CHECKOUT, planned)
    # The program changes the process that it runs in (folder, signals, Pulumi's settings), which other threads share.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as elsewhere:
        return elsewhere.submit(resource_list, CHECKOUT, planned).result()
