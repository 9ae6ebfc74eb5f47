"""Where memory goes, and the verdict on it: counted weights, boots that are known, and what must hold for every shape."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.catalog import GIB, Accelerator, Device, catalog
from infra.errors import SettingsError
from infra.planning.memory.alternatives import with_other_models
from infra.planning.memory.budget import (
    capacity_of,
    device_budget,
    largest_max_num_seqs,
    smallest_cpu_offload_gib,
)
from infra.planning.memory.footprint import CONTEXT, PINNED_ROUNDING, counted_on_gpu, counted_on_tpu
from infra.planning.memory.verdict import Verdict, judge
from infra.planning.server.hosting import Hosting
from infra.planning.server.server import Server
from infra.planning.units import Band

MODELS = {
    "e2b": "gemma-4-e2b-it",
    "e2b-qat": "gemma-4-e2b-it-qat-w4a16",
    "e4b": "gemma-4-e4b-it",
    "e4b-qat": "gemma-4-e4b-it-qat-w4a16",
    "12b": "gemma-4-12b-it",
    "12b-qat": "gemma-4-12b-it-qat-w4a16",
    "26b": "gemma-4-26b-a4b-it",
    "31b": "gemma-4-31b-it",
    "31b-qat": "gemma-4-31b-it-qat-w4a16",
}


def machine(name: str) -> Accelerator:
    """A machine of the catalog, or one of those that only the published boots used."""
    rows = catalog().accelerators
    others = {"b300": ("rtx-pro-6000", 267.69), "24gb": ("l4", 23.56), "v5e-1": ("v6e-1", 15.75)}
    if name not in others:
        return rows[name]
    like, gib = others[name]
    return rows[like].model_copy(update={"id": name, "device_memory_gib": gib})


def shape(model: str, accelerator: str, max_model_len: int, utilization: float, **changes: Any) -> Server:
    """A server with vLLM's own defaults for that machine, but for `changes`."""
    on = machine(accelerator)
    large, on_tpu = on.device_memory_gib > 70, on.device is Device.TPU
    defaults: dict[str, Any] = {
        "vllm_version": "0.32.0",
        "tensor_parallel": on.devices,
        "max_num_seqs": 1024 if large else 256,
        "max_num_batched_tokens": 4096 if on_tpu else 8192 if large else 2048,
        "async_scheduling": not on_tpu,
    }
    in_memory = changes.pop("staged_in_memory", False)
    server = Server(
        model=catalog().model(MODELS[model]),
        accelerator=on,
        max_model_len=max_model_len,
        gpu_memory_utilization=utilization,
        **{**defaults, **{key: value for key, value in changes.items() if key != "host_memory_gib"}},
    )
    return hosted(server, changes.get("host_memory_gib"), in_memory=in_memory)


def hosted(server: Server, gib: float | None, *, in_memory: bool = False) -> Server:
    """The server in a container of `gib`, of which a setting would give more where Cloud Run has limits."""
    limits = server.accelerator.cloud_run
    of_setting: dict[str, Any] = (
        {"memory_setting": "scaling.memoryGib", "most_memory_gib": limits.memory_gib.max} if limits else {}
    )
    return replace(server, hosting=Hosting(memory_gib=gib, staged_in_memory=in_memory, **of_setting))


FP8_KV = {"kv_cache_dtype": "fp8"}
FP8 = {"kv_cache_dtype": "fp8", "quantization": "fp8"}

