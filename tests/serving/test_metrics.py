"""Reading vLLM's /metrics."""

from __future__ import annotations

import math

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

    def test_what_is_no_sample_is_passed_over(self) -> None:
        assert Metrics.parse("# TYPE a gauge\n\n<html>\na b c\nno-name 1\na{x=1 2\n").samples == ()


class TestFigures:
    def test_a_total_sums_over_the_labels_that_were_not_given(self) -> None:
        metrics = Metrics.parse(LIVE)
        assert metrics.total("vllm:request_success_total") == 7
        assert metrics.total("vllm:request_success_total", finished_reason="stop") == 3
        assert metrics.total("vllm:gpu_cache_usage_perc") is None

    def test_counters_leave_out_the_times_of_their_creation(self) -> None:
        assert Metrics.parse(LIVE).counters() == {"vllm:prompt_tokens_total": 139, "vllm:request_success_total": 7}

    def test_the_cache_size_is_what_the_server_says_and_not_blocks_times_their_size(self) -> None:
        config = Metrics.parse(LIVE).cache_config()
        assert config is not None
        assert (config.kv_tokens, config.num_gpu_blocks, config.block_size) == (30_615, 1024, 128)

    def test_a_server_that_does_not_say_its_cache_size(self) -> None:
        assert Metrics.parse("vllm:other 1\n").cache_config() is None
        config = Metrics.parse('vllm:cache_config_info{num_gpu_blocks="None"} 1.0').cache_config()
        assert config is not None
        assert (config.kv_tokens, config.num_gpu_blocks) == (None, None)
