"""The workflow in docs/tasks/renew-slices.md is YAML that GitHub takes, and runs what exists here."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import yaml

from infra.ops.command_line.all_commands import whole_command
from tests.projects import ROOT

PAGE = (ROOT / "docs/tasks/renew-slices.md").read_text("utf-8")
PREVIEW = (ROOT / ".github/workflows/preview.yml").read_text("utf-8")


def workflow() -> dict[Any, Any]:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    found: dict[Any, Any] = yaml.safe_load(block)
    return found


@pytest.fixture
def steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = workflow()["jobs"]["renew"]["steps"]
    return found


def test_it_runs_every_half_an_hour_and_never_two_at_once() -> None:
    found = workflow()
    (when,) = found[True]["schedule"]  # YAML 1.1 reads the key `on` as true
    minutes, *rest = when["cron"].split()
    first, second = map(int, minutes.split(","))
    assert (second - first, rest) == (30, ["*"] * 4)
    assert found["concurrency"] == {"group": "pulumi-v6e4", "cancel-in-progress": False}


def test_it_has_the_rights_to_read_the_code_and_to_say_who_it_is_and_no_other() -> None:
    found = workflow()
    assert (found["permissions"], found["jobs"]["renew"]["permissions"]) == (
        {},
        {"contents": "read", "id-token": "write"},
    )


def test_its_actions_are_those_that_the_repository_has_pinned(steps: list[dict[str, Any]]) -> None:
    used = [step["uses"] for step in steps if "uses" in step]
    assert len(used) == 4
    assert all(f"uses: {one} " in PREVIEW for one in used)


def test_its_commands_exist(steps: list[dict[str, Any]]) -> None:
    make, renew = (shlex.split(step["run"]) for step in steps if "run" in step)
    assert make == ["make", ".venv/.run"]
    assert "$(VENV)/.run:" in (ROOT / "Makefile").read_text("utf-8")
    assert renew[0] == ".venv/bin/gemma4"
    (cron,) = (line for line in PAGE.splitlines() if line.startswith("*/30 * * * *"))
    assert cron.endswith(shlex.join(renew))
    whole_command().make_context("gemma4", renew[1:]).close()
    command = whole_command().commands[renew[1]]
    parsed = command.make_context(renew[1], renew[2:])
    assert (parsed.params["stack"], parsed.params["yes"]) == ("v6e4", True)
    assert (ROOT / "Pulumi.v6e4.yaml").is_file()


def test_it_has_time_for_a_wait_and_a_start() -> None:
    from infra.ops.plan_inputs import plan_stack

    plan = plan_stack("v6e4", root=ROOT).plan
    lead = plan.deployment.renewal(plan.startup)
    assert lead is not None
    assert workflow()["jobs"]["renew"]["timeout-minutes"] * 60 > 2 * lead.step_s
