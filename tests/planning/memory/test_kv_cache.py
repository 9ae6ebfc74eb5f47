"""KV capacity against vLLM's own planners, published boots, and what must hold for every configuration."""

from __future__ import annotations

import csv
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from infra.catalog import GIB, catalog
from infra.catalog.flags import TABLES, flag_table
from infra.catalog.versions import minor_version
from infra.errors import SettingsError
from infra.planning.memory.kv_blocks import gpu_geometry, stored_type, tpu_page_size
from infra.planning.memory.kv_cache import KvCapacity, kv_capacity
from infra.planning.server.implementations import CUDA
from tests.projects import ROOT

SIZES = ("e2b", "e4b", "12b", "26b-a4b", "31b")
PLANNER_ANSWERS = ROOT / "tests" / "data" / "kv_planner.csv"


def capacity(size: str = "31b", **changes: Any) -> KvCapacity:
    """31B on one GPU with 20 GiB of bf16 KV cache under vLLM 0.32, but for `changes`."""
    arguments: dict[str, Any] = {
        "backend": "gpu",
        "tp": 1,
        "kv_bytes_per_device": 20 * GIB,
        "kv_cache_dtype": "bfloat16",
        "max_model_len": 32768,
        "max_num_batched_tokens": 8192,
        "vllm_version": "0.32.0",
        "async_scheduling": False,
    }
    return kv_capacity(f"gemma-4-{size}-it", **{**arguments, **changes})


def planner_answers() -> dict[str, list[dict[str, str]]]:
    lines = [line for line in PLANNER_ANSWERS.read_text().splitlines() if not line.startswith("#")]
    versions: dict[str, list[dict[str, str]]] = {}
    for row in csv.DictReader(lines):
        versions.setdefault(row["version"], []).append(row)
    return versions


class TestVllmsOwnPlanner:
    @pytest.mark.parametrize("version", planner_answers())
    def test_blocks_tokens_and_refusal_are_equal(self, version: str) -> None:
        rows = planner_answers()[version]
        assert len(rows) >= (400 if version in TABLES else 30)
        for row in rows:
            answer = kv_capacity(
                f"gemma-4-{row['model']}-it",
                backend="gpu",
                tp=int(row["tp"]),
                kv_bytes_per_device=int(row["kv_bytes"]),
                kv_cache_dtype=row["kv_cache_dtype"],
                max_model_len=int(row["max_model_len"]),
                max_num_batched_tokens=int(row["max_num_batched_tokens"]),
                vllm_version=version,
                async_scheduling=row["async_scheduling"] == "1",
                block_size=int(row["block_size"]) if row["block_size"] else None,
            )
            expected = (int(row["num_blocks"]), int(row["tokens"]), row["fits"] == "1")
            assert (answer.num_blocks, answer.tokens, answer.fits) == expected, row

    @pytest.mark.parametrize("version", TABLES)
    def test_each_kv_type_of_the_flag_that_is_counted_was_asked_for(self, version: str) -> None:
        table = flag_table(version)
        names = table.flags["--kv-cache-dtype"].choices or table.values["--kv-cache-dtype"]
        counted = set()
        for name in names:
            with suppress(SettingsError):
                stored_type(name, CUDA, minor_version(version))
                counted.add(name)
        assert len(counted) == 9
        assert {row["kv_cache_dtype"] for row in planner_answers()[version]} == counted
        assert {row["fits"] for row in planner_answers()[version]} == {"0", "1"}


class TestPublishedBoots:
    """Logged token counts, given the KV bytes of the same log: within 0.3 %."""

    @pytest.mark.parametrize(
        ("size", "changes", "logged_tokens", "logged_concurrency"),
        [
            (
                "e4b",
                {"kv_bytes_per_device": 4.10 * GIB, "vllm_version": "0.22.1", "max_num_batched_tokens": 2048},
                224_353,
                6.85,
            ),
            (
                "31b",
                {
                    "kv_bytes_per_device": 182.37 * GIB,
                    "vllm_version": "0.26.0",
                    "max_model_len": 16384,
                    "async_scheduling": True,
                },
                217_116,
                13.25,
            ),
            (
                "e2b",
                {
                    "backend": "tpu",
                    "kv_bytes_per_device": 5.52 * GIB,
                    "vllm_version": "0.26.1rc1",
                    "max_model_len": 16384,
                },
                321_376,
                19.6,
            ),
        ],
    )
    def test_predicted_as_logged(
        self, size: str, changes: dict[str, Any], logged_tokens: int, logged_concurrency: float
    ) -> None:
        answer = capacity(size, **changes)
        assert answer.tokens == pytest.approx(logged_tokens, rel=0.003)
        assert answer.concurrency == pytest.approx(logged_concurrency, rel=0.003)

    def test_the_published_planner_vectors(self) -> None:
        assert capacity().tokens == 68_671
        assert capacity(async_scheduling=True, vllm_version="0.26.0").tokens == 41_495