BOOTS: list[tuple[str, Server]] = [
    # One L4, 21.96 GiB. Offload in GiB; the container had 32 GiB.
    ("refused", shape("31b-qat", "l4", 4096, 0.95, **FP8_KV)),
    ("refused", shape("31b-qat", "l4", 4096, 0.85, **FP8_KV)),
    ("refused", shape("31b-qat", "l4", 4096, 0.95, enforce_eager=True, **FP8_KV)),
    ("refused", shape("31b-qat", "l4", 8192, 0.90, **FP8_KV)),
    ("boots", shape("31b-qat", "l4", 8192, 0.90, cpu_offload_gib=14, host_memory_gib=32, **FP8_KV)),
    ("boots", shape("31b-qat", "l4", 4096, 0.85, cpu_offload_gib=5, enforce_eager=True, host_memory_gib=32, **FP8_KV)),
    ("boots", shape("31b-qat", "l4", 8192, 0.90, cpu_offload_gib=5, host_memory_gib=32, **FP8_KV)),
    ("boots", shape("12b-qat", "l4", 8192, 0.90)),
    ("boots", shape("12b-qat", "l4", 32768, 0.95, enforce_eager=True, host_memory_gib=16)),
    ("boots", shape("12b", "l4", 16384, 0.90, max_num_seqs=8, enforce_eager=True, host_memory_gib=32, **FP8)),
    ("boots", shape("e4b", "l4", 16384, 0.95, max_num_seqs=8, max_num_batched_tokens=4096, **FP8_KV)),
    ("boots", shape("e2b", "l4", 1024, 0.89)),
    ("boots", shape("e4b", "l4", 2048, 0.89)),
    ("refused", shape("26b", "l4", 4096, 0.95, max_num_seqs=16, **FP8)),
    ("refused", shape("12b", "l4", 4096, 0.95)),
    ("refused", shape("31b", "l4", 4096, 0.95)),
    # Other GPUs.
    ("boots", shape("e4b", "24gb", 32768, 0.90, vllm_version="0.22.1")),
    ("boots", shape("31b", "b300", 16384, 0.92, vllm_version="0.26.0")),
    ("boots", shape("31b", "rtx-pro-6000", 32767, 0.95, max_num_seqs=8, **FP8)),
    ("boots", shape("26b", "rtx-pro-6000", 32767, 0.95, max_num_seqs=8, **FP8)),
    ("boots", shape("12b", "rtx-pro-6000", 131_072, 0.95, max_num_seqs=8, **FP8)),
    ("boots", shape("31b", "rtx-pro-6000", 51_200, 0.92)),
    ("boots", shape("26b", "rtx-pro-6000", 51_200, 0.92)),
    ("boots", shape("31b", "g4-2", 32768, 0.90)),
    ("boots", shape("31b", "g4-2", 32768, 0.90, speculation="mtp")),
    # TPU.
    ("boots", shape("e2b", "v5e-1", 16384, 0.92, vllm_version="0.26.1rc1")),
    ("refused", shape("e2b", "v5e-1", 16384, 0.95, vllm_version="0.26.1rc1")),
    ("boots", shape("26b", "v6e-4", 16384, 0.90)),
    ("boots", shape("26b", "v6e-4", 16384, 0.90, speculation="ngram", block_size=32, **FP8_KV)),
    ("refused", shape("26b", "v6e-4", 16384, 0.95, speculation="ngram", block_size=32, **FP8_KV)),
    ("boots", shape("31b", "v6e-4", 16384, 0.90, **FP8_KV)),
    ("boots", shape("31b", "v6e-4", 16384, 0.95)),
    ("boots", shape("31b", "v6e-4", 16384, 0.98, block_size=256, **FP8_KV)),
    ("refused", shape("31b", "v6e-4", 16384, 0.90, tensor_parallel=2)),
    ("boots", shape("31b", "v6e-8", 32768, 0.90)),
    ("boots", shape("31b", "v6e-8", 16384, 0.92, max_num_seqs=512)),
    ("refused", shape("31b", "v6e-8", 16384, 0.92, max_num_seqs=1024)),
    ("boots", shape("31b", "v6e-8", 16384, 0.85, max_num_seqs=1024)),
    ("boots", shape("12b", "v6e-1", 8192, 0.90)),
    ("refused", shape("12b", "v6e-1", 16384, 0.90)),
    ("refused", shape("12b", "v6e-1", 32768, 0.90)),
    ("refused", shape("12b", "v6e-1", 65536, 0.90)),
    ("boots", shape("e2b", "v6e-1", 65536, 0.90)),
    ("boots", shape("e4b", "v6e-1", 65536, 0.90)),
    ("boots", shape("e2b", "v6e-4", 16384, 0.40)),
    ("boots", shape("12b", "v6e-4", 16384, 0.90, **FP8_KV)),
    ("refused", shape("31b-qat", "v6e-1", 8192, 0.90)),
    ("refused", shape("31b", "v6e-1", 8192, 0.90)),
    ("refused", shape("26b", "v6e-1", 8192, 0.90)),
]


def label(boot: Server) -> str:
    return f"{boot.model.id}-on-{boot.accelerator.id}-{boot.max_model_len}-{boot.gpu_memory_utilization}"


