"""The server as it will be started: every default resolved, and nothing else in the plan says otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from infra.catalog import Accelerator, Model, catalog
from infra.planning.plan import Plan
from infra.planning.planner import make_plan

FACTS = catalog()
L4 = {"model": "gemma-4-12b-it", "accelerator": "l4"}
RTX = {"model": "gemma-4-31b-it", "accelerator": "rtx-pro-6000"}
TPU = {"model": "gemma-4-31b-it", "accelerator": "v6e-4"}


def plan(base: dict[str, str], **typed: Any) -> Plan:
    """The plan of a pair with dotted settings; `__` stands for the dot."""
    return make_plan("test", base, {path.replace("__", "."): value for path, value in typed.items()})


def named(row: Accelerator | Model) -> str:
    return row.id


class TestWhatVllmWouldChoose:
    def test_batched_tokens_follow_the_size_of_the_card_and_the_largest_item(self) -> None:
        tokens = {
            name: one.server.max_num_batched_tokens
            for name, one in {
                "small": plan(L4),
                "small with videos": plan(L4, serving__modalities__video=1),
                "large": plan(RTX),
                "tpu": plan(TPU, serving__maxNumBatchedTokens=None),
                "said": plan(L4, serving__maxNumBatchedTokens=999),
            }.items()
        }
        assert tokens == {"small": 2048, "small with videos": 2496, "large": 8192, "tpu": 4096, "said": 999}

    def test_scheduling_is_asynchronous_on_gpu_unless_said_or_ngram_drafts(self) -> None:
        assert plan(L4).server.async_scheduling is True
        assert plan(L4, serving__asyncScheduling=False).server.async_scheduling is False
        assert plan(L4, serving__speculation__method="ngram").server.async_scheduling is False
        assert plan(TPU).server.async_scheduling is False

    def test_since_0_33_scheduling_is_asynchronous_under_ngram_drafts_too_on_gpu(self) -> None:
        ngram = {"serving__speculation__method": "ngram"}
        newer = {**ngram, "images__serving": "vllm/vllm-openai:v0.33.0"}
        assert plan(L4, **newer).server.async_scheduling is True
        assert plan(L4, **newer, serving__asyncScheduling=False).server.async_scheduling is False
        assert plan(L4, **newer).capacity.blocks_per_request > plan(L4, **ngram).capacity.blocks_per_request
        assert not plan(L4, **newer, serving__asyncScheduling=True).refusals
        assert plan(L4, **ngram, serving__asyncScheduling=True).refusals
        assert plan(TPU, **ngram, serving__asyncScheduling=True).refusals

    def test_the_version_of_an_image_reaches_the_arithmetic(self) -> None:
        one = plan(L4, images__serving="vllm/vllm-openai:v0.26.0")
        assert one.server == replace(plan(L4).server, vllm_version="0.26.0", image_version="0.26.0")

    @pytest.mark.parametrize(
        ("settings", "chosen"),
        [
            ({}, "runai_streamer"),
            ({"weights__source": "huggingface"}, "auto"),
            ({"serving__safetensorsLoadStrategy": "lazy"}, "auto"),
            ({"serving__safetensorsLoadStrategy": "lazy", "weights__access": "stream"}, "runai_streamer"),
            ({"serving__loadFormat": "safetensors"}, "safetensors"),
        ],
    )
    def test_weights_of_a_mounted_bucket_are_streamed_unless_somebody_chose_otherwise(
        self, settings: dict[str, str], chosen: str
    ) -> None:
        assert plan(L4, **settings).server.load_format == chosen


class TestOneValueDescribesIt:
    @pytest.mark.parametrize("accelerator", FACTS.accelerators.values(), ids=named)
    def test_the_estimates_are_of_the_server_that_the_command_starts(self, accelerator: Accelerator) -> None:
        one = plan({"model": "gemma-4-e2b-it", "accelerator": accelerator.id})
        assert one.speed_model.server is one.server
        words = dict(zip(one.command.argv, one.command.argv[1:], strict=False))
        assert int(words["--max-num-seqs"]) == one.server.max_num_seqs
        assert int(words["--max-model-len"]) == one.server.max_model_len
        assert int(words["--max-num-batched-tokens"]) == one.server.max_num_batched_tokens
        assert int(words["--tensor-parallel-size"]) == one.server.tensor_parallel
        assert words["--kv-cache-dtype"] == one.server.kv_cache_dtype
        assert words["--host"] == one.server.hosting.listens_on

    @pytest.mark.parametrize("model", FACTS.models.values(), ids=named)
    def test_its_geometry_and_format_are_those_of_its_model(self, model: Model) -> None:
        """Also after the model has been changed: neither is a field that could be forgotten."""
        changed = replace(plan(RTX).server, model=model)
        assert changed.architecture is FACTS.architecture_of(model.id)
        assert changed.weight_format is FACTS.weight_formats[model.weight_format]

    @pytest.mark.parametrize("model", FACTS.models.values(), ids=named)
    def test_fp8_narrows_what_is_not_quantised_already(self, model: Model) -> None:
        server, stored = replace(plan(RTX).server, model=model), FACTS.weight_formats[model.weight_format]
        linears = server.architecture.parameters.linear
        as_stored = replace(server, quantization="none").weights
        if model.sizes is None:
            assert as_stored.linear == stored.bytes_per_parameter * linears
        narrow = replace(server, quantization="fp8").weights
        assert narrow.linear == (as_stored.linear if stored.quantized else linears)
        assert narrow.total - narrow.linear == as_stored.total - as_stored.linear