class TestVersions:
    @pytest.mark.parametrize(
        ("version", "same_as"),
        [("0.17.2", "0.19.0"), ("v0.32.0", "0.32.0"), ("0.26.1rc1", "0.26.0"), ("0.40.1", "0.33.0"), ("1.0", "0.33.0")],
    )
    def test_a_version_counts_as_the_nearest_known_one(self, version: str, same_as: str) -> None:
        changes: dict[str, Any] = {"async_scheduling": True, "block_size": 64}
        assert capacity(vllm_version=version, **changes) == capacity(vllm_version=same_as, **changes)

    def test_the_logged_number_changed_its_meaning_at_0_21_and_the_memory_did_not(self) -> None:
        before, after = capacity(vllm_version="0.20.2"), capacity(vllm_version="0.21.0")
        assert before.num_blocks == after.num_blocks
        assert before.tokens < after.tokens / 2

    def test_asynchronous_scheduling_doubles_what_is_in_flight_from_0_26(self) -> None:
        assert capacity(vllm_version="0.25.1", async_scheduling=True) == capacity(vllm_version="0.25.1")
        assert (
            capacity(vllm_version="0.26.0", async_scheduling=True).blocks_per_request
            == capacity(vllm_version="0.26.0", max_num_batched_tokens=16384).blocks_per_request
        )

    def test_one_block_is_held_back_at_start_from_0_29(self) -> None:
        needed = capacity(vllm_version="0.28.0").min_kv_bytes
        assert capacity(vllm_version="0.28.0", kv_bytes_per_device=needed).fits
        short = capacity(vllm_version="0.29.0", kv_bytes_per_device=needed)
        assert short.shortage_bytes == short.bytes_per_block

    @pytest.mark.parametrize(("version", "sliding"), [("0.24.0", 64), ("0.29.0", 32), ("0.30.0", 64)])
    def test_which_layers_block_size_rules(self, version: str, sliding: int) -> None:
        assert capacity(vllm_version=version, block_size=64).geometry.sliding_block == sliding


class TestGroups:
    """How layers share blocks, on layer counts that no Gemma 4 has (vLLM's own example: 12 sliding and 13 full)."""

    @pytest.mark.parametrize(
        ("sliding", "full", "layers", "groups"), [(12, 13, 13, (1, 1)), (20, 13, 13, (2, 1)), (13, 20, 13, (1, 2))]
    )
    def test_nearly_equal_counts_are_padded_instead_of_split(
        self, sliding: int, full: int, layers: int, groups: tuple[int, int]
    ) -> None:
        architecture = (
            catalog()
            .architectures["31b"]
            .model_copy(update={"sliding_layers_with_kv": sliding, "full_layers_with_kv": full})
        )
        geometry = gpu_geometry(
            architecture,
            tp=1,
            stored=stored_type("bfloat16", CUDA, 32),
            minor=32,
            block_size=None,
            max_num_batched_tokens=2048,
            async_scheduling=False,
        )
        assert (geometry.sliding_groups, geometry.full_groups) == groups
        assert geometry.bytes_per_block == layers * 2 * 16 * 256 * 2 * 16


