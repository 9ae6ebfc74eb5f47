"""What a check expects of a server that was planned before is read from the server's own command."""

from __future__ import annotations

import pytest

from infra.ops.plan_inputs import plan_stack
from infra.planning.settings.stackfile import stack_names
from infra.serving.command_expectation import command_expectation
from infra.serving.planned_expectation import planned_expectation
from tests.projects import ROOT

READ = {"model", "spec_hash", "max_model_len", "tools", "reasoning", "image"}


@pytest.mark.parametrize("stack", stack_names(ROOT))
def test_a_planned_command_says_what_was_planned(stack: str) -> None:
    plan = plan_stack(stack, root=ROOT).plan
    wanted = planned_expectation(plan)
    read = command_expectation([*plan.command.wrapper, *plan.command.argv], ready_timeout_s=wanted.ready_timeout_s)
    assert read.model_dump(include=READ) == wanted.model_dump(include=READ)


def test_what_no_flag_says_is_not_asked() -> None:
    read = command_expectation(["vllm", "serve", "some/model", "--port", "8000"], ready_timeout_s=5)
    assert (read.model, read.spec_hash, read.max_model_len) == ("some/model", "", 0)
    assert (read.tools, read.reasoning, read.image) == (False, False, False)


def test_a_limit_that_is_no_json_is_not_asked_about() -> None:
    assert not command_expectation(["serve", "m", "--limit-mm-per-prompt", "image=1"], ready_timeout_s=5).image
