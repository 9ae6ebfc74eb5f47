"""LoRA adapters in a plan: the flags and paths that they become, what is refused of them, and what is said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import pytest

from infra.catalog import Device, catalog
from infra.catalog.flags import flag_table
from infra.errors import SettingsError
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.report.data import as_json
from infra.planning.settings.declarations import AdapterRank

L4 = {"model": "gemma-4-12b-it-qat-w4a16", "accelerator": "l4"}
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TONE = f"my-org/tone@{COMMIT}"


def plan(adapters: Mapping[str, str], base: Mapping[str, Any] = L4, **typed: Any) -> Plan:
    named = {f"serving.adapters.{name}": source for name, source in adapters.items()}
    return make_plan("test", base, {**named, **{path.replace("__", "."): value for path, value in typed.items()}})


def flags(one: Plan) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word in one.command.argv[3:]:
        if word.startswith("--"):
            found[word] = []
        else:
            found[list(found)[-1]].append(word)
    return found


def refused(key: str, adapters: Mapping[str, str], base: Mapping[str, Any] = L4, **typed: Any) -> str:
    faults = [fault for fault in plan(adapters, base, **typed).refusals if fault.key == key]
    assert len(faults) == 1, f"{key} is not refused, or twice"
    return str(faults[0])


class TestTheCommand:
    def test_names_each_adapter_with_its_folder_below_the_mount(self) -> None:
        spelled = flags(plan({"tone": TONE, "sql": "gs://my-bucket/loras/sql"}))
        assert spelled["--enable-lora"] == []
        assert spelled["--lora-modules"] == [
            f"tone=/mnt/weights/my-org/tone/{COMMIT}",
            "sql=/mnt/weights/adapters/my-bucket/loras/sql",
        ]
        assert (spelled["--max-loras"], spelled["--max-lora-rank"], spelled["--max-cpu-loras"]) == (
            ["2"],
            ["16"],
            ["2"],
        )

    def test_is_as_it_was_without_adapters(self) -> None:
        assert not [flag for flag in flags(plan({})) if "lora" in flag]

    def test_keeps_every_adapter_in_host_memory_where_few_have_a_slot(self) -> None:
        spelled = flags(plan({"a": "o/a", "b": "o/b", "c": "o/c"}, serving__adapterSlots=1, serving__adapterRank="32"))
        assert (spelled["--max-loras"], spelled["--max-cpu-loras"], spelled["--max-lora-rank"]) == (
            ["1"],
            ["3"],
            ["32"],
        )

    def test_gives_a_slot_to_eight_adapters_at_most_by_itself(self) -> None:
        spelled = flags(plan({f"a{number}": f"o/a{number}" for number in range(12)}))
        assert (spelled["--max-loras"], spelled["--max-cpu-loras"]) == (["8"], ["12"])

    def test_leaves_the_experts_of_a_mixture_alone_unless_asked(self) -> None:
        mixture = {"model": "gemma-4-26b-a4b-it", "accelerator": "rtx-pro-6000"}
        spelled = flags(plan({"tone": TONE}, mixture))
        assert {"q_proj", "o_proj", "down_proj", "proj"} <= set(spelled["--lora-target-modules"])
        assert not any("experts" in module for module in spelled["--lora-target-modules"])
        assert "--lora-target-modules" not in flags(plan({"tone": TONE}, mixture, serving__adapterExperts=True))
        assert "--lora-target-modules" not in flags(plan({"tone": TONE}))
        useless = plan({"tone": TONE}, serving__adapterExperts=True).warnings
        assert "serving.adapterExperts" in {fault.key for fault in useless}

    def test_names_the_repository_where_the_server_downloads(self) -> None:
        spelled = flags(plan({"tone": "my-org/tone"}, weights__source="huggingface"))
        assert spelled["--lora-modules"] == ["tone=my-org/tone"]

    def test_another_commit_or_another_adapter_is_another_specification(self) -> None:
        hashes = {
            plan(adapters).command.spec_hash for adapters in ({}, {"tone": "o/a@1"}, {"tone": "o/a@2"}, {"x": "o/a@1"})
        }
        assert len(hashes) == 4

    def test_ranks_are_those_that_vllm_takes(self) -> None:
        known = flag_table().find("--max-lora-rank")
        assert known is not None
        assert [str(rank) for rank in get_args(AdapterRank)] == list(known.choices)


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        "accelerator", [row.id for row in catalog().accelerators.values() if row.device is Device.TPU]
    )
    def test_adapters_on_tpu(self, accelerator: str) -> None:
        base = {"model": "gemma-4-e4b-it", "accelerator": accelerator}
        parallel = min(2, catalog().accelerators[accelerator].devices)
        assert "serves no LoRA adapters" in refused(
            "serving.adapters", {"tone": TONE}, base, serving__tensorParallelSize=parallel
        )

    def test_a_stream_which_leaves_no_folder(self) -> None:
        assert "mount" in refused("weights.access", {"tone": TONE}, weights__access="stream")

    @pytest.mark.parametrize("source", [TONE, "gs://my-bucket/tone"])
    def test_what_the_server_cannot_download_by_itself(self, source: str) -> None:
        assert refused("serving.adapters.tone", {"tone": source}, weights__source="huggingface")

    def test_another_bucket_than_the_existing_one(self) -> None:
        existing: dict[str, Any] = {"weights__source": "existing", "weights__bucket": "my-bucket"}
        assert refused("serving.adapters.tone", {"tone": "gs://other-bucket/tone"}, **existing)
        assert not plan({"tone": "gs://my-bucket/tone"}, **existing).refusals

    def test_the_repository_of_the_model_itself(self) -> None:
        own = plan({}).model.hub_id
        assert "no adapter" in refused("serving.adapters.tone", {"tone": f"{own}@{COMMIT}"})

    def test_too_small_a_step_for_drafts_of_all_requests(self) -> None:
        drafts: dict[str, Any] = {
            "serving__speculation__method": "ngram",
            "serving__speculation__tokens": 3,
            "serving__maxNumSeqs": 100,
        }
        key = "serving.maxNumBatchedTokens"
        assert "400" in refused(key, {"tone": TONE}, serving__maxNumBatchedTokens=399, **drafts)
        assert not plan({"tone": TONE}, serving__maxNumBatchedTokens=400, **drafts).refusals
        assert not plan({}, serving__maxNumBatchedTokens=399, **drafts).refusals, "without adapters vLLM takes it"

    def test_adapters_that_callers_load(self) -> None:
        name = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"
        on: dict[str, Any] = {f"serving__env__{name}": "1"}
        off: dict[str, Any] = {f"serving__env__{name}": "0"}
        for adapters in ({}, {"tone": TONE}):
            assert refused(f"serving.env.{name}", adapters, **on)
            assert not plan(adapters, **off).refusals

    def test_what_is_not_pinned_where_everything_must_be(self) -> None:
        loose = str(plan({"tone": "my-org/tone"}, images__requirePinned=True).refusals[0])
        assert "adapter my-org/tone@main" in loose
        assert "with @ and a commit" in loose
        assert any("with @ and a commit" in note for note in plan({"tone": "my-org/tone"}).notes)
        twice = str(plan({"tone": "my-org/tone", "alias": "my-org/tone"}, images__requirePinned=True).refusals[0])
        assert twice.count("adapter my-org/tone@main") == 1
        assert "adapter my-org/tone@v1" in str(plan({"tone": "my-org/tone@v1"}, images__requirePinned=True).refusals[0])
        assert not any("with @ and a commit" in note for note in plan({"tone": TONE}).notes)
        assert "adapter" not in str(plan({"tone": TONE}, images__requirePinned=True).refusals[0])

    @pytest.mark.parametrize(
        "source", ["tone", "my-org/tone@", "gs://my-bucket", "https://x.y/z", "my-org/../x", "a/b c"]
    )
    def test_a_source_that_is_none(self, source: str) -> None:
        with pytest.raises(SettingsError, match=r"serving\.adapters\.tone"):
            plan({"tone": source})

    @pytest.mark.parametrize("name", ["my.tone", "tone=x", "", "-tone", "a b"])
    def test_a_name_that_is_none(self, name: str) -> None:
        with pytest.raises(SettingsError, match=r"serving\.adapters"):
            plan({name: TONE})


class TestWhatIsSaid:
    def test_empty_slots_and_settings_without_adapters(self) -> None:
        assert "serving.adapterSlots" in {fault.key for fault in plan({"tone": TONE}, serving__adapterSlots=3).warnings}
        keys = {fault.key for fault in plan({}, serving__adapterSlots=3, serving__adapterRank=32).warnings}
        assert keys >= {"serving.adapterSlots", "serving.adapterRank"}
        assert not any("adapter" in fault.key for fault in plan({"tone": TONE}).warnings)

    def test_that_drafts_know_no_adapter_and_that_speed_is_the_bases(self) -> None:
        drafting: dict[str, Any] = {"serving__speculation__method": "ngram"}
        assert any("Drafts are made without" in note for note in plan({"tone": TONE}, **drafting).notes)
        assert any("Speed is that of the base" in note for note in plan({"tone": TONE}).notes)
        assert not any("adapter" in note for note in plan({}, **drafting).notes)

    def test_the_adapters_and_their_memory_in_the_plans_data(self) -> None:
        data = as_json(plan({"tone": TONE}))
        assert data["model"]["adapters"] == [
            {"name": "tone", "source": "my-org/tone", "revision": COMMIT, "pinned": True}
        ]
        assert data["memory"]["adapterBytes"] > 0