class TestTpu:
    @pytest.mark.parametrize(
        ("size", "tp", "bf16", "fp8"),
        [
            ("e2b", 1, 18_432, 18_432),
            ("e2b", 4, 18_432, 18_432),
            ("e4b", 1, 57_344, 28_672),
            ("e4b", 4, 28_672, 28_672),
            ("12b", 1, 344_064, 180_224),
            ("12b", 4, 98_304, 57_344),
            ("12b", 8, 57_344, 57_344),
            ("26b-a4b", 1, 225_280, 112_640),
            ("26b-a4b", 4, 61_440, 35_840),
            ("31b", 1, 901_120, 450_560),
            ("31b", 4, 225_280, 122_880),
            ("31b", 8, 122_880, 71_680),
        ],
    )
    def test_bytes_of_a_token_on_a_chip(self, size: str, tp: int, bf16: int, fp8: int) -> None:
        for dtype, expected in (("auto", bf16), ("fp8", fp8)):
            answer = capacity(size, backend="tpu", tp=tp, kv_cache_dtype=dtype, block_size=32)
            assert answer.bytes_per_block == 32 * expected

    @pytest.mark.parametrize(
        ("max_model_len", "page"), [(8192, 256), (8193, 32), (16384, 32), (32768, 64), (65536, 128), (2048, 128)]
    )
    def test_pages_grow_with_the_context(self, max_model_len: int, page: int) -> None:
        assert tpu_page_size(max_model_len) == page

    def test_an_explicit_block_size_is_kept(self) -> None:
        assert capacity(backend="tpu", block_size=128).geometry.full_block == 128

    def test_more_sequences_make_larger_pages(self) -> None:
        assert capacity(backend="tpu", max_num_seqs=1024).geometry.full_block == 256

    def test_batch_and_scheduling_do_not_matter(self) -> None:
        assert capacity(backend="tpu") == capacity(backend="tpu", max_num_batched_tokens=512, async_scheduling=True)

    @given(st.integers(0, 20 * GIB), st.integers(1, 2048), st.integers(1, 262_144))
    @example(15_000 * 901_120, 300, 1)  # pages change at lengths that are no powers of two
    def test_the_largest_context_fits_and_none_beyond(self, kv_bytes: int, seqs: int, max_model_len: int) -> None:
        on_chip: dict[str, Any] = {"backend": "tpu", "kv_bytes_per_device": kv_bytes, "max_num_seqs": seqs}
        answer = capacity(**on_chip, max_model_len=max_model_len)
        largest = answer.largest_max_model_len
        assert largest == 0 or capacity(**on_chip, max_model_len=largest).fits
        assert largest >= max_model_len or not answer.fits
        assert largest == 262_144 or not capacity(**on_chip, max_model_len=largest + 1).fits