class TestKnownBoots:
    @pytest.mark.parametrize(("outcome", "boot"), BOOTS, ids=[f"{o}-{label(b)}" for o, b in BOOTS])
    def test_the_verdict_is_what_happened(self, outcome: str, boot: Server) -> None:
        refused = judge(boot).verdict is Verdict.REFUSED
        assert refused == (outcome == "refused")

    @pytest.mark.parametrize(
        ("boot", "kv_gib"),
        [
            # 15.18 GiB were loaded there, 15.08 in the log that the catalog has
            (shape("e4b", "24gb", 32768, 0.90, vllm_version="0.22.1", logged_weights_gib=15.18), 4.10),
            (shape("31b", "b300", 16384, 0.92, vllm_version="0.26.0"), 182.37),
            (shape("e2b", "v5e-1", 16384, 0.92), 5.52),
            (shape("e2b", "v6e-4", 16384, 0.40), 10.2),  # one decimal
        ],
    )
    def test_the_kv_cache_is_as_large_as_it_was_and_lies_in_the_band(self, boot: Server, kv_gib: float) -> None:
        kv = device_budget(boot).kv
        assert kv.mid / GIB == pytest.approx(kv_gib, rel=0.02)
        assert kv.low - 0.05 * GIB <= kv_gib * GIB <= kv.high + 0.05 * GIB

    def test_the_idle_half_of_a_published_recipe_is_seen(self) -> None:
        kv = device_budget(shape("31b", "rtx-pro-6000", 32767, 0.95, max_num_seqs=8, **FP8)).kv
        assert kv.mid / GIB == pytest.approx(55, rel=0.05)

    def test_offload_of_14_gib_fits_whatever_the_errors(self) -> None:
        assert judge(BOOTS[4][1]).verdict is Verdict.FITS


class TestWeights:
    @pytest.mark.parametrize(
        ("model", "gib"),
        [
            ("12b", 22.68),
            ("26b", 48.47),
            ("31b", 58.83),
            ("e2b", 9.73),
            ("e4b", 15.02),
            ("e2b-qat", 7.18),
            ("e4b-qat", 9.66),
            ("12b-qat", 8.07),
            ("31b-qat", 19.47),
        ],
    )
    def test_the_count_of_what_a_gpu_allocates(self, model: str, gib: float) -> None:
        assert counted_on_gpu(shape(model, "l4", 8192, 0.9)) / GIB == pytest.approx(gib, rel=0.006)

    @pytest.mark.parametrize("model", MODELS)
    def test_a_logged_size_beats_the_count(self, model: str) -> None:
        server = shape(model, "l4", 8192, 0.9)
        logged = catalog().loaded_sizes[server.model.id].gib
        assert device_budget(server).weights.mid / GIB == pytest.approx(logged)
        assert counted_on_gpu(server) <= logged * GIB

    def test_a_checkpoint_that_nobody_logged_is_counted(self) -> None:
        server = shape("31b", "g4-1", 8192, 0.9)
        other = replace(server, model=server.model.model_copy(update={"weight_format": "fp8"}))
        assert device_budget(other).weights.mid == counted_on_gpu(other)

    def test_a_fine_tune_loads_as_what_it_was_made_of(self) -> None:
        server = shape("31b", "g4-1", 8192, 0.9)
        own = replace(server, model=server.model.model_copy(update={"hub_id": "someone/fine-tune"}))
        assert device_budget(own).weights == device_budget(server).weights

    def test_the_towers_stay_away_where_only_text_is_served(self) -> None:
        server = shape("31b-qat", "l4", 1024, 0.97)
        without = device_budget(replace(server, text_only=True)).weights.mid
        assert without / GIB == pytest.approx(18.70, abs=0.02)  # as logged, vLLM 0.30.0

    def test_an_output_embedding_of_its_own_is_resident_and_not_twice_at_the_peak(self) -> None:
        # Google's E2B and E4B QAT: 8.01 and 11.04 GiB logged, 0.75 and 1.25 more than the count
        for model, logged in (("e2b-qat", 8.01), ("e4b-qat", 11.04)):
            server = shape(model, "l4", 8192, 0.9)
            budget, embedding = device_budget(server), 2 * server.architecture.parameters.embedding
            assert budget.weights.mid - counted_on_gpu(server) > embedding
            assert budget.construction_peak is not None
            assert budget.construction_peak.mid < budget.weights.mid + CONTEXT + 0.1 * embedding
            assert budget.weights.mid / GIB == pytest.approx(logged)

    @pytest.mark.parametrize(("model", "gib"), [("26b", 25.7), ("31b", 31.55)])
    def test_fp8_halves_the_linear_layers_only(self, model: str, gib: float) -> None:
        budget = device_budget(shape(model, "g4-1", 8192, 0.9, quantization="fp8"))
        assert budget.weights.mid / GIB == pytest.approx(gib, rel=0.005)

    @pytest.mark.parametrize(
        ("model", "loaded"),
        [("e4b", 15.18), ("31b", 58.99), ("12b", 22.8), ("e2b", 9.8), ("e2b-qat", 8.01), ("12b-qat", 8.25)],
    )
    def test_logged_load_sizes_lie_in_the_band(self, model: str, loaded: float) -> None:
        weights = device_budget(shape(model, "l4", 8192, 0.9)).weights
        assert weights.low <= loaded * GIB <= weights.high

    def test_rotary_tables_are_on_every_device(self) -> None:
        alone, shared = shape("31b", "g4-1", 8192, 0.9), shape("31b", "g4-2", 8192, 0.9)
        rope = alone.architecture.rope_cache_bytes
        halved = (device_budget(alone).weights.mid - rope) / 2 + rope
        assert device_budget(shared).weights.mid == pytest.approx(halved)

    def test_on_tpu_the_audio_tower_stays_away(self) -> None:
        assert device_budget(shape("e2b", "v6e-1", 8192, 0.9)).weights.mid / GIB == pytest.approx(8.97, abs=0.01)

    @pytest.mark.parametrize(
        ("server", "gib"),
        [
            # vLLM 0.29.1, xbill9/gemma4-dev and xbill9/sagemaker-gemma, September 2026
            (shape("e2b", "v6e-1", 2048, 0.92), 8.97),
            (shape("12b", "v6e-1", 2048, 0.92), 24.56),  # PyTorch path: the output embedding is not tied
            (shape("12b", "v6e-1", 2048, 0.92, text_only=True), 22.18),  # as Gemma4ForCausalLM, in JAX
            (shape("26b", "v6e-4", 2048, 0.92), 61.16 / 4),  # experts of 704 columns are padded to 1,024
            (shape("31b-qat", "v6e-1", 2048, 0.92), 21.67),
        ],
        ids=["e2b", "12b", "12b-text", "26b", "31b-qat"],
    )
    def test_what_was_resident_on_a_chip_lies_in_the_band(self, server: Server, gib: float) -> None:
        weights = device_budget(server).weights
        assert weights.low - 0.005 * GIB <= gib * GIB <= weights.high + 0.005 * GIB
        assert weights.mid / GIB == pytest.approx(gib, rel=0.005)

    def test_experts_are_padded_to_whole_tiles_of_each_chip(self) -> None:
        experts = 2 / 3 * 2 * catalog().architectures["26b-a4b"].parameters.experts
        for chips, columns in ((1, 768), (4, 1024), (8, 1024)):
            server = shape("26b", "v6e-8", 8192, 0.9, tensor_parallel=chips)
            padding = experts * (columns - 704) / 704
            assert counted_on_tpu(server) * chips == pytest.approx(server.model.checkpoint_bytes + padding)

    def test_the_drafter_costs_its_weights(self) -> None:
        without = device_budget(shape("31b", "g4-2", 32768, 0.9))
        with_mtp = device_budget(shape("31b", "g4-2", 32768, 0.9, speculation="mtp"))
        assert with_mtp.assistant_bytes / GIB == pytest.approx(0.875 / 2 + 0.375, abs=0.01)
        assert without.kv.mid - with_mtp.kv.mid == pytest.approx(with_mtp.assistant_bytes)


