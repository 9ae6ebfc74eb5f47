"""Open faults of vLLM are told where a configuration meets them, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from infra.catalog import catalog
from infra.planning.checks.open_faults import NAMED
from infra.planning.plan import Plan
from infra.planning.planner import make_plan


def plan(model: str, accelerator: str, method: str = "none", **typed: Any) -> Plan:
    changes = {"serving.speculation.method": method, **{key.replace("__", "."): value for key, value in typed.items()}}
    return make_plan("test", {"model": model, "accelerator": accelerator}, changes)


def threads(one: Plan) -> set[str]:
    return {fault.thread.rpartition("#")[2] for fault in one.open_faults}


def test_drafts_on_two_gpus_meet_those_of_drafting_and_of_sharing() -> None:
    drafting = threads(plan("gemma-4-31b-it", "g4-2", "mtp"))
    assert {"42261", "50158"} <= drafting
    assert "50158" not in threads(plan("gemma-4-31b-it", "g4-1", "mtp"))
    assert not {"42261", "50158"} & threads(plan("gemma-4-31b-it", "g4-2"))


def test_a_quantised_target_meets_the_one_of_its_format() -> None:
    assert "41789" in threads(plan("gemma-4-31b-it-qat-w4a16", "g4-2", "mtp"))
    assert "41789" not in threads(plan("gemma-4-31b-it", "g4-2", "mtp"))
    assert "41789" not in threads(plan("gemma-4-12b-it-qat-w4a16", "l4", "mtp"))


def test_tool_calls_that_are_not_parsed_meet_none_of_the_parser() -> None:
    assert "50477" in threads(plan("gemma-4-31b-it", "g4-2"))
    assert "50477" not in threads(plan("gemma-4-31b-it", "g4-2", serving__tools=False))


def test_one_that_ends_the_server_is_a_warning_until_its_cure_is_written() -> None:
    def told(**typed: Any) -> list[str]:
        one = plan("gemma-4-26b-a4b-it", "g4-2", "mtp", **typed)
        return [fault.fix for fault in one.warnings if "open fault of vLLM" in fault.fact]

    (fix,) = told()
    assert "VLLM_USE_V2_MODEL_RUNNER" in fix
    assert told(serving__env={"VLLM_USE_V2_MODEL_RUNNER": "1"}) == []
    with_runner = plan("gemma-4-26b-a4b-it", "g4-2", "mtp", serving__env={"VLLM_USE_V2_MODEL_RUNNER": "1"})
    assert "50159" in threads(with_runner)


@pytest.mark.parametrize("accelerator", [one.id for one in catalog().accelerators.values() if one.device == "tpu"])
def test_tpus_meet_none(accelerator: str) -> None:
    assert plan("gemma-4-e4b-it", accelerator).open_faults == ()


def test_a_plan_has_one_note_of_them_however_many_there_are() -> None:
    one = plan("gemma-4-31b-it-qat-w4a16", "g4-2", "mtp")
    (note,) = (note for note in one.notes if note.startswith("Open faults of vLLM"))
    quiet = [fault for fault in one.open_faults if not fault.stops_the_server]
    assert note.count("vllm#") == min(NAMED, len(quiet))
    assert f"{len(quiet) - NAMED} more with --full" in note
