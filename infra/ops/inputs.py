"""From a command line to a plan: the project folder, `--set` values, and the comparison that `--diff` names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra.errors import Fault, SettingsError
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.stackfile import StackFile, read_stack, stack_names


@dataclass(frozen=True)
class Planned:
    """A plan with what it was made from: the stack's file and the values set on the command line."""

    file: StackFile
    overrides: Mapping[str, Any]
    plan: Plan


def project_root() -> Path:
    """The folder with Pulumi.yaml at or above the current one, else the checkout that this program runs from."""
    here = Path.cwd()
    own = Path(__file__).resolve().parents[2]
    for folder in (here, *here.parents):
        if (folder / "Pulumi.yaml").is_file() and stack_names(folder):
            return folder
    return own


def plan_stack(stack: str, assignments: Sequence[str] = (), *, root: Path | None = None) -> Planned:
    """Plan `stack` with `key=value` assignments laid over its file. Raises SettingsError."""
    overrides = parse_assignments(assignments)
    file = read_stack(root or project_root(), stack)
    return Planned(file, overrides, make_plan(stack, file.settings, overrides, project=file.gcp.get("project")))


def parse_assignments(assignments: Sequence[str]) -> dict[str, Any]:
    """`serving.maxModelLen=4096` to {path: value}; the value is read as YAML, so 4096, true and [a, b] mean what they say."""
    values: dict[str, Any] = {}
    faults = []
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        if not separator or not key.strip():
            faults.append(
                Fault(
                    "--set",
                    f"{assignment!r} is not key=value.",
                    fix="Write for example --set serving.maxModelLen=4096.",
                )
            )
            continue
        try:
            values[key.strip()] = yaml.safe_load(text)
        except yaml.YAMLError:
            faults.append(
                Fault(
                    key,
                    f"{text!r} is not a YAML value.",
                    fix="Quote it, for example --set 'access.invokers=[\"group:a@b.c\"]'.",
                )
            )
    if faults:
        raise SettingsError(faults)
    return values


def comparison(name: str, root: Path) -> dict[str, Any]:
    """The plan to compare with, as JSON data: another stack's name, or a file that `gemma4 plan --json` wrote."""
    from infra.planning.report.data import as_json

    path = Path(name)
    if not path.is_file():
        return as_json(plan_stack(name, root=root).plan)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError):
        data = None
    if not isinstance(data, dict) or "verdict" not in data or "vllm" not in data:
        raise SettingsError(
            [Fault("--diff", f"{name} is not a plan.", fix=f"Write one with: gemma4 plan STACK --json > {name}")]
        )
    return data
