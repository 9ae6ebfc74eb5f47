"""From a command line to a plan: the project folder, the values of `--set`, and plans that were saved."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.errors import Fault, Gemma4Error, SettingsError
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.settings.messages import shown
from infra.planning.settings.stackfile import NAMESPACE, UNREADABLE, StackFile, parse_yaml, read_stack, stack_names


def _program_folder() -> Path:
    """Return the folder with `__main__.py`, the stacks that ship, and the containers: the checkout, or where an
    installed wheel has put its data files."""
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "Pulumi.yaml").is_file():
        return checkout
    from importlib.metadata import files  # reads every installed file's name: only without a checkout

    return next(
        (Path(str(file.locate())).parent for file in files("gemma4") or () if file.name == "Pulumi.yaml"), checkout
    )


CHECKOUT = _program_folder()
"""Where this program and its `__main__.py` lie."""


@dataclass(frozen=True)
class Planned:
    """A plan, and what it was made from: the stack file and the values set on the command line."""

    file: StackFile
    overrides: Mapping[str, Any]
    plan: Plan


def project_root() -> Path:
    """Return the folder with the stack files: one with Pulumi.yaml at or above the current one, else the current one if
    it has any, else our own."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise Gemma4Error(
            "the current folder has been deleted, so no stack file can be found; go to another."
        ) from None
    for folder in (here, *here.parents):
        if (folder / "Pulumi.yaml").is_file() and stack_names(folder):
            return folder
    return here if stack_names(here) else CHECKOUT


def plan_stack(stack: str, assignments: Sequence[str] = (), *, root: Path | None = None) -> Planned:
    """Plan `stack` with `key=value` assignments laid over its file. Raises SettingsError."""
    overrides = parse_assignments(assignments)
    file = read_stack(root or project_root(), stack)
    project, checkpoints = file.gcp.get("project"), file.checkpoints
    return Planned(
        file, overrides, make_plan(stack, file.settings, overrides, project=project, checkpoints=checkpoints)
    )


def parse_assignments(assignments: Sequence[str]) -> dict[str, Any]:
    """Return {path: value} for assignments such as `serving.maxModelLen=4096`. Values are read as YAML: 4096 is a number,
    true is a boolean, [a, b] is a list. Raises SettingsError."""
    values: dict[str, Any] = {}
    faults = []
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        if not separator or not key.strip():
            fix = "Write for example --set serving.maxModelLen=4096."
            faults.append(Fault("--set", f"{assignment!r} is not key=value.", fix=fix))
            continue
        path = key.strip().removeprefix(f"{NAMESPACE}:")
        if path.startswith("gcp:"):
            fix = f"Run: pulumi config set {path} {text or 'VALUE'}"
            faults.append(Fault(path, "is not a setting of gemma4.", "--set would have no effect on it.", fix))
            continue
        try:
            values[path] = parse_yaml(text)
        except UNREADABLE:
            good = '["group:a@b.c"]' if text.startswith("[") else "{key: value}" if text.startswith("{") else '"text"'
            faults.append(
                Fault(path, f"{text!r} is not a YAML value.", fix=f"Quote it, for example --set '{path}={good}'.")
            )
    if faults:
        raise SettingsError(faults)
    return values


def saved_plan(path: Path) -> dict[str, Any]:
    """Return the plan that `gemma4 plan --json` wrote into a file, checked as far as a comparison reads it. Raises
    SettingsError."""
    from infra.planning.report.data import SCHEMA
    from infra.planning.report.saved_plan import misshapen

    consequence, fix = "There is nothing to compare with.", "Write one with: gemma4 plan STACK --json > plan.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SettingsError.of("--diff", f"{path} cannot be read: {error.strerror}.", consequence, fix) from None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or not {"stack", "verdict", "vllm"} <= set(data):
        raise SettingsError.of("--diff", f"{path} is not a plan.", consequence, fix)
    if data.get("schema") != SCHEMA:
        fact = f"{path} has schema {shown(data.get('schema'))}, this program writes {SCHEMA}."
        raise SettingsError.of("--diff", fact, "The numbers might not mean the same.", "Write it anew with --json.")
    if wrong := misshapen(data):
        fact = f"{path} is not as a plan is written: {', '.join(wrong)}."
        raise SettingsError.of("--diff", fact, consequence, fix)
    return data
