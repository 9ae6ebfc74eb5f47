"""A stack's last serving check becomes rows that the scorecard reads: `gemma4 status STACK --as-row >> my-runs.jsonl`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.catalog import GIB
from infra.ops.commands.own_runs import rows_of_check
from infra.ops.endpoint.stack_state import CheckRecord
from infra.ops.plan_inputs import plan_stack
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.scorecard.predict import compare, server_of_run
from infra.planning.scorecard.published_runs import PublishedRun, read_runs
from infra.planning.settings.stackfile import read_stack, stack_names
from infra.serving.measure import CAME_AT_ONCE
from tests.projects import ROOT, Capture, Command, command

RESULT: dict[str, Any] = {
    "vllm_version": "0.32.0+cu130",
    "ready_s": 3.0,
    "ttft_s": 0.3125,
    "tokens_per_second": 27.5,
    "prompt_tokens": 1019.0,  # the engine keeps every number as a float
    "output_tokens": 64.0,
    "kv_tokens": 51_234.0,
    "predicted_kv_tokens": 50_000.0,
    "duration_s": 40.0,
    "notes": [],
}


def planned(stack: str) -> Plan:
    return plan_stack(stack, root=ROOT).plan


def checked(stack: str, *names: str, spec: str = "", **result: Any) -> dict[str, Any]:
    """The state of a stack whose servers were checked, as the Pulumi CLI exports it."""
    return {
        "deployment": {
            "resources": [
                {
                    "type": "pulumi-python:dynamic/gemma4:ServingCheck",
                    "urn": f"urn:pulumi:{stack}::gemma4::a$b::{name}",
                    "modified": "2026-11-20T10:11:12.345Z",
                    "outputs": {
                        "url": "https://x",
                        "path": "",
                        "expected": {"spec_hash": spec or planned(stack).command.spec_hash},
                        "result": result if "skipped" in result else {**RESULT, **result},
                    },
                }
                for name in names
            ]
        }
    }


class Exported:
    """A Pulumi CLI that exports one state, and the `gemma4` command beside it."""

    def __init__(self, folder: Path, gemma4: Command) -> None:
        self.folder, self.gemma4 = folder, gemma4
        cli = folder / "pulumi"
        cli.write_text(
            f'#!/bin/sh\nwhile read -r line || [ -n "$line" ]; do echo "$line"; done < {folder}/state.json\n'
        )
        cli.chmod(0o755)

    def rows(self, stack: str, state: dict[str, Any]) -> list[dict[str, Any]]:
        """Add the rows of a state to the file of all, and return those that were printed."""
        (self.folder / "state.json").write_text(json.dumps(state), "utf-8")
        answer = self.gemma4("status", stack, "--as-row")
        assert answer.code == 0, answer.err
        with (self.folder / "my-runs.jsonl").open("a", encoding="utf-8") as file:
            file.write(answer.out)
        return [json.loads(line) for line in answer.out.splitlines()]

    def scorecard(self) -> Any:
        return self.gemma4("scorecard", str(self.folder / "my-runs.jsonl"), "--json").data


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Exported:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(ROOT)
    return Exported(tmp_path, command(capsys))


class TestARecordedState:
    @pytest.mark.parametrize("stack", stack_names(ROOT))
    def test_of_every_stack_is_predicted_as_its_plan_is(self, exported: Exported, stack: str) -> None:
        exported.rows(stack, checked(stack, "serving-check"))
        plan = planned(stack)
        memory, speed, first_token = exported.scorecard()["rows"]
        assert (memory["published"], memory["predicted"]) == (51_234, plan.kv_tokens.mid)
        assert (speed["published"], first_token["published"]) == (27.5, 312.5)
        assert memory["outcome"] == "boots"
        assert [row["reason"] for row in (memory, speed, first_token)] == ["", "", ""]

    @pytest.mark.parametrize("stack", stack_names(ROOT))
    def test_describes_the_server_that_is_planned(self, exported: Exported, stack: str) -> None:
        exported.rows(stack, checked(stack, "serving-check"))
        plan = planned(stack).server
        for _, row in read_runs(exported.folder / "my-runs.jsonl"):
            assert isinstance(row, PublishedRun)
            server = server_of_run(row)
            kept = (
                "hosting",
                "load_format",
                "image_version",
                "tensor_parallel_written",
            )  # decide neither memory nor speed
            # A row counts the devices of its server; others of the machine may serve beside it.
            machine = server.accelerator.model_copy(update={"devices": plan.accelerator.devices})
            assert replace(server, accelerator=machine, **{name: getattr(plan, name) for name in kept}) == plan

    @pytest.mark.parametrize(
        "typed",
        [
            {"serving.modalities.image": 0, "serving.modalities.audio": 0, "serving.modalities.video": 0},
            {"serving.enforceEager": True, "serving.blockSize": 32, "serving.asyncScheduling": False},
            {"serving.speculation.method": "mtp", "serving.speculation.tokens": 2},
            {"serving.cpuOffloadGb": 2, "serving.maxNumBatchedTokens": 4096},
        ],
        ids=str,
    )
    def test_holds_every_flag_that_decides_memory_or_speed(self, typed: dict[str, Any]) -> None:
        plan = make_plan("l4", read_stack(ROOT, "l4").settings, typed)
        check = CheckRecord(name="a", at="", spec="s", url="u", result=RESULT)
        for line in rows_of_check(plan, check):
            server = server_of_run(PublishedRun.model_validate_json(line))
            kept = ("hosting", "load_format", "image_version", "tensor_parallel_written")
            assert replace(server, **{name: getattr(plan.server, name) for name in kept}) == plan.server

    def test_two_checks_give_rows_of_each_and_a_file_takes_more(self, exported: Exported) -> None:
        exported.rows("v6e4", checked("v6e4", "blue-check", "green-check"))
        exported.rows("l4", checked("l4", "serving-check"))
        rows = exported.scorecard()["rows"]
        assert len(rows) == 9
        assert rows[0]["id"] == "v6e4-blue-check-2026-11-20T10:11:12-memory"

    def test_the_first_token_says_that_the_network_is_in_it(self, exported: Exported) -> None:
        notes = {row["what"]: row.get("note", "") for row in exported.rows("l4", checked("l4", "serving-check"))}
        assert [what for what, note in notes.items() if "network" in note] == ["first_token"]

    def test_a_rate_that_includes_the_prompt_is_one_of_new_prompts(self, exported: Exported) -> None:
        _, speed, _ = exported.rows("l4", checked("l4", "serving-check"))
        _, buffered, _ = exported.rows("l4", checked("l4", "other-check", notes=[CAME_AT_ONCE]))
        assert (speed["prompts"], buffered["prompts"]) == ("cached", "new")

    def test_a_checkpoint_of_one_s_own_is_described_by_its_counted_weights(self) -> None:
        plan = planned("l4")
        own = replace(plan, model=plan.model.model_copy(update={"hub_id": "me/mine", "weight_format": "fp8"}))
        check = CheckRecord(name="a", at="", spec="s", url="u", result=RESULT)
        memory, *_ = (json.loads(line) for line in rows_of_check(own, check))
        assert (memory["model"], memory["quantization"]) == (plan.model.id, "fp8")
        assert memory["weights_gib_given"] == pytest.approx(plan.memory.weights.mid / GIB, abs=0.001)
        assert "me/mine" in memory["note"]

    def test_memory_with_adapters_is_not_compared(self) -> None:
        plan = planned("l4")
        adapted = replace(plan, server=replace(plan.server, adapters=1, adapter_slots=1, adapter_rank=16))
        check = CheckRecord(name="a", at="", spec="s", url="u", result=RESULT)
        memory, *_ = (json.loads(line) for line in rows_of_check(adapted, check))
        row = compare("a", PublishedRun.model_validate(memory))
        assert (row.figures, row.verdict_holds) == ((), True)

    def test_a_server_that_does_not_say_its_capacity_still_booted(self, exported: Exported) -> None:
        exported.rows("l4", checked("l4", "serving-check", kv_tokens=None))
        memory = exported.scorecard()["rows"][0]
        assert (memory["published"], memory["verdict_holds"]) == (None, True)

    @pytest.mark.parametrize(
        ("state", "said"),
        [
            ({"deployment": None}, "no check of what is planned"),
            (checked("l4", "serving-check", skipped="internal"), "not checked: internal"),
            (checked("l4", "serving-check", spec="other"), "was a check of other"),
            (checked("l4", "serving-check", ttft_s="soon"), "cannot read"),
        ],
    )
    def test_where_no_check_is_of_this_plan_nothing_is_printed(
        self, exported: Exported, state: dict[str, Any], said: str
    ) -> None:
        (exported.folder / "state.json").write_text(json.dumps(state), "utf-8")
        answer = exported.gemma4("status", "l4", "--as-row")
        assert (answer.code, answer.out) == (1, "")
        assert said in answer.err


def test_what_a_plan_adds_to_a_row_does_not_change_its_prediction() -> None:
    """A catalog machine described in full is predicted as the catalog's own."""
    short = {"id": "a", "what": "memory", "model": "gemma-4-e2b-it", "hardware": "l4", "backend": "gpu",
             "max_model_len": 8192, "gpu_memory_utilization": 0.9, "published": {"tokens": 1}}  # fmt: skip
    machine = server_of_run(PublishedRun.model_validate(short)).accelerator
    full = {**short, "device_memory_gib": machine.device_memory_gib, "bandwidth_gb_s": machine.bandwidth / 1e9}
    rows = [compare("a", PublishedRun.model_validate(row)) for row in (short, full)]
    assert rows[0].figures == rows[1].figures
