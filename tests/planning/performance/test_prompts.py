"""The time to the first token and the rate with new prompts, against published runs."""

from __future__ import annotations

from typing import Any

import pytest

from infra.catalog import catalog
from infra.planning.performance.decode import weight_bytes
from infra.planning.performance.prompts import first_token
from infra.planning.server.server import Server


def server(name: str, accelerator: str, *, batched: int = 8192, **served: Any) -> Server:
    device = catalog().accelerator(accelerator)
    return Server(
        model=catalog().model(name),
        accelerator=device,
        vllm_version="0.32.0",
        tensor_parallel=device.devices,
        max_model_len=16_384,
        max_num_seqs=256,
        max_num_batched_tokens=batched,
        gpu_memory_utilization=0.9,
        async_scheduling=True,
        **served,
    )


class TestPrompt:
    @pytest.mark.parametrize(
        ("name", "options", "measured"),
        [
            ("gemma-4-e2b-it", {}, 11_430),
            ("gemma-4-e4b-it", {}, 7_450),
            ("gemma-4-12b-it-qat-w4a16", {}, 2_920),
            ("gemma-4-26b-a4b-it", {"quantization": "fp8"}, 7_210),
        ],
    )
    def test_uncached_prompts_of_16k_on_an_l4(self, name: str, options: dict[str, Any], measured: float) -> None:
        ttft = first_token(server(name, "l4", batched=2048, **options), 16_384)
        assert 16_384 / ttft.mid == pytest.approx(measured, rel=0.13)
        assert ttft.low <= 16_384 / measured <= ttft.high

    def test_a_short_prompt_still_reads_the_weights_once(self) -> None:
        served = server("gemma-4-31b-it", "rtx-pro-6000")
        assert first_token(served, 8).mid >= weight_bytes(served, 8) / 1597e9

    def test_offloaded_weights_cross_the_host_link_once_a_chunk(self) -> None:
        def ttft(batched: int) -> float:
            name = "gemma-4-31b-it-qat-w4a16"
            return first_token(server(name, "l4", batched=batched, cpu_offload_gib=14), 8192).mid

        assert ttft(512) > 1.5 * ttft(8192)
        assert ttft(512) > 16 * 14 * 2**30 / 12.23e9
