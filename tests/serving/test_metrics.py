"""Reading vLLM's /metrics."""

from __future__ import annotations

import math

import pytest

from infra.serving.metrics import Metrics

LIVE = """\
# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="gemma"} 139.0
vllm:prompt_tokens_created{engine="0",model_name="gemma"} 1.795261164e+09
vllm:request_success_total{engine="0",finished_reason="stop",model_name="gemma"} 3.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="gemma"} 4.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="gemma"} 7.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="128",cache_dtype="auto",engine="0",kv_cache_dtype_skip_layers="[]",\
kv_cache_size_tokens="30615",num_cpu_blocks="None",num_gpu_blocks="1024",sliding_window="None"} 1.0
process_open_fds 31.0
"""


class TestSamples:
    def test_labels_with_braces_commas_and_escapes_are_read(self) -> None:
        (sample,) = Metrics.parse('a:b{x="1}",y="a\\"b,\\\\n",z="two\\nlines"} 2.5 1234').samples
        assert (sample.name, sample.value) == ("a:b", 2.5)
        assert sample.labels == {"x": "1}", "y": 'a"b,\\n', "z": "two\nlines"}

    def test_special_numbers_are_numbers(self) -> None:
        low, nothing = Metrics.parse("a -Inf\nb NaN\n").samples
        assert low.value == -math.inf
        assert math.isnan(nothing.value)

    def test_what_is_not_a_sample_is_skipped(self) -> None:
        assert Metrics.parse("# TYPE a gauge\n\n<html>\na b c\nno-name 1\na{x=1 2\n").samples == ()


class TestTheCacheSize:
    def test_it_is_what_the_server_says_and_not_blocks_times_their_size(self) -> None:
        assert Metrics.parse(LIVE).kv_cache_tokens() == 30_615

    @pytest.mark.parametrize(
        "text",
        ["vllm:other 1\n", 'vllm:cache_config_info{num_gpu_blocks="8",kv_cache_size_tokens="None"} 1.0', ""],
        ids=["no such line", "not decided", "nothing"],
    )
    def test_it_is_none_where_the_server_does_not_say_it(self, text: str) -> None:
        assert Metrics.parse(text).kv_cache_tokens() is None
