"""A checkpoint beside `model`: what is served, planned and refused follows its own tensors."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.catalog import BF16_BYTES, CheckpointSizes, Model, catalog
from infra.catalog.checkpoint_lock import NAME, Checkpoints, PinnedCheckpoint, read_checkpoints, write_checkpoints
from infra.errors import CatalogError
from infra.planning.checkpoint import check_format
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.report.next_steps import steps_before_up
from infra.planning.settings.resolve import Origin
from infra.planning.settings.stackfile import read_stack
from tests.projects import write_stack

FACTS = catalog()
COMMIT = "c" * 40
FINE_TUNE = "acme/gemma-4-12b-support"
THIRD_PARTIES = [row for row in FACTS.models.values() if row.third_party]


def named(row: Model) -> str:
    return row.id


def sizes_of(model: str) -> CheckpointSizes:
    """The tensors of one of Google's bf16 checkpoints."""
    p, a = FACTS.architecture_of(model).parameters, FACTS.architecture_of(model)
    counts = p.model_dump(exclude={"total"})
    return CheckpointSizes(
        **{kind: BF16_BYTES * count for kind, count in counts.items()},
        shared_kv=a.unshared_kv_checkpoint_bytes,
        duplicated_value=a.duplicated_value_bytes,
        largest_tensor=a.largest_tensor_bytes,
    )


def pinned(model: str = "gemma-4-12b-it", **changes: Any) -> PinnedCheckpoint:
    """A fine-tune of one of Google's bf16 checkpoints, as `gemma4 pin` would write it."""
    row = FACTS.model(model)
    given: dict[str, Any] = {
        "name": FINE_TUNE,
        "origin": "hub",
        "revision": COMMIT,
        "architecture": row.architecture,
        "weight_format": row.weight_format,
        "checkpoint_bytes": row.checkpoint_bytes,
        "sizes": sizes_of(model),
        "read": dt.date(2026, 11, 22),
    }
    return PinnedCheckpoint(**{**given, **changes})


def plan(checkpoints: Checkpoints | None = None, *, machine: str = "rtx-pro-6000", **settings: Any) -> Plan:
    dotted = {path.replace("__", "."): value for path, value in settings.items()}
    stack = {"model": "gemma-4-12b-it", "accelerator": machine}
    return make_plan("test", stack, dotted, checkpoints=checkpoints)


class TestACheckpointThatNobodyCounted:
    def test_is_refused_with_the_command_that_counts_it(self) -> None:
        one = plan(checkpoint=FINE_TUNE)
        (fault,) = one.refusals
        assert fault.key == "checkpoint"
        assert fault.fix.startswith(f"Run: gemma4 pin {FINE_TUNE},")

    def test_is_refused_in_a_bucket_too(self) -> None:
        one = plan(checkpoint="gs://filled/gemma/support")
        (fault,) = one.refusals
        assert fault.fix.startswith("Run: gemma4 pin gs://filled/gemma/support,")


class TestAPinnedFineTune:
    ONE = plan({FINE_TUNE: pinned()}, checkpoint=FINE_TUNE)
    GOOGLES = plan()

    def test_takes_what_the_model_takes_where_its_tensors_are_the_same(self) -> None:
        """Of Google's own checkpoint a start has logged the weights, of a fine-tune they are counted: about 1 % less."""
        assert self.ONE.server.weights == self.GOOGLES.server.weights
        assert self.ONE.memory.weights.mid == pytest.approx(self.GOOGLES.memory.weights.mid, rel=0.015)
        assert self.ONE.speed.alone == self.GOOGLES.speed.alone

    def test_is_what_is_staged_loaded_and_asked_for(self) -> None:
        (weights,) = self.ONE.weights
        assert (weights.hub_id, weights.revision, weights.pinned) == (FINE_TUNE, COMMIT, True)
        argv = self.ONE.command.argv
        assert argv[2] == f"/mnt/weights/{FINE_TUNE}/{COMMIT}"
        assert argv[argv.index("--served-model-name") + 1] == FINE_TUNE
        assert self.ONE.command.spec_hash != self.GOOGLES.command.spec_hash

    def test_has_no_measured_recipe(self) -> None:
        assert all("checkpoint" in self.ONE.overridden(recipe) for recipe in self.ONE.recipes)

    def test_is_larger_by_the_output_embedding_that_it_does_not_tie(self) -> None:
        sizes = sizes_of("gemma-4-12b-it")
        untied = sizes.model_copy(update={"lm_head": sizes.embedding, "lm_head_is_tied": False})
        one = plan({FINE_TUNE: pinned(sizes=untied)}, checkpoint=FINE_TUNE)
        more = one.memory.weights.mid - self.ONE.memory.weights.mid
        assert more == pytest.approx(sizes.embedding)

    def test_asks_for_a_token_where_the_hub_does(self) -> None:
        def asked(gated: bool) -> list[str]:
            one = plan({FINE_TUNE: pinned(gated=gated)}, checkpoint=FINE_TUNE)
            return [note for note in one.notes if "hfToken" in note]

        assert asked(False) == []
        assert asked(True) == [
            f"{FINE_TUNE} is gated: pulumi config set --secret gemma4:hfToken, or set hfTokenSecret."
        ]

    def test_is_refused_under_the_name_of_another_architecture(self) -> None:
        one = plan({FINE_TUNE: pinned("gemma-4-31b-it")}, checkpoint=FINE_TUNE)
        (fault,) = one.refusals
        assert "31b" in fault.fact
        assert "gemma-4-12b-it" in fault.fact
        assert fault.fix == "Write model: gemma-4-31b-it."

    def test_is_refused_at_another_commit_than_was_counted(self) -> None:
        one = plan({FINE_TUNE: pinned()}, checkpoint=FINE_TUNE, weights__revision="main")
        assert [(fault.key, fault.fix) for fault in one.refusals] == [
            ("weights.revision", f"Leave it out, or run: gemma4 pin {FINE_TUNE}@main")
        ]

    def test_is_not_asked_of_the_hub_where_a_folder_was_counted(self) -> None:
        one = {FINE_TUNE: pinned(origin="folder")}
        (fault,) = plan(one, checkpoint=FINE_TUNE).refusals
        assert fault.key == "weights.source"
        assert f"gs://BUCKET/{FINE_TUNE}/{COMMIT}" in fault.fix
        there = plan(one, checkpoint=FINE_TUNE, weights__source="existing", weights__bucket="filled")
        assert there.refusals == ()
        assert there.weights[0].prefix == f"{FINE_TUNE}/{COMMIT}"


