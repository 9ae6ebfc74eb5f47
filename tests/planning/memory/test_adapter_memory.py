"""The room that LoRA adapters take: what vLLM's own layers were counted to hold, and how it grows and is shared out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from infra.catalog import GIB, catalog
from infra.planning.memory.adapter_memory import (
    adapter_bytes,
    adapters_in_host_memory,
    experts_per_rank,
    numbers_per_rank,
)
from infra.planning.memory.alternatives import on_other_accelerators, with_other_models, with_other_settings
from infra.planning.memory.budget import device_budget
from infra.planning.memory.gpu_overhead import graph_sizes
from infra.planning.server.implementations import implementation_of
from infra.planning.server.server import Server
from tests.projects import ROOT

COUNTED = {"e2b": 105_332_736, "e4b": 155_516_928, "12b": 264_503_296, "26b-a4b": 81_223_680, "31b": 494_469_120}
COUNTED_WITH_EXPERTS = {"26b-a4b": 2_676_449_280}
"""Bytes of lora_a_stacked and lora_b_stacked over all layers that vLLM 0.32.0's LoRAModelManager wraps, for 2 slots of rank
16 in bf16: each architecture built from its published configuration on PyTorch's meta device, 2026-11-22."""


def server(architecture: str = "12b", **changes: object) -> Server:
    model = next(row for row in catalog().models.values() if row.architecture == architecture)
    adapted = Server(
        model=model,
        accelerator=catalog().accelerators["rtx-pro-6000"],
        vllm_version="0.32.0",
        tensor_parallel=1,
        max_model_len=4096,
        max_num_seqs=16,
        max_num_batched_tokens=2048,
        gpu_memory_utilization=0.9,
        async_scheduling=True,
        adapters=2,
        adapter_slots=2,
        adapter_rank=16,
    )
    return replace(adapted, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("architecture", COUNTED)
def test_the_room_is_what_vllms_layers_were_counted_to_hold(architecture: str) -> None:
    assert adapter_bytes(server(architecture)) == COUNTED[architecture]


@pytest.mark.parametrize("architecture", COUNTED_WITH_EXPERTS)
def test_experts_are_counted_where_they_are_adapted(architecture: str) -> None:
    assert adapter_bytes(server(architecture, adapts_experts=True)) == COUNTED_WITH_EXPERTS[architecture]


@pytest.mark.parametrize("architecture", catalog().architectures)
def test_more_devices_need_less_each_and_more_in_all(architecture: str) -> None:
    row = catalog().architectures[architecture]
    alone, shared = numbers_per_rank(row, 1), numbers_per_rank(row, 2)
    assert alone / 2 < shared < alone


def test_no_adapter_takes_no_room() -> None:
    none = device_budget(server(adapters=0, adapter_slots=0, adapter_rank=0))
    assert none.adapter_bytes == 0
    assert adapters_in_host_memory(server(adapters=0)).high == 0


@pytest.mark.parametrize("eager", [True, False])
def test_the_room_and_a_second_set_of_graphs_come_out_of_the_kv_cache(eager: bool) -> None:
    adapted = server(enforce_eager=eager)
    bare = replace(adapted, adapters=0, adapter_slots=0, adapter_rank=0)
    with_room, without = device_budget(adapted), device_budget(bare)
    assert with_room.adapter_bytes == COUNTED["12b"]
    assert graph_sizes(adapted) == 2 * graph_sizes(bare)
    graphs = with_room.overhead.mid - without.overhead.mid
    assert (graphs == 0) is eager
    assert without.kv.mid - with_room.kv.mid == pytest.approx(COUNTED["12b"] + graphs)


def test_the_host_keeps_every_adapter_also_those_without_a_slot() -> None:
    few, many = (adapters_in_host_memory(server(adapters=count)) for count in (2, 8))
    assert many.high == 4 * few.high
    assert few.high == COUNTED["12b"]


@pytest.mark.parametrize("architecture", catalog().architectures)
def test_only_a_mixture_has_experts_to_adapt(architecture: str) -> None:
    row = catalog().architectures[architecture]
    assert bool(experts_per_rank(row, 1)) == (row.experts is not None)


def test_the_task_page_says_what_a_slot_takes() -> None:
    page = (ROOT / "docs/tasks/serve-fine-tuned-adapters.md").read_text("utf-8").splitlines()
    head = next(number for number, line in enumerate(page) if line.startswith("| E2B |"))
    named, said = ([cell.strip() for cell in page[row].strip("|").split("|")] for row in (head, head + 2))
    for name, figure in zip(named, said, strict=True):
        size, _, experts = name.lower().partition(" with ")
        slot = adapter_bytes(server(size, adapter_slots=1, adapts_experts=bool(experts)))
        assert figure == f"{slot / GIB:.2f} GiB", name


class TestWhatWouldFitInstead:
    def test_serves_the_adapters_too(self) -> None:
        machines = [other.accelerator for _, other in on_other_accelerators(server())]
        assert machines
        assert all(implementation_of(machine).serves_adapters for machine in machines)
        assert {other.architecture.id for _, other in with_other_models(server())} == {"12b"}

    def test_may_have_one_slot_only(self) -> None:
        offered = [other for settings, other in with_other_settings(server()) if "serving.adapterSlots" in settings]
        assert [other.adapter_slots for other in offered] == [1]
        assert device_budget(offered[0]).adapter_bytes == COUNTED["12b"] / 2
