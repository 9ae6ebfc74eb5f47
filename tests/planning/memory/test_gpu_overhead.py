"""What vLLM sets aside on a GPU at start-up: published boots, what each version subtracts, and what must grow with what."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.catalog import GIB
from infra.planning.memory.gpu_overhead import (
    cold_start_bytes,
    gpu_overhead,
    graph_sizes,
    largest_table_bytes,
    start_up_of,
)
from infra.planning.memory.kv_blocks import NEWEST, OLDEST
from infra.planning.server.server import Server
from tests.planning.memory.test_budget import shape

# vLLM 0.30.0 on L4 with 256 sequences and 2,048 batched tokens unless said otherwise: overhead in GiB, as what is left of
# the share of the device after the logged weights and the logged KV cache.
PUBLISHED = [
    ("E2B", shape("e2b", "l4", 8192, 0.9, vllm_version="0.30.0"), 1.185),
    ("E2B, 8 sequences", shape("e2b", "l4", 16384, 0.9, vllm_version="0.28.0", max_num_seqs=8), 0.386),
    ("E4B", shape("e4b", "l4", 8192, 0.9, vllm_version="0.30.0"), 1.187),
    ("31B, 0.26.0", shape("31b", "b300", 16384, 0.92, vllm_version="0.26.0"), 4.85),
    ("E2B text", shape("e2b-qat", "l4", 8192, 0.9, vllm_version="0.30.0", text_only=True), 5.494),
    ("26B text", shape("26b", "l4", 8192, 0.9, vllm_version="0.30.0", text_only=True), 2.304),
    ("26B text, 16", shape("26b", "l4", 2048, 0.92, vllm_version="0.30.0", text_only=True, max_num_seqs=16), 1.603),
]


@pytest.mark.parametrize(("server", "gib"), [row[1:] for row in PUBLISHED], ids=[row[0] for row in PUBLISHED])
def test_a_published_start_lies_in_the_band(server: Server, gib: float) -> None:
    band = gpu_overhead(server)
    assert band.low <= gib * GIB <= band.high


def on(version: str, **changes: object) -> Server:
    return replace(shape("31b", "g4-1", 8192, 0.9), vllm_version=version, **changes)  # type: ignore[arg-type]


class TestByVersion:
    def test_the_newer_runner_serves_dense_models_before_mixtures(self) -> None:
        assert [start_up_of(on(v)).new_runner for v in ("0.24.0", "0.25.0", "0.32.0")] == [False, True, True]
        mixture = shape("26b", "g4-1", 8192, 0.9)
        runners = [start_up_of(replace(mixture, vllm_version=v)).new_runner for v in ("0.25.0", "0.28.0", "0.29.0")]
        assert runners == [False, False, True]

    def test_ngram_drafts_keep_the_older_runner_for_longer(self) -> None:
        drafted = [start_up_of(on(v, speculation="ngram")).new_runner for v in ("0.31.0", "0.32.0")]
        assert drafted == [False, True]

    def test_graphs_are_subtracted_but_in_the_first_versions_of_the_newer_runner(self) -> None:
        versions = ("0.19.0", "0.21.0", "0.24.0", "0.25.0", "0.28.0", "0.29.0", "0.33.0")
        counted = [start_up_of(on(version)).counts_graphs for version in versions]
        assert counted == [False, True, True, False, False, True, True]
        assert not start_up_of(on("0.33.0", enforce_eager=True)).counts_graphs

    def test_a_version_in_between_may_still_run_the_older_runner(self) -> None:
        # 31B with 0.26.0 on B300 logged 3.9 GiB of activation and 0.70 of graphs
        band = gpu_overhead(on("0.26.0"))
        assert band.high >= gpu_overhead(on("0.24.0")).mid > 1.5 * band.mid

    def test_buffers_count_since_free_memory_is_compared(self) -> None:
        before, after = gpu_overhead(on("0.26.0", text_only=True)).mid, gpu_overhead(on("0.27.0", text_only=True)).mid
        assert after - before == pytest.approx(1024 * (4 + 2 / 8) * 262_144)

    def test_the_newest_samples_once_more(self) -> None:
        assert gpu_overhead(on("0.33.0")).mid > gpu_overhead(on("0.32.0")).mid


class TestGraphs:
    def test_sizes_follow_the_default_list(self) -> None:
        # 1, 2, 4, then eights to 256 and sixteens to 512; whole-model graphs up to max_num_seqs
        assert graph_sizes(on("0.32.0", max_num_seqs=4)) == 4 + 3
        assert graph_sizes(on("0.32.0", max_num_seqs=16)) == 7 + 5
        assert graph_sizes(on("0.32.0", max_num_seqs=256)) == 51 + 35
        assert graph_sizes(on("0.32.0", max_num_seqs=1024)) == 51 + 51


class TestTextOnly:
    TEXT = shape("e2b", "l4", 8192, 0.9, text_only=True)

    def test_a_cold_start_counts_the_largest_table_once_more(self) -> None:
        spared = gpu_overhead(self.TEXT).mid - gpu_overhead(replace(self.TEXT, compile_cache_warm=True)).mid
        assert spared == cold_start_bytes(self.TEXT)
        assert largest_table_bytes(self.TEXT) == 262_144 * 35 * 256 * 2
        assert spared == pytest.approx(largest_table_bytes(self.TEXT), rel=0.03)

    def test_with_images_or_without_a_compiler_there_is_nothing_to_count(self) -> None:
        assert cold_start_bytes(replace(self.TEXT, text_only=False)) == 0
        assert cold_start_bytes(replace(self.TEXT, enforce_eager=True)) == 0

    def test_devices_share_the_table(self) -> None:
        alone, shared = shape("31b", "g4-1", 8192, 0.9, text_only=True), shape("31b", "g4-2", 8192, 0.9, text_only=True)
        assert largest_table_bytes(shared) == largest_table_bytes(alone) / 2


servers = st.builds(
    shape,
    st.sampled_from(["e2b", "e4b-qat", "12b", "26b", "31b"]),
    st.sampled_from(["l4", "rtx-pro-6000", "g4-2"]),
    st.just(8192),
    st.just(0.9),
    vllm_version=st.integers(OLDEST, NEWEST).map(lambda minor: f"0.{minor}.0"),
    max_num_seqs=st.integers(1, 1024),
    max_num_batched_tokens=st.integers(512, 16_384),
    enforce_eager=st.booleans(),
    text_only=st.booleans(),
)


@given(servers, st.integers(1, 512))
def test_more_sequences_never_take_less(server: Server, more: int) -> None:
    larger = replace(server, max_num_seqs=server.max_num_seqs + more)
    assert gpu_overhead(larger).mid >= gpu_overhead(server).mid * (1 - 1e-12)


@given(servers, st.integers(1, 8192))
def test_a_larger_batch_never_takes_less(server: Server, more: int) -> None:
    larger = replace(server, max_num_batched_tokens=server.max_num_batched_tokens + more)
    assert gpu_overhead(larger).mid >= gpu_overhead(server).mid * (1 - 1e-12)


@given(servers)
def test_a_warm_start_never_takes_more(server: Server) -> None:
    assert gpu_overhead(replace(server, compile_cache_warm=True)).mid <= gpu_overhead(server).mid * (1 + 1e-12)