class TestTextOnly:
    """31B QAT text only on one L4 with vLLM 0.30.0: died at its first start with -0.29 GiB, served at its second with 2.18."""

    SERVER = shape(
        "31b-qat",
        "l4",
        1024,
        0.97,
        vllm_version="0.30.0",
        max_num_seqs=4,
        max_num_batched_tokens=1024,
        text_only=True,
    )

    def test_both_starts_of_a_published_server(self) -> None:
        cold, warm = device_budget(self.SERVER).kv, device_budget(replace(self.SERVER, compile_cache_warm=True)).kv
        assert cold.mid / GIB == pytest.approx(-0.29, abs=0.1)
        assert warm.mid / GIB == pytest.approx(2.18, abs=0.1)

    def test_it_is_tight_while_only_a_warm_start_holds(self) -> None:
        judgement = judge(self.SERVER)
        assert judgement.verdict is Verdict.TIGHT
        (fault,) = judgement.warnings
        assert fault.key == "serving.modalities"
        assert "first start, and may serve from the second on if the cache is kept" in fault.consequence
        assert judge(replace(self.SERVER, compile_cache_warm=True)).verdict is not Verdict.REFUSED

    def test_images_are_offered_as_the_setting_takes_them(self) -> None:
        # the tower of E2B is far smaller than the table that a cold start of text alone counts twice
        server = shape("e2b", "l4", 8192, 0.60, text_only=True)
        judgement = judge(server)
        assert judgement.verdict is not Verdict.FITS
        assert {"serving.modalities.image": 1} in [dict(one.settings) for one in judgement.alternatives]
        assert judge(replace(server, text_only=False)).verdict is Verdict.FITS

    def test_it_is_refused_where_a_warm_start_dies_too(self) -> None:
        assert judge(replace(self.SERVER, gpu_memory_utilization=0.85)).verdict is Verdict.REFUSED


