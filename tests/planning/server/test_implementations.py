"""What vLLM's implementations are said to do: whole for every kind of device, and followed by what is planned."""

from __future__ import annotations

from typing import Any

import pytest

from infra.catalog import Accelerator, Device, catalog
from infra.planning.memory.verdict import Verdict
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.server.implementations import IMPLEMENTATIONS, Implementation, implementation_of
from tests.projects import ROOT

MACHINES = list(catalog().accelerators.values())
BF16 = next(
    row.id
    for row in catalog().models.values()
    if row.weight_format == "bf16" and "audio" in catalog().architectures[row.architecture].input_modalities
)
"""A checkpoint that takes everything, so that a refusal is the implementation's."""
KINDS = pytest.mark.parametrize("implementation", IMPLEMENTATIONS.values(), ids=lambda one: one.device.name)


def named(row: Accelerator) -> str:
    return row.id


def plan_on(accelerator: Accelerator, **settings: Any) -> Plan:
    written = {path.replace("__", "."): value for path, value in settings.items()}
    return make_plan("test", {"model": BF16, "accelerator": accelerator.id}, written)


def refused(plan: Plan, key: str) -> bool:
    return any(fault.key == key for fault in plan.refusals)


class TestThereIsOneForEachKindOfDevice:
    def test_no_kind_is_without_one(self) -> None:
        assert set(IMPLEMENTATIONS) == set(Device)
        assert all(implementation_of(row).device is row.device for row in MACHINES)

    @KINDS
    def test_its_image_is_in_the_catalog_and_can_be_built(self, implementation: Implementation) -> None:
        assert catalog().images[implementation.image].vllm_version
        assert (ROOT / "containers" / implementation.image / "Dockerfile").is_file()

    @KINDS
    def test_a_device_of_any_size_has_a_default_of_batched_tokens(self, implementation: Implementation) -> None:
        sizes = [least for least, _ in implementation.batched_tokens]
        assert sizes == sorted(set(sizes))
        assert sizes[0] == 0


class TestWhatItCannotDoIsRefused:
    """And what it can do is not: on every machine of the catalog."""

    @pytest.mark.parametrize("accelerator", MACHINES, ids=named)
    def test_quantization_while_loading(self, accelerator: Accelerator) -> None:
        plan = plan_on(accelerator, serving__quantization="fp8")
        assert refused(plan, "serving.quantization") != implementation_of(accelerator).quantizes_while_loading

    @pytest.mark.parametrize("accelerator", MACHINES, ids=named)
    def test_weights_in_host_memory(self, accelerator: Accelerator) -> None:
        plan = plan_on(accelerator, serving__cpuOffloadGb=1)
        assert refused(plan, "serving.cpuOffloadGb") != implementation_of(accelerator).offloads_weights
        assert (plan.memory.offloaded_bytes > 0) == implementation_of(accelerator).offloads_weights

    @pytest.mark.parametrize("accelerator", MACHINES, ids=named)
    def test_sound(self, accelerator: Accelerator) -> None:
        plan = plan_on(accelerator, serving__modalities__audio=1)
        assert refused(plan, "serving.modalities.audio") != implementation_of(accelerator).reads_audio

    @pytest.mark.parametrize("accelerator", MACHINES, ids=named)
    def test_finer_images_than_its_encoder_makes(self, accelerator: Accelerator) -> None:
        most = implementation_of(accelerator).most_image_tokens
        plan = plan_on(accelerator, serving__visionTokens=1120)
        assert refused(plan, "serving.visionTokens") == (most is not None and most < 1120)

    @pytest.mark.parametrize("accelerator", MACHINES, ids=named)
    def test_a_template_of_an_image_that_is_not_known_to_hold_it(self, accelerator: Accelerator) -> None:
        plan = plan_on(accelerator, serving__chatTemplate="tools")
        assert refused(plan, "serving.chatTemplate") == (implementation_of(accelerator).tools_template is None)

    @pytest.mark.parametrize("accelerator", MACHINES, ids=named)
    @pytest.mark.parametrize("weight_format", catalog().weight_formats)
    def test_checkpoints_in_a_format_that_it_does_not_load(self, accelerator: Accelerator, weight_format: str) -> None:
        for model in catalog().models.values():
            if model.weight_format == weight_format:
                plan = make_plan("test", {"model": model.id, "accelerator": accelerator.id})
                loaded = plan.server.loads
                assert accelerator.device in catalog().weight_formats[weight_format].devices or not loaded
                assert loaded or plan.fits is Verdict.REFUSED
                said = any("cannot load" in fault.fact for fault in plan.refusals)
                assert said != loaded


class TestWhatItDoesIsPlannedWith:
    @pytest.mark.parametrize("accelerator", MACHINES, ids=named)
    def test_its_environment_reaches_the_server(self, accelerator: Accelerator) -> None:
        plan = plan_on(accelerator)
        own = dict(implementation_of(accelerator).env)
        if plan.server.tensor_parallel > 1 and accelerator.device is Device.GPU:
            own.pop("PYTORCH_CUDA_ALLOC_CONF")  # vLLM's own all-reduce refuses it; a machine where that is off keeps it
        assert own.items() <= plan.command.env.items()

    @pytest.mark.parametrize("accelerator", MACHINES, ids=named)
    def test_no_more_requests_than_it_makes_use_of_are_recommended(self, accelerator: Accelerator) -> None:
        plan = plan_on(accelerator, profile="throughput", serving__maxNumSeqs=None)
        assert plan.server.max_num_seqs <= implementation_of(accelerator).most_useful_seqs

    @pytest.mark.parametrize("accelerator", MACHINES, ids=named)
    def test_programs_are_counted_where_they_live(self, accelerator: Accelerator) -> None:
        memory, outside = plan_on(accelerator).memory, implementation_of(accelerator).programs_outside_share
        assert (memory.programs is not None) == outside
        assert (memory.overhead.mid == 0) == outside
        assert (memory.construction_peak is None) == outside

    @pytest.mark.parametrize("accelerator", MACHINES, ids=named)
    def test_a_sliding_window_is_freed_or_kept(self, accelerator: Accelerator) -> None:
        geometry = plan_on(accelerator).capacity.geometry
        assert (geometry.sliding_groups > 0) == implementation_of(accelerator).frees_sliding_window