class TestACheckpointInABucket:
    NAME = "gs://filled/gemma/support"
    ONE = plan({NAME: pinned(origin="bucket")}, checkpoint=NAME)

    def test_is_read_from_its_own_folder(self) -> None:
        assert self.ONE.refusals == ()
        assert self.ONE.names.bucket == "filled"
        assert self.ONE.staging is None
        assert self.ONE.weights[0].prefix == "gemma/support"
        assert self.ONE.command.argv[2] == "/mnt/weights/gemma/support"
        assert self.ONE.origins["weights.bucket"] is Origin.PLANNER

    def test_contradicts_another_source(self) -> None:
        one = plan({self.NAME: pinned(origin="bucket")}, checkpoint=self.NAME, weights__source="huggingface")
        assert [fault.key for fault in one.refusals] == ["weights.source"]


class TestThirdParties:
    @pytest.mark.parametrize("model", THIRD_PARTIES, ids=named)
    def test_are_planned_by_their_repository_and_by_their_id_alike(self, model: Model) -> None:
        base = next(
            row for row in FACTS.models.values() if row.architecture == model.architecture and row.sizes is None
        )
        stack = {"accelerator": "rtx-pro-6000", "serving.maxNumSeqs": 4}
        by_hub = make_plan("test", {"model": base.id, "checkpoint": model.hub_id}, stack)
        by_id = make_plan("test", {"model": model.id}, stack)
        assert by_hub.model == by_id.model == model
        assert by_hub.memory.weights == by_id.memory.weights  # the rest has the recipe of its pair
        assert by_hub.weights == by_id.weights

    @pytest.mark.parametrize("model", THIRD_PARTIES, ids=named)
    def test_are_called_what_they_are(self, model: Model) -> None:
        one = make_plan("test", {"model": model.id, "accelerator": "rtx-pro-6000"})
        assert [note for note in one.notes if "third party" in note and model.maker in note]

    def test_what_is_quantised_drops_a_recipes_wish_to_quantise(self) -> None:
        def quantizing(**settings: Any) -> Plan:
            return make_plan("test", {"model": "gemma-4-31b-it", "accelerator": "rtx-pro-6000"}, settings)

        assert "--quantization" in quantizing().command.argv
        one = quantizing(checkpoint="RedHatAI/gemma-4-31B-it-FP8-dynamic")
        assert one.refusals == ()
        assert "--quantization" not in one.command.argv
        assert one.origins["serving.quantization"] is Origin.PLANNER

    def test_nobody_is_offered_one_unasked(self) -> None:
        small = make_plan("test", {"model": "gemma-4-31b-it", "accelerator": "l4"})
        said = " ".join(str(fault) for fault in (*small.refusals, *small.warnings))
        assert "What fits" in said
        assert not [row for row in THIRD_PARTIES if row.id in said]