class TestLoading:
    def test_the_peak_of_31b_qat_is_the_logged_one(self) -> None:
        peak = device_budget(BOOTS[0][1]).construction_peak
        assert peak is not None
        assert peak.mid / GIB == pytest.approx(19.81 + 2.62, abs=0.01)

    def test_neither_utilization_nor_eager_mode_moves_the_peak(self) -> None:
        peaks = {device_budget(boot).construction_peak for _, boot in BOOTS[:3]}
        assert len(peaks) == 1

    def test_offloaded_weights_do_not_count(self) -> None:
        without, with_offload = BOOTS[3][1], BOOTS[4][1]
        before, after = device_budget(without).construction_peak, device_budget(with_offload).construction_peak
        assert before is not None
        assert after is not None
        assert before.mid - after.mid == pytest.approx(14 * GIB)

    def test_only_decoder_layers_can_be_offloaded(self) -> None:
        budget = device_budget(shape("31b-qat", "l4", 8192, 0.9, cpu_offload_gib=100))
        assert budget.offloaded_bytes / GIB == pytest.approx(15.34, abs=0.01)
        assert budget.weights.mid > 0


class TestHost:
    def test_the_streamer_takes_its_buffers_and_a_copy_of_the_largest_tensor(self) -> None:
        table = 262144 * 42 * 256 * 2
        e4b = shape("e4b", "l4", 8192, 0.9, host_memory_gib=32)
        plain, streamed = device_budget(e4b).host, device_budget(replace(e4b, load_format="runai_streamer")).host
        assert (streamed.low - plain.low, streamed.high - plain.high) == (2 * table, 2 * table)

    def test_an_instance_too_small_for_the_streamer_is_told_what_to_write(self) -> None:
        e4b = shape("e4b", "l4", 8192, 0.9, host_memory_gib=16, load_format="runai_streamer")
        assert judge(replace(e4b, load_format="auto")).verdict is Verdict.FITS
        judged = judge(e4b)
        assert judged.verdict is Verdict.TIGHT
        assert judged.warnings[0].key == "scaling.memoryGib"
        assert judged.warnings[0].consequence == "The container could be killed while it loads."
        assert judged.warnings[0].fix.startswith("Raise it (at most 32), or write serving.loadFormat: safetensors")
        assert judge(hosted(e4b, 12)).verdict is Verdict.REFUSED

    def test_what_is_pinned_in_host_memory_is_rounded_up_tensor_by_tensor(self) -> None:
        # int4 tensors of a 31B layer with the scales of their groups of 32, as vLLM fuses them
        arch = catalog().architectures["31b"]
        hidden, wide, heads = arch.hidden_size, arch.intermediate_size, arch.attention_heads * arch.head_dim
        linears = [
            (hidden, 2 * wide),
            (wide, hidden),
            (hidden, heads + 2 * arch.kv_heads * arch.head_dim),
            (heads, hidden),
        ]
        sizes = [rows * columns / part for rows, columns in linears for part in (2, 16)]
        rounded = sum(2 ** math.ceil(math.log2(size)) for size in sizes) / sum(sizes)
        assert rounded == pytest.approx(PINNED_ROUNDING.mid, rel=0.05)
        bare, offloading = (
            device_budget(shape("31b-qat", "l4", 8192, 0.9, cpu_offload_gib=gib, **FP8_KV)).host for gib in (0, 5)
        )
        for end in ("low", "mid", "high"):
            taken = getattr(offloading, end) - getattr(bare, end)
            assert taken == pytest.approx(5 * GIB * getattr(PINNED_ROUNDING, end))

    def test_offloaded_weights_are_in_host_memory(self) -> None:
        verdict = judge(hosted(BOOTS[4][1], 16))
        assert verdict.verdict is Verdict.REFUSED
        assert [fault.key for fault in verdict.refusals] == ["scaling.memoryGib"]

    def test_a_checkpoint_in_tmpfs_counts_against_the_container(self) -> None:
        staged = shape("12b", "l4", 8192, 0.9, host_memory_gib=32, staged_in_memory=True, **FP8)
        assert judge(staged).verdict is Verdict.TIGHT
        assert judge(hosted(staged, 32)).verdict is Verdict.FITS

    def test_its_parts_are_listed_as_a_sentence(self) -> None:
        staged = shape("12b", "l4", 8192, 0.9, host_memory_gib=32, staged_in_memory=True, **FP8)
        (fault,) = judge(staged).warnings
        assert fault.fact.startswith("the server's processes and 22.")
        (fault,) = judge(replace(staged, load_format="runai_streamer")).warnings
        assert re.match(
            r"the server's processes, 22\.\d GiB of staged weights and \d+\.\d GiB through which", fault.fact
        )

    def test_nothing_is_judged_where_it_is_unknown(self) -> None:
        assert judge(hosted(BOOTS[4][1], None)).verdict is Verdict.FITS


