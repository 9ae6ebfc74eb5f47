"""`pulumi preview` of every stack file that can be deployed, on the real engine with the real gcp provider."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.ops.commands.plan import list_resources
from infra.ops.plan_inputs import plan_stack
from infra.planning.settings.stackfile import stack_names
from tests.engine.harness import ROOT, TOKEN, Engine
from tests.fakes.google import FakeGoogle

STACKS = [name for name in stack_names(ROOT) if plan_stack(name, root=ROOT).plan.accelerator.deployable]


@pytest.mark.parametrize("stack", STACKS)
def test_it_creates_what_the_plan_lists_and_shows_the_plan_once(tmp_path: Path, google: FakeGoogle, stack: str) -> None:
    made = Engine(tmp_path, google, stack, {"gemma4:access": {"invokers": ["group:ml@example.com"]}})
    made.set_secret("gemma4:hfToken", TOKEN)
    outcome = made.preview()
    planned = plan_stack(stack, root=made.project)
    assert outcome.summary == {"to create": len(list_resources(planned).rows)}
    assert outcome.output.count("Capacity  ") == 1
    assert "warning:" not in outcome.output, "the engine has none of its own; the plan's stand in its rows"
    assert google.unknown == []