class TestDecodingRequests:
    @pytest.mark.parametrize(
        ("size", "mib"), [("e2b", 6.4), ("e4b", 21.3), ("12b", 325), ("26b-a4b", 203), ("31b", 813)]
    )
    def test_the_sliding_part_of_a_request_is_constant(self, size: str, mib: float) -> None:
        answer = capacity(size)
        full = answer.geometry.full_groups * -(-8192 // answer.geometry.full_block)
        sliding = (answer.geometry.held_blocks(8192) - full) * answer.bytes_per_block
        assert sliding / 2**20 == pytest.approx(mib, rel=0.01)

    def test_a_decoding_request_holds_less_than_its_admission(self) -> None:
        answer = capacity()
        assert answer.requests_held(32768) > answer.concurrency

    def test_one_block_is_never_handed_out(self) -> None:
        size = capacity().geometry.held_blocks(4096) * capacity().bytes_per_block
        assert capacity(kv_bytes_per_device=2 * size).requests_held(4096) == 1
        assert capacity(kv_bytes_per_device=2 * size + capacity().bytes_per_block).requests_held(4096) == 2

    def test_an_empty_cache_holds_none(self) -> None:
        assert capacity(kv_bytes_per_device=0).requests_held(1) == 0
        assert capacity(kv_bytes_per_device=-1).num_blocks == 0


gpu_configurations = st.fixed_dictionaries(
    {
        "size": st.sampled_from(SIZES),
        "tp": st.sampled_from([1, 2, 4, 8]),
        "kv_bytes_per_device": st.integers(0, 100 * GIB),
        "kv_cache_dtype": st.sampled_from(["auto", "fp8"]),
        "max_model_len": st.integers(512, 131_072),
        "max_num_batched_tokens": st.integers(64, 16_384),
        "vllm_version": st.sampled_from(["0.19.0", "0.21.0", "0.26.0", "0.29.0", "0.32.0"]),
        "async_scheduling": st.booleans(),
        "block_size": st.sampled_from([None, 16, 32, 128]),
    }
)


class TestEveryGpuConfiguration:
    @given(gpu_configurations)
    def test_the_shortage_is_exactly_what_is_missing(self, configuration: dict[str, Any]) -> None:
        answer = capacity(**configuration)
        assert answer.fits == (answer.shortage_bytes == 0)
        enough = {**configuration, "kv_bytes_per_device": configuration["kv_bytes_per_device"] + answer.shortage_bytes}
        assert capacity(**enough).fits
        if not answer.fits:
            one_less = {**enough, "kv_bytes_per_device": enough["kv_bytes_per_device"] - 1}
            assert not capacity(**one_less).fits

    @given(gpu_configurations)
    def test_the_largest_context_is_the_largest(self, configuration: dict[str, Any]) -> None:
        largest = capacity(**configuration).largest_max_model_len
        if largest:
            assert capacity(**{**configuration, "max_model_len": largest}).fits
        if largest < 131_072:
            assert not capacity(**{**configuration, "max_model_len": largest + 1}).fits

    @given(gpu_configurations, st.integers(1, 10 * GIB))
    def test_more_memory_never_holds_less(self, configuration: dict[str, Any], more: int) -> None:
        larger = {**configuration, "kv_bytes_per_device": configuration["kv_bytes_per_device"] + more}
        less, enough = capacity(**configuration), capacity(**larger)
        assert enough.tokens >= less.tokens
        assert enough.largest_max_model_len >= less.largest_max_model_len
        assert enough.fits or not less.fits

    @given(gpu_configurations, st.integers(1, 65_536))
    def test_more_context_never_needs_less(self, configuration: dict[str, Any], more: int) -> None:
        longer = {**configuration, "max_model_len": configuration["max_model_len"] + more}
        assert capacity(**longer).min_kv_bytes >= capacity(**configuration).min_kv_bytes

    @given(gpu_configurations)
    def test_fp8_never_holds_less_than_bf16(self, configuration: dict[str, Any]) -> None:
        half = capacity(**{**configuration, "kv_cache_dtype": "fp8"})
        whole = capacity(**{**configuration, "kv_cache_dtype": "bfloat16"})
        assert half.bytes_per_block * 2 == whole.bytes_per_block
        assert half.tokens >= whole.tokens

    @given(gpu_configurations)
    def test_more_devices_never_hold_less_on_each(self, configuration: dict[str, Any]) -> None:
        alone = capacity(**{**configuration, "tp": 1})
        assert capacity(**{**configuration, "tp": 8}).bytes_per_block <= alone.bytes_per_block


class TestInput:
    def test_a_hub_id_serves_as_well_in_any_case(self) -> None:
        arguments: dict[str, Any] = {
            "backend": "gpu",
            "tp": 1,
            "kv_bytes_per_device": GIB,
            "kv_cache_dtype": "auto",
            "max_model_len": 8192,
            "max_num_batched_tokens": 2048,
            "vllm_version": "0.32.0",
            "async_scheduling": True,
        }
        by_id = kv_capacity("gemma-4-12b-it-qat-w4a16", **arguments)
        assert kv_capacity("google/gemma-4-12B-it-qat-w4a16-ct", **arguments) == by_id
        assert kv_capacity("GOOGLE/GEMMA-4-12B-IT", **arguments) == by_id

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                {"size": "31bb"},
                "model: there is no model 'gemma-4-31bb-it' in the catalog. Did you mean gemma-4-31b-it?",
            ),
            ({"tp": 3}, "Use one of 1, 2, 4, 8, 16, 32."),
            ({"size": "e2b", "tp": 16}, "Use one of 1, 2, 4, 8."),
            ({"kv_cache_dtype": "fp9"}, "'fp9' is not a KV cache type that Gemma 4 can use on gpu with vLLM 0.32."),
            ({"kv_cache_dtype": "fp8_per_token_head", "vllm_version": "0.23.0"}, "Use one of auto, bfloat16, "),
            ({"kv_cache_dtype": "int8_per_token_head", "backend": "tpu"}, "can use on tpu with vLLM 0.32."),
            ({"vllm_version": "nightly"}, "'nightly' is not a version of vLLM. Write it like 0.32.0 or 0.26.1rc1."),
            ({"backend": "cpu"}, "'cpu' is not a backend. Use gpu or tpu."),
            ({"max_model_len": 0}, "serving.maxModelLen: 0 is too small: at least 1."),
            ({"block_size": -16}, "serving.blockSize: -16 is too small: at least 1."),
        ],
    )
    def test_what_makes_no_sense_is_one_clean_error(self, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(SettingsError) as caught:
            capacity(**changes)
        assert message in str(caught.value)

    def test_all_faults_are_told_at_once(self) -> None:
        with pytest.raises(SettingsError) as caught:
            capacity(max_model_len=0, max_num_batched_tokens=-1)
        assert len(caught.value.faults) == 2