class TestMessages:
    def test_a_peak_over_the_card_names_the_smallest_help(self) -> None:
        (fault,) = judge(
            shape("31b-qat", "l4", 4096, 0.95, max_num_seqs=4, **FP8_KV), start_s=Band(90, 204, 150 * 60)
        ).refusals
        assert fault.key == "serving.cpuOffloadGb"
        assert "22.4 GiB of a device" in fault.fact
        assert "19.8 GiB of weights" in fault.fact
        assert "22.0 GiB" in fault.fact
        assert "after 1.5 min to 2 h 30 min that are paid" in fault.consequence
        smallest, *others = fault.fix.removeprefix("What fits: ").removesuffix(".").split("; ")
        assert smallest == "serving.cpuOffloadGb: 2"
        assert {"accelerator: rtx-pro-6000", "model: gemma-4-12b-it-qat-w4a16"} <= set(others)

    def test_a_context_that_is_too_long_names_the_longest(self) -> None:
        (fault,) = judge(shape("12b", "v6e-1", 32768, 0.90)).refusals
        assert fault.key == "serving.maxModelLen"
        assert "takes 10.5 GiB of KV cache on each device; ≈ 3.6 GiB (3.0 to 3.7) are expected to be free" in fault.fact
        assert "serving.maxModelLen: 9216" in fault.fix

    def test_weights_over_the_cap_name_the_machine(self) -> None:
        (fault,) = judge(shape("31b", "v6e-4", 16384, 0.90, tensor_parallel=2)).refusals
        assert (fault.key, "leave nothing for the KV cache" in fault.fact) == ("accelerator", True)

    def test_int4_with_towers_of_a_class_that_jax_lacks_names_the_ways_to_serve_it(self) -> None:
        server = shape("12b-qat", "v6e-4", 16384, 0.90)
        (fault,) = judge(server).refusals
        assert (fault.key, fault.fact.endswith("cannot load together with the model's towers.")) == ("model", True)
        ways = "serve text only (serving.modalities: {image: 0, audio: 0, video: 0}), or use a GPU."
        assert fault.fix == f"Use gemma-4-12b-it, or {ways}"
        assert judge(replace(server, text_only=True)).verdict is not Verdict.REFUSED

    def test_int4_experts_are_refused_on_tpu(self) -> None:
        server = shape("26b", "v6e-4", 16384, 0.90)
        narrow = replace(server, model=server.model.model_copy(update={"weight_format": "w4a16"}))
        (fault,) = judge(narrow).refusals
        assert (fault.key, fault.fix) == ("model", "Use a GPU.")
        assert "in a mixture of experts" in fault.fact

    def test_programs_without_room_name_the_utilization(self) -> None:
        (fault,) = judge(shape("26b", "v6e-4", 16384, 0.95, speculation="ngram", **FP8_KV)).refusals
        assert (fault.key, fault.fix) == ("serving.gpuMemoryUtilization", "Write 0.90 or less.")

    def test_a_tight_fit_is_a_warning(self) -> None:
        judgement = judge(shape("31b-qat", "l4", 8192, 0.90, cpu_offload_gib=3.5, **FP8_KV))
        assert (judgement.verdict, judgement.refusals) == (Verdict.TIGHT, ())
        assert judgement.warnings[0].consequence.startswith("If less is free than expected, vLLM would load")

    def test_fp8_is_not_offered_where_it_saves_nothing(self) -> None:
        too_long = shape("e2b", "v6e-1", 131_072, 0.33, max_num_seqs=64)
        judgement = judge(too_long)
        assert judgement.verdict is not Verdict.FITS
        assert not any("serving.kvCacheDtype" in alternative.settings for alternative in judgement.alternatives)

    def test_heads_that_do_not_divide_are_an_error(self) -> None:
        with pytest.raises(SettingsError, match=r"serving\.tensorParallelSize"):
            judge(shape("31b", "v6e-4", 16384, 0.90, tensor_parallel=3))


