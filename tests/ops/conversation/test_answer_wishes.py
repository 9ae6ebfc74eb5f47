"""What the plan of a stack already says about a question is said before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest

from infra.errors import SettingsError
from infra.ops.conversation.answer_wishes import check_with_plan
from infra.ops.plan_inputs import plan_stack
from infra.planning.plan import Plan
from tests.projects import ROOT


def plan_with(*assignments: str) -> Plan:
    return plan_stack("l4", assignments, root=ROOT).plan


def faults(plan: Plan, **given: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        check_with_plan(plan, **{"images": 0, "sounds": 0, "tools": False, "adapter": None, **given})
    return str(caught.value)


TEXT_ONLY = plan_with("serving.modalities.image=0", "serving.modalities.video=0", "serving.tools=false")


def test_what_the_server_takes_passes() -> None:
    check_with_plan(plan_with("serving.modalities.image=2"), images=2, sounds=0, tools=True, adapter=None)


def test_an_image_is_refused_for_a_text_only_plan() -> None:
    said = faults(TEXT_ONLY, images=1)
    assert said.startswith("--image: l4 takes no images (serving.modalities.image is 0).")
    assert "Deploy it with serving.modalities.image: 1" in said


def test_more_images_than_a_request_takes_are_refused() -> None:
    said = faults(plan_with("serving.modalities.image=2"), images=3)
    assert "3 images are more than l4 takes in a request (serving.modalities.image is 2)." in said


def test_a_sound_is_refused_where_no_tower_hears_it() -> None:
    plan = plan_with("model=gemma-4-31b-it", "accelerator=rtx-pro-6000")
    assert "audio" not in plan.architecture.input_modalities
    assert faults(plan, sounds=1).startswith("--audio: gemma-4-31b-it has no audio tower.")


def test_tools_are_refused_without_a_parser() -> None:
    assert "--tools: l4 has no tool parser (serving.tools is false)." in faults(TEXT_ONLY, tools=True)


def test_an_adapter_that_is_not_served_is_refused() -> None:
    assert faults(TEXT_ONLY, adapter="suport").startswith("--adapter: l4 serves no adapter 'suport'.")


def test_all_of_it_is_said_at_once() -> None:
    assert len(faults(TEXT_ONLY, images=1, sounds=1, tools=True, adapter="x").splitlines()) == 4
