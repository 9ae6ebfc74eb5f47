"""What a server's log and its labels say of its memory. Lines as vLLM 0.32 wrote them on a GPU and on a CPU."""

from __future__ import annotations

import pytest

from infra.serving.kv_layout import KvLayout
from infra.serving.memory_log import LoggedMemory, logged_memory
from infra.serving.metrics import Metrics

# Forms of vllm/v1/worker/gpu_model_runner.py, gpu_worker.py and vllm/v1/core/kv_cache_utils.py at 0.32.0.
START = (
    "(EngineCore pid=112) INFO 11-20 10:00:01 [gpu_model_runner.py:5149] Model loading took 7.62 GiB memory and 21.9 seconds",
    "(EngineCore pid=112) INFO 11-20 10:00:41 [gpu_worker.py:759] Available KV cache memory: 10.87 GiB",
    "(EngineCore pid=112) INFO 11-20 10:00:41 [kv_cache_utils.py:853] kv cache group sizes (32, 32, 16)",
    "(EngineCore pid=112) INFO 11-20 10:00:58 [gpu_model_runner.py:6581] Graph capturing finished in 12 secs, took 0.55 GiB",
)


class TestTheLog:
    def test_says_weights_cache_graphs_and_groups(self) -> None:
        assert logged_memory(START) == LoggedMemory(7.62, 10.87, 0.55, (32, 32, 16))

    def test_of_several_workers_the_fullest_counts(self) -> None:
        other = START[0].replace("7.62", "7.80")
        assert logged_memory([START[0], other, *START[1:]]).weights_gib == 7.80

    def test_of_several_starts_the_last_one_counts(self) -> None:
        again = START[0].replace("7.62", "6.10")
        assert logged_memory([*START, again]) == LoggedMemory(weights_gib=6.10)

    def test_other_lines_say_nothing(self) -> None:
        assert logged_memory(["INFO Application startup complete.", "took 3 GiB"]).empty


class TestTheLabels:
    def test_are_read_as_numbers(self) -> None:
        layout = KvLayout.of(
            Metrics.parse(
                'vllm:cache_config_info{block_size="128",cache_dtype="fp8",enable_prefix_caching="False",'
                'gpu_memory_utilization="0.92",kv_cache_max_concurrency="5.885057471264368",kv_cache_memory_bytes="268435456",'
                'kv_cache_size_tokens="24105",num_gpu_blocks="512"} 1.0'
            )
        )
        assert layout == KvLayout(24_105, 512, 128, "fp8", 5.885057471264368, 0.92, 268_435_456, False)

    @pytest.mark.parametrize("text", ["", 'vllm:cache_config_info{num_gpu_blocks="None",block_size=""} 1.0'])
    def test_that_are_missing_or_open_are_none(self, text: str) -> None:
        assert KvLayout.of(Metrics.parse(text)) == KvLayout(None, None, None, "", None, None, None, None)