class TestSmallestOffload:
    LATENCY = shape("31b-qat", "l4", 8192, 0.95, max_num_seqs=4, **FP8_KV)

    def test_it_loads_and_holds_one_request_and_half_a_gib_less_does_not(self) -> None:
        offload = smallest_cpu_offload_gib(self.LATENCY)
        assert offload == 2.0
        enough, less = (device_budget(replace(self.LATENCY, cpu_offload_gib=gib)) for gib in (offload, offload - 0.5))
        assert capacity_of(self.LATENCY, enough.kv.mid).fits
        assert not capacity_of(self.LATENCY, less.kv.mid).fits

    def test_the_cautious_one_fits_whatever_the_errors(self) -> None:
        cautious = smallest_cpu_offload_gib(self.LATENCY, cautious=True)
        assert cautious is not None
        assert judge(replace(self.LATENCY, cpu_offload_gib=cautious)).verdict is Verdict.FITS
        assert judge(replace(self.LATENCY, cpu_offload_gib=cautious - 0.5)).verdict is Verdict.TIGHT

    def test_nothing_is_offloaded_without_need(self) -> None:
        assert smallest_cpu_offload_gib(shape("12b-qat", "l4", 8192, 0.90)) == 0.0

    def test_there_is_none_on_tpu(self) -> None:
        assert smallest_cpu_offload_gib(shape("31b", "v6e-4", 8192, 0.90)) is None

    def test_there_is_none_beyond_the_decoder(self) -> None:
        assert smallest_cpu_offload_gib(shape("31b-qat", "l4", 262_144, 0.3)) is None


class TestLargestBatch:
    @pytest.mark.parametrize(
        "server", [shape("31b", "rtx-pro-6000", 32767, 0.95, **FP8), shape("12b-qat", "l4", 8192, 0.9)]
    )
    def test_it_holds_that_many_and_not_one_more(self, server: Server) -> None:
        seqs = largest_max_num_seqs(server, 1280)
        held = [
            capacity_of(trial, device_budget(trial).kv.mid).requests_held(1280)
            for trial in (replace(server, max_num_seqs=n) for n in (seqs, seqs + 1))
        ]
        assert held[0] >= seqs
        assert held[1] < seqs + 1

    def test_a_published_recipe_leaves_a_card_idle(self) -> None:
        assert largest_max_num_seqs(shape("31b", "rtx-pro-6000", 32767, 0.95, **FP8), 1280) > 8 * 10

    def test_programs_bound_the_batch_on_tpu(self) -> None:
        seqs = largest_max_num_seqs(shape("e2b", "v6e-4", 16384, 0.90), 256)
        assert 256 < seqs < 1024

    def test_it_keeps_the_limit(self) -> None:
        assert largest_max_num_seqs(shape("e2b", "rtx-pro-6000", 8192, 0.9), 64, limit=100) == 100

    def test_there_is_none_where_nothing_fits(self) -> None:
        assert largest_max_num_seqs(shape("31b", "l4", 4096, 0.95), 1280) == 0


servers = st.builds(
    shape,
    st.sampled_from(sorted(MODELS)),
    st.sampled_from(["l4", "rtx-pro-6000", "g4-2", "v6e-1", "v6e-4", "v6e-8"]),
    st.integers(512, 131_072),
    st.floats(0.3, 0.97),
    max_num_seqs=st.integers(1, 2048),
    max_num_batched_tokens=st.integers(256, 16_384),
    kv_cache_dtype=st.sampled_from(["auto", "fp8"]),
    enforce_eager=st.booleans(),
    text_only=st.booleans(),
    host_memory_gib=st.one_of(st.none(), st.floats(4, 200)),
)
ORDER = list(Verdict)


def severity(server: Server) -> int:
    return ORDER.index(judge(server).verdict)


