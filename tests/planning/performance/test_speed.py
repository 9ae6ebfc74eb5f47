"""Decode speed, prompts, speculation and the choice of maxNumSeqs, against the batch model's table and public runs."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.catalog import Accelerator, Device, Profile, catalog
from infra.planning.memory.kv_cache import kv_capacity
from infra.planning.performance.decode import bandwidth_share, kv_bytes, launch_s, sampling_s, step_of, weight_bytes
from infra.planning.performance.speed import SpeedEstimate, SpeedModel
from infra.planning.scorecard.predict import compare
from infra.planning.scorecard.published_runs import SHIPPED, read_runs
from infra.planning.scorecard.sets import score_sets
from infra.planning.server.server import Server

FP8: dict[str, Any] = {"quantization": "fp8", "kv_cache_dtype": "fp8"}
CHAT: dict[str, Any] = {"prompt_tokens": 128, "output_tokens": 128}
"""Short answers to short prompts, as the Cloud Run measurements asked for."""
SHAREGPT: dict[str, Any] = {"prompt_tokens": 400, "output_tokens": 200}
LADDER: dict[str, Any] = {"prompt_tokens": 500, "output_tokens": 200}
LONG: dict[str, Any] = {"prompt_tokens": 16_320, "output_tokens": 128}


def model(
    name: str,
    accelerator: str,
    *,
    tp: int | None = None,
    prompt_tokens: int = 1024,
    output_tokens: int = 256,
    batched: int = 8192,
    mtp: int = 0,
    **served: Any,
) -> SpeedModel:
    device = catalog().accelerator(accelerator)
    server = Server(
        model=catalog().model(name),
        accelerator=device,
        vllm_version="0.32.0",
        tensor_parallel=tp or device.devices,
        max_model_len=16_384,
        max_num_seqs=256,
        max_num_batched_tokens=batched,
        gpu_memory_utilization=0.9,
        async_scheduling=True,
        speculation="mtp" if mtp else "none",
        speculative_tokens=mtp,
        **served,
    )
    return SpeedModel(server, prompt_tokens, output_tokens)


MEASURED = [
    # model, accelerator, options, running requests, measured
    ("gemma-4-31b-it", "rtx-pro-6000", {**FP8, **CHAT}, 1, 38.6),
    ("gemma-4-31b-it", "rtx-pro-6000", {**FP8, **CHAT}, 8, 295),
    ("gemma-4-31b-it", "rtx-pro-6000", {**FP8, **LONG}, 8, 233),
    ("gemma-4-31b-it", "g4-2", SHAREGPT, 1, 41.9),
    ("gemma-4-31b-it", "g4-2", SHAREGPT, 10, 337),
    ("gemma-4-e2b-it", "l4", CHAT, 1, 48.3),
    ("gemma-4-e2b-it", "v6e-1", CHAT, 1, 212),
    ("gemma-4-e2b-it", "v6e-4", CHAT, 1, 207),
    ("gemma-4-31b-it", "v6e-8", LADDER, 64, 5329),
    ("gemma-4-31b-it", "v6e-8", LADDER, 128, 8036),
    ("gemma-4-31b-it", "v6e-8", LADDER, 256, 10829),
    ("gemma-4-31b-it", "v6e-8", LADDER, 512, 12500),
    ("gemma-4-31b-it", "v6e-8", LADDER, 1024, 13540),
    ("gemma-4-26b-a4b-it", "rtx-pro-6000", {**FP8, **CHAT}, 1, 156),
    ("gemma-4-26b-a4b-it", "rtx-pro-6000", {**FP8, **CHAT}, 8, 998),
]


class TestBatchModel:
    def test_runs_of_the_first_table_are_met_in_the_median_and_most_lie_in_the_band(self) -> None:
        """Those of E2B on four chips and the ladder of 31B on eight cannot both be met, and only their bands say so."""
        totals = [model(name, on, **options).tokens_per_second_at(n).total for name, on, options, n, _ in MEASURED]
        errors = [abs(total.mid / row[-1] - 1) for total, row in zip(totals, MEASURED, strict=True)]
        gpu = [error for error, row in zip(errors, MEASURED, strict=True) if not row[1].startswith("v6e")]
        assert statistics.median(errors) <= 0.20
        assert statistics.median(gpu) <= 0.05
        inside = [total.low <= row[-1] <= total.high for total, row in zip(totals, MEASURED, strict=True)]
        assert inside.count(True) / len(inside) >= 0.65

    def test_no_rate_beats_what_the_memory_bandwidth_allows(self) -> None:
        for name in catalog().models:
            for on in ("l4", "rtx-pro-6000", "g4-2", "v6e-1", "v6e-8"):
                speed = model(name, on)
                for requests in (1, 8, 64, 512):
                    read = weight_bytes(speed.server, requests) + requests * kv_bytes(speed.server, 1024 + 128)
                    bandwidth = speed.server.accelerator.bandwidth * speed.server.tensor_parallel
                    total = speed.tokens_per_second_at(requests).total
                    assert total.mid < requests * bandwidth / read

    @pytest.mark.parametrize(
        ("name", "most", "inside"),
        [
            ("speed on L4, RTX PRO 6000, v6e", (8.0, 25.5), (0.75, 0.95)),
            ("L4, one stream", (4.0, 10.0), (0.75, 1.0)),
            ("speed on other CUDA machines", (10.0, 50.0), (0.75, 1.0)),
            ("speed on other TPUs", (12.0, 50.0), (0.75, 1.0)),
        ],
    )
    def test_published_runs_are_met(self, name: str, most: tuple[float, float], inside: tuple[float, float]) -> None:
        rows = [compare(run, row) for run, row in read_runs(SHIPPED)]
        found = next(score for score in score_sets(rows) if score.name.strip() == name)
        assert (found.median or 0) <= most[0]
        assert (found.p90 or 0) <= most[1]
        assert inside[0] <= found.inside / len(found.members) <= inside[1]


class TestStep:
    def test_two_tokens_share_few_experts_and_many_tokens_reach_nearly_all(self) -> None:
        server = model("gemma-4-26b-a4b-it", "rtx-pro-6000").server
        experts = catalog().architecture_of("gemma-4-26b-a4b-it").parameters.experts * 2
        shared = weight_bytes(server, 0)
        assert weight_bytes(server, 1) - shared == pytest.approx(experts * 8 / 128)
        assert weight_bytes(server, 2) - shared == pytest.approx(experts * (1 - (120 / 128) ** 2))
        assert weight_bytes(server, 200) - shared == pytest.approx(experts, rel=0.001)

    def test_sliding_layers_stop_at_their_window_and_full_layers_grow(self) -> None:
        server = model("gemma-4-31b-it", "rtx-pro-6000").server
        assert kv_bytes(server, 1024) == 901_120 * 1024
        assert kv_bytes(server, 9024) - kv_bytes(server, 1024) == 81_920 * 8000

    def test_kv_shared_layers_read_the_cache_that_they_do_not_own(self) -> None:
        server = model("gemma-4-e2b-it", "l4").server
        owned = 18_432
        assert kv_bytes(server, 100) == pytest.approx(100 * owned * 35 / 15)

    def test_fp8_halves_kv_reads_on_gpu_but_not_where_a_chip_holds_one_head(self) -> None:
        def read(accelerator: str, dtype: str) -> float:
            return kv_bytes(model("gemma-4-e2b-it", accelerator, kv_cache_dtype=dtype).server, 500)

        assert read("l4", "fp8") == read("l4", "auto") / 2
        assert read("v6e-1", "fp8") == read("v6e-1", "bfloat16")

    def test_heads_fewer_than_devices_are_read_on_each(self) -> None:
        one, eight = (kv_bytes(model("gemma-4-31b-it", name).server, 600) for name in ("v6e-1", "v6e-8"))
        assert (one, eight) == (600 * 901_120, 600 * 122_880 * 8)
        gpus = model("gemma-4-31b-it", "g4-8").server
        assert kv_bytes(gpus, 5000) - kv_bytes(gpus, 4000) == 1000 * 20_480 * 8

    @pytest.mark.parametrize("name", ["gemma-4-e4b-it", "gemma-4-12b-it", "gemma-4-26b-a4b-it", "gemma-4-31b-it"])
    @pytest.mark.parametrize("dtype", ["bfloat16", "fp8"])
    @pytest.mark.parametrize("accelerator", ["l4", "g4-2", "g4-8", "v6e-1", "v6e-4", "v6e-8"])
    def test_a_longer_context_reads_as_much_more_as_the_cache_stores(
        self, name: str, dtype: str, accelerator: str
    ) -> None:
        """The memory planner and the decode model must agree on the bytes of a token in the layers that keep it."""
        server = model(name, accelerator, kv_cache_dtype=dtype).server
        arch, device, tp = server.architecture, server.accelerator.device, server.tensor_parallel
        stored = kv_capacity(
            name, backend=device.value, tp=tp, kv_bytes_per_device=10**10, kv_cache_dtype=dtype, max_model_len=8192,
            max_num_batched_tokens=2048, vllm_version="0.32.0", async_scheduling=False, block_size=32,
        )  # fmt: skip
        owners = arch.sliding_layers_with_kv + arch.full_layers_with_kv
        if device is Device.TPU:
            read = kv_bytes(server, arch.sliding_window) / arch.sliding_window
        else:
            read = kv_bytes(server, 9000) - kv_bytes(server, 8999)
        blocks = stored.geometry.full_groups / stored.geometry.full_block
        assert read * owners / arch.layers / tp == pytest.approx(blocks * stored.bytes_per_block)

    def test_fixed_costs_grow_with_layers_with_shared_devices_and_with_experts(self) -> None:
        def per_layer(name: str, accelerator: str) -> float:
            server = model(name, accelerator).server
            return launch_s(server) / server.architecture.layers

        assert per_layer("gemma-4-e2b-it", "l4") == pytest.approx(per_layer("gemma-4-31b-it", "rtx-pro-6000"))
        assert per_layer("gemma-4-31b-it", "g4-2") > per_layer("gemma-4-31b-it", "rtx-pro-6000")
        assert per_layer("gemma-4-26b-a4b-it", "rtx-pro-6000") > per_layer("gemma-4-31b-it", "rtx-pro-6000")
        assert launch_s(model("gemma-4-e2b-it", "v6e-1").server) == launch_s(model("gemma-4-31b-it", "v6e-1").server)

    def test_a_tpu_samples_eight_rows_at_least_and_each_further_one_costs(self) -> None:
        one, four = (model("gemma-4-e2b-it", name).server for name in ("v6e-1", "v6e-4"))
        slope = sampling_s(one, 8) - sampling_s(one, 7)
        assert sampling_s(one, 10) - sampling_s(one, 9) > 3 * slope
        assert sampling_s(four, 64) == pytest.approx(sampling_s(one, 64) / 4)

    def test_int4_weights_are_read_more_slowly_on_tpu_but_still_faster_than_bf16_ones(self) -> None:
        seconds = {
            (name, on): step_of(model(name, on).server, 1, 100.0).bandwidth_s
            for name in ("gemma-4-e4b-it", "gemma-4-e4b-it-qat-w4a16")
            for on in ("l4", "v6e-1")
        }
        gain = {on: seconds["gemma-4-e4b-it", on] / seconds["gemma-4-e4b-it-qat-w4a16", on] for on in ("l4", "v6e-1")}
        assert 1 < gain["v6e-1"] < gain["l4"]

    def test_cards_that_reach_less_of_their_bandwidth_are_known_by_name(self) -> None:
        l4 = model("gemma-4-e2b-it", "l4").server
        t4 = replace(l4, accelerator=l4.accelerator.model_copy(update={"id": "t4"}))
        assert bandwidth_share(t4) < bandwidth_share(l4)

    def test_bound_names_what_is_scarce(self) -> None:
        rtx = model("gemma-4-31b-it", "rtx-pro-6000", **FP8)
        assert rtx.tokens_per_second_at(1).bound == "bandwidth"
        assert model("gemma-4-e2b-it", "v6e-4").tokens_per_second_at(1).bound == "launch"
        assert model("gemma-4-e2b-it", "v6e-1").tokens_per_second_at(64).bound == "sampling"
        offloaded = model("gemma-4-31b-it-qat-w4a16", "l4", cpu_offload_gib=5)
        assert offloaded.tokens_per_second_at(1).bound == "pcie"
        assert model("gemma-4-31b-it", "rtx-pro-6000", **FP8, **CHAT).tokens_per_second_at(2000).bound == "compute"

    @settings(max_examples=40, deadline=None)
    @given(
        name=st.sampled_from(sorted(catalog().models)),
        accelerator=st.sampled_from(["l4", "rtx-pro-6000", "v6e-1", "v6e-4", "g4-2"]),
        requests=st.integers(1, 600),
        prompt=st.integers(1, 60_000),
    )
    def test_more_requests_never_bring_fewer_tokens_nor_a_faster_stream(
        self, name: str, accelerator: str, requests: int, prompt: int
    ) -> None:
        speed = model(name, accelerator, prompt_tokens=prompt)
        fewer, more = speed.tokens_per_second_at(requests), speed.tokens_per_second_at(requests + 1)
        assert more.total.mid >= fewer.total.mid * (1 - 1e-9)
        assert more.per_stream.mid <= fewer.per_stream.mid
        assert more.with_new_prompts.mid < more.total.mid


class TestOffload:
    @pytest.mark.parametrize(("gib", "measured"), [(5, 2.0), (14, 0.8)])
    def test_reproduces_both_measured_offloads_of_the_31b(self, gib: float, measured: float) -> None:
        offloaded = model("gemma-4-31b-it-qat-w4a16", "l4", kv_cache_dtype="fp8", cpu_offload_gib=gib, **CHAT)
        assert offloaded.tokens_per_second_at(1).total.mid == pytest.approx(measured, rel=0.02)

    def test_the_log_with_two_running_requests_is_reproduced_as_two(self) -> None:
        offloaded = model("gemma-4-31b-it-qat-w4a16", "l4", kv_cache_dtype="fp8", cpu_offload_gib=14, **CHAT)
        estimate = offloaded.estimate(2)
        assert estimate.planned.total.mid == pytest.approx(1.6, rel=0.02)
        assert estimate.alone.total.low < 0.8 < estimate.alone.total.high < 1.6, "1.6 is no single request's"
        assert any("host link" in note for note in estimate.notes)

    def test_no_more_is_offloaded_than_the_layers_hold(self) -> None:
        def alone(gib: float) -> float:
            return model("gemma-4-e2b-it", "l4", cpu_offload_gib=gib).tokens_per_second_at(1).total.mid

        assert alone(100) == alone(50) < alone(1)

    def test_an_accelerator_without_a_host_rate_borrows_one_and_says_so(self) -> None:
        def estimate(gib: float) -> SpeedEstimate:
            return model("gemma-4-31b-it", "rtx-pro-6000", **FP8, cpu_offload_gib=gib).estimate(1)

        assert estimate(5).alone.total.mid < estimate(0).alone.total.mid
        assert any("stands in" in note for note in estimate(5).notes)


class TestSpeculation:
    @pytest.mark.parametrize(("requests", "measured"), [(1, 2.48), (10, 1.92), (100, 1.09)])
    def test_mtp_gain_shrinks_with_the_batch_as_published(self, requests: int, measured: float) -> None:
        plain, drafted = (model("gemma-4-31b-it", "g4-2", **SHAREGPT, mtp=drafts) for drafts in (0, 4))
        rates = [speed.tokens_per_second_at(requests).total for speed in (plain, drafted)]
        assert rates[1].mid / rates[0].mid == pytest.approx(measured, rel=0.10)

    def test_the_estimate_states_the_gain_of_a_lone_stream_with_a_band(self) -> None:
        gain = model("gemma-4-31b-it", "g4-2", **SHAREGPT, mtp=4).estimate(8).speculation_gain
        assert gain.low < 2.48 < gain.high

    def test_two_drafts_bring_less_than_four_to_a_lone_stream(self) -> None:
        two, four = (model("gemma-4-31b-it", "g4-2", mtp=drafts).estimate(1) for drafts in (2, 4))
        assert 1 < two.speculation_gain.mid < four.speculation_gain.mid

    def test_ngram_claims_no_gain_and_says_why(self) -> None:
        plain = model("gemma-4-26b-a4b-it", "v6e-4")
        ngram = replace(plain, server=replace(plain.server, speculation="ngram", speculative_tokens=3))
        assert ngram.tokens_per_second_at(64) == plain.tokens_per_second_at(64)
        gain = ngram.estimate(64).speculation_gain
        assert gain.low == gain.high
        assert any("no gain is claimed" in note for note in ngram.estimate(64).notes)


class TestBands:
    def test_what_nobody_measured_has_a_wider_band_and_a_note(self) -> None:
        def margin(name: str, accelerator: str) -> float:
            alone = model(name, accelerator).estimate(1).alone.total
            return 1 - alone.low / alone.mid

        dense, mixture, many = (
            margin(name, on)
            for name, on in (
                ("gemma-4-31b-it", "rtx-pro-6000"),
                ("gemma-4-26b-a4b-it", "rtx-pro-6000"),
                ("gemma-4-26b-a4b-it", "v6e-8"),
            )
        )
        assert dense < margin("gemma-4-31b-it", "g4-8") < mixture < many
        assert any("extrapolated" in note for note in model("gemma-4-26b-a4b-it", "v6e-8").estimate(1).notes)
        assert model("gemma-4-31b-it", "rtx-pro-6000").estimate(1).notes == ()

    def test_the_upper_end_holds_requests_that_need_no_sampling(self) -> None:
        speed = model("gemma-4-e4b-it", "v6e-1")
        alone, many = speed.tokens_per_second_at(1).total, speed.tokens_per_second_at(32).total
        step = step_of(speed.server, 32, 1024 + 128)
        assert many.high >= 32 / (step.seconds - step.sampling_s)
        assert many.high / many.mid > alone.high / alone.mid

    @pytest.mark.parametrize(
        "accelerator", [row for row in catalog().accelerators.values() if row.measured], ids=lambda row: row.id
    )
    def test_devices_that_nobody_timed_have_a_wider_band_and_a_note(self, accelerator: Accelerator) -> None:
        like = model("gemma-4-12b-it", accelerator.id)
        unmeasured = accelerator.model_copy(update={"measured": ()})
        new = replace(like, server=replace(like.server, accelerator=unmeasured))
        known, guessed = like.estimate(1), new.estimate(1)
        assert guessed.planned.total.mid == known.planned.total.mid
        assert guessed.planned.total.high >= max(1.17 * guessed.planned.total.mid, known.planned.total.high)
        assert guessed.planned.total.low <= min(0.83 * guessed.planned.total.mid, known.planned.total.low)
        assert guessed.ttft_s.high >= known.ttft_s.high
        assert any("No run on this machine" in note for note in guessed.notes)
        assert not any("No run on this machine" in note for note in known.notes)

    def test_a_rate_of_nobody_is_a_programming_error(self) -> None:
        with pytest.raises(ValueError, match="at least one"):
            model("gemma-4-31b-it", "rtx-pro-6000").tokens_per_second_at(0)


class TestRecommendation:
    def test_the_rtx_31b_recipe_comes_out_at_a_third_of_its_published_cost(self) -> None:
        speed = model("gemma-4-31b-it", "rtx-pro-6000", **FP8)
        knee = speed.recommend_max_num_seqs("balanced", kv_requests=100)
        published, now = (3.187 / 3600 / rate * 1e6 for rate in (300, knee.rate.total.mid))
        assert published == pytest.approx(2.96, rel=0.01)
        assert 0.30 <= now / published <= 0.36
        assert knee.limited_by == "stream-speed"

    @pytest.mark.parametrize("name", ["gemma-4-31b-it", "gemma-4-26b-a4b-it"])
    @pytest.mark.parametrize("accelerator", ["rtx-pro-6000", "v6e-4"])
    def test_profiles_trade_stream_speed_for_requests(self, name: str, accelerator: str) -> None:
        speed = model(name, accelerator)
        profiles: tuple[Profile, ...] = ("latency", "balanced", "throughput")
        counts = [speed.recommend_max_num_seqs(profile, kv_requests=10_000).max_num_seqs for profile in profiles]
        assert counts == sorted(counts)
        assert counts[0] < counts[2]

    def test_latency_keeps_four_fifths_of_a_slow_stream(self) -> None:
        speed = model("gemma-4-31b-it", "rtx-pro-6000", **FP8)
        knee = speed.recommend_max_num_seqs("latency", kv_requests=1000)
        assert knee.rate.per_stream.mid >= 0.8 * speed.tokens_per_second_at(1).per_stream.mid

    @pytest.mark.parametrize(("kv_requests", "expected"), [(0.4, 1), (3.9, 2), (13, 8), (40.5, 40)])
    def test_never_more_than_the_kv_cache_holds(self, kv_requests: float, expected: int) -> None:
        knee = model("gemma-4-e2b-it", "v6e-1").recommend_max_num_seqs("throughput", kv_requests=kv_requests)
        assert (knee.max_num_seqs, knee.limited_by) == (expected, "kv-cache")

    def test_the_ceiling_is_what_the_backend_prepares_for(self) -> None:
        knee = model("gemma-4-e2b-it", "v6e-8").recommend_max_num_seqs("balanced", kv_requests=9999)
        assert (knee.max_num_seqs, knee.limited_by) == (256, "ceiling")

    def test_throughput_stops_when_doubling_brings_little(self) -> None:
        speed = model("gemma-4-12b-it-qat-w4a16", "l4")
        knee = speed.recommend_max_num_seqs("throughput", kv_requests=9999)
        half = speed.tokens_per_second_at(knee.max_num_seqs // 2).total.mid
        assert knee.limited_by == "gain"
        assert 1.10 <= knee.rate.total.mid / half < 1.15