class TestFormats:
    def test_a_gpu_that_is_too_old_is_refused(self) -> None:
        model, l4 = FACTS.model("gemma-4-31b-it-nvfp4"), FACTS.accelerator("l4")
        assert list(check_format(model, l4, FACTS)) == []
        (fault,) = check_format(model, l4.model_copy(update={"compute_capability": 7.0}), FACTS)
        assert "7.5" in fault.fact

    def test_unpacking_is_said_where_the_gpu_does_not_compute_in_the_format(self) -> None:
        def said(machine: str) -> bool:
            one = make_plan("test", {"model": "gemma-4-31b-it-nvfp4", "accelerator": machine})
            return any("unpacks the weights" in note for note in one.notes)

        assert said("l4")
        assert not said("rtx-pro-6000")

    def test_experts_are_read_as_counted(self) -> None:
        """Of the AWQ repack the dense MLP is bf16, so that a step reads more than the format's bytes a parameter."""
        one = make_plan("test", {"model": "gemma-4-26b-a4b-it-awq-4bit", "accelerator": "l4"}).server
        as_format = replace(one, model=one.model.model_copy(update={"sizes": None}))
        mlp = one.architecture.parameters.mlp
        assert one.weights.mlp == BF16_BYTES * mlp
        assert as_format.weights.mlp == one.weight_format.bytes_per_parameter * mlp
        assert one.weights.experts == as_format.weights.experts


class TestTheLock:
    def test_what_is_written_is_read_again(self, tmp_path: Path) -> None:
        written: Checkpoints = {"z/z": pinned(), FINE_TUNE: pinned("gemma-4-e2b-it", gated=True)}
        path = write_checkpoints(written, tmp_path)
        assert path.name == NAME
        assert read_checkpoints(tmp_path) == written
        assert list(read_checkpoints(tmp_path)) == sorted(written)

    def test_it_lies_beside_the_stack_files(self, tmp_path: Path) -> None:
        write_stack(tmp_path, f"gemma4:checkpoint: {FINE_TUNE}", model="gemma-4-12b-it", accelerator="rtx-pro-6000")
        assert read_stack(tmp_path, "mine").checkpoints == {}
        write_checkpoints({FINE_TUNE: pinned()}, tmp_path)
        assert read_stack(tmp_path, "mine").checkpoints == {FINE_TUNE: pinned()}

    @pytest.mark.parametrize("text", ["{", "[]", '{"a/b": {}}', '{"a/b": {"name": "../x"}}'])
    def test_what_is_not_a_lock_is_one_error(self, tmp_path: Path, text: str) -> None:
        (tmp_path / NAME).write_text(text, "utf-8")
        with pytest.raises(CatalogError, match=r"checkpoints\.lock\.json cannot be read"):
            read_checkpoints(tmp_path)


class TestWhatACheckpointLacks:
    @pytest.mark.parametrize("kind", ["image", "video", "audio"])
    def test_input_without_a_tower_is_refused(self, kind: str) -> None:
        text_only = sizes_of("gemma-4-12b-it").model_copy(update={"vision": 0, "audio": 0})
        one = {FINE_TUNE: pinned(sizes=text_only)}
        off: dict[str, Any] = {"serving.modalities.image": 0}
        refused = plan(one, checkpoint=FINE_TUNE, **{**off, f"serving.modalities.{kind}": 1})
        assert [(fault.key, fault.fix) for fault in refused.refusals] == [(f"serving.modalities.{kind}", "Write 0.")]
        assert plan(one, checkpoint=FINE_TUNE, **off).refusals == ()

    def test_an_output_embedding_of_its_own_is_read_at_each_step(self) -> None:
        sizes = sizes_of("gemma-4-12b-it")
        narrow = sizes.model_copy(update={"lm_head": sizes.embedding // 4, "lm_head_is_tied": False})
        fast, plain = (
            plan({FINE_TUNE: pinned(sizes=one)}, checkpoint=FINE_TUNE).speed.alone.total.mid for one in (narrow, sizes)
        )
        assert fast > plain


def test_a_format_that_the_machine_cannot_load_is_a_fault_of_the_checkpoint() -> None:
    """What to write is then not another `model`, which would not change what is loaded."""
    stack = {"model": "gemma-4-31b-it", "accelerator": "v6e-4", "checkpoint": "nvidia/Gemma-4-31B-IT-NVFP4"}
    (fault,) = make_plan("test", stack).refusals
    assert fault.key == "checkpoint"
    assert fault.fix.startswith("Take it out")
    assert make_plan("test", {**stack, "checkpoint": None}).refusals == ()


@pytest.mark.parametrize("model", THIRD_PARTIES, ids=named)
def test_before_up_a_third_partys_checkpoint_is_counted_and_not_only_pinned(model: Model) -> None:
    one = make_plan("test", {"model": model.id, "accelerator": "rtx-pro-6000", "serving.maxNumSeqs": 4})
    (pin,) = (step for step in steps_before_up(one) if step.startswith("gemma4 pin "))
    assert model.hub_id in pin.split()