class TestEveryServer:
    @given(servers)
    def test_a_refusal_exceeds_the_band(self, server: Server) -> None:
        judgement = judge(server)
        if judgement.verdict is not Verdict.REFUSED or server.accelerator.device is Device.TPU:
            return
        budget = device_budget(server)
        peak = budget.construction_peak
        assert peak is not None
        host = server.hosting.memory_gib
        assert (
            peak.low > budget.device_bytes
            or capacity_of(server, 0).min_kv_bytes > budget.kv.high
            or (host is not None and budget.host.low > host * GIB)
        )

    @given(servers)
    def test_every_finding_says_what_would_happen_and_what_to_do(self, server: Server) -> None:
        judgement = judge(server)
        faults = (*judgement.refusals, *judgement.warnings)
        assert bool(judgement.refusals) == (judgement.verdict is Verdict.REFUSED)
        assert bool(faults) == (judgement.verdict is not Verdict.FITS)
        assert all(fault.key and fault.fact and fault.consequence and fault.fix for fault in faults)

    @given(servers, st.integers(1, 65_536))
    def test_more_context_never_fits_better(self, server: Server, more: int) -> None:
        server = replace(server, block_size=32)  # on TPU the page would else grow and shrink with the context
        assert severity(replace(server, max_model_len=server.max_model_len + more)) >= severity(server)

    @given(servers, st.floats(0.1, 64))
    def test_more_device_memory_never_fits_worse(self, server: Server, more: float) -> None:
        memory = server.accelerator.device_memory_gib + more
        larger = server.accelerator.model_copy(update={"device_memory_gib": memory})
        assert severity(replace(server, accelerator=larger)) <= severity(server)

    @given(servers)
    def test_fp8_weights_never_fit_worse(self, server: Server) -> None:
        if server.accelerator.device is not Device.TPU and not server.model.id.endswith("w4a16"):
            assert severity(replace(server, quantization="fp8")) <= severity(server)

    @given(servers, st.floats(0.5, 20))
    def test_offload_never_leaves_less_for_the_kv_cache(self, server: Server, offload: float) -> None:
        before, after = device_budget(server), device_budget(replace(server, cpu_offload_gib=offload))
        assert after.kv.low >= before.kv.low
        assert after.host.low >= before.host.low

    @given(servers)
    def test_every_other_model_that_is_tried_is_smaller_or_a_sibling(self, server: Server) -> None:
        own = server.architecture.parameters.total
        assert all(tried.architecture.parameters.total <= own for _, tried in with_other_models(server))


class TestTheBand:
    def test_a_verdict_reckons_with_twice_its_width(self) -> None:
        budget = device_budget(shape("12b-qat", "l4", 8192, 0.90))
        kv, limits = budget.kv, budget.kv_limits
        assert kv.mid == limits.mid
        assert (kv.mid - limits.low, limits.high - kv.mid) == (2 * (kv.mid - kv.low), 2 * (kv.high - kv.mid))

    @pytest.mark.parametrize(
        ("spare_gib", "verdict"),
        [
            (2.0, Verdict.FITS),
            (0.1, Verdict.TIGHT),
            (-0.1, Verdict.TIGHT),
            (-0.25, Verdict.TIGHT),
            (-0.7, Verdict.REFUSED),
        ],
    )
    def test_only_a_shortage_beyond_it_is_refused(self, spare_gib: float, verdict: Verdict) -> None:
        server = shape("12b-qat", "l4", 8192, 0.80)
        missing = capacity_of(server, 0).min_kv_bytes + spare_gib * GIB - device_budget(server).kv.mid
        utilization = server.gpu_memory_utilization + missing / device_budget(server).device_bytes
        assert judge(replace(server, gpu_memory_utilization=utilization)).verdict is verdict


class TestAlternatives:
    SETTINGS = {  # noqa: RUF012
        "serving.maxModelLen": "max_model_len",
        "serving.maxNumBatchedTokens": "max_num_batched_tokens",
        "serving.kvCacheDtype": "kv_cache_dtype",
        "serving.gpuMemoryUtilization": "gpu_memory_utilization",
        "serving.cpuOffloadGb": "cpu_offload_gib",
    }

    @given(servers)
    def test_a_setting_that_is_offered_gives_the_verdict_that_is_promised(self, server: Server) -> None:
        for alternative in judge(server).alternatives:
            if set(alternative.settings) <= set(self.SETTINGS):
                changed: dict[str, Any] = {self.SETTINGS[key]: value for key, value in alternative.settings.items()}
                assert judge(replace(server, **changed)).verdict is alternative.verdict

    def test_a_move_names_every_setting_that_it_changes(self) -> None:
        offered = {str(alternative) for alternative in judge(shape("12b", "l4", 4096, 0.95)).alternatives}
        assert "accelerator: v6e-1, serving.gpuMemoryUtilization: 0.9" in offered
        assert "accelerator: rtx-pro-6000" in offered

    @pytest.mark.parametrize("boot", [boot for outcome, boot in BOOTS if outcome == "refused"], ids=label)
    def test_every_refused_boot_is_told_a_way_out(self, boot: Server) -> None:
        assert all(fault.fix and "Nothing near" not in fault.fix for fault in judge(boot).refusals)
