"""Checkpoints are counted from their headers alone: every architecture, every format, and files that are not what they say."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.catalog import BF16_BYTES, Architecture, catalog
from infra.errors import Gemma4Error
from infra.ops.pinning.checkpoint_sources import FolderSource
from infra.ops.pinning.count_checkpoint import CountedCheckpoint, count_checkpoint
from infra.ops.pinning.safetensors_header import FIRST_READ, read_header
from tests.fakes.checkpoints import (
    FakeCheckpoint,
    Shapes,
    awq,
    checkpoint,
    compressed,
    configuration,
    fp8,
    header,
    nvfp4,
    packed,
    quantised,
    tensors,
)

FACTS = catalog()
ARCHITECTURES = list(FACTS.architectures.values())
A12B = FACTS.architectures["12b"]
NAME = "acme/tuned"


def named(row: Architecture) -> str:
    return row.id


def counted(one: FakeCheckpoint) -> CountedCheckpoint:
    return count_checkpoint(NAME, one, FACTS.architectures)


def why_not(one: FakeCheckpoint) -> str:
    with pytest.raises(Gemma4Error) as refused:
        counted(one)
    return str(refused.value)


class TestBf16:
    @pytest.mark.parametrize("architecture", ARCHITECTURES, ids=named)
    @pytest.mark.parametrize("shards", [1, 3])
    def test_every_kind_is_as_large_as_the_catalog_counts_it(self, architecture: Architecture, shards: int) -> None:
        """The parameters of the catalog were counted on a build of each model: the names must lead to the same sums."""
        one = counted(checkpoint(configuration(architecture), tensors(architecture), shards))
        assert (one.architecture, one.weight_format, one.files) == (architecture.id, "bf16", shards)
        sizes, p = one.sizes, architecture.parameters
        kinds = (
            "attention",
            "mlp",
            "experts",
            "router",
            "per_layer_linears",
            "embedding",
            "per_layer_embedding",
            "vision",
        )
        for kind in (*kinds, "audio"):
            assert getattr(sizes, kind) == BF16_BYTES * getattr(p, kind), kind
        assert sizes.shared_kv == pytest.approx(architecture.unshared_kv_checkpoint_bytes, rel=0.001)  # without norms
        assert sizes.duplicated_value == architecture.duplicated_value_bytes
        assert sizes.largest_tensor == architecture.largest_tensor_bytes
        assert (sizes.lm_head, sizes.scales) == (0, 0)

    def test_the_size_is_that_of_the_files(self) -> None:
        one = checkpoint(configuration(A12B), tensors(A12B), 3)
        assert counted(one).checkpoint_bytes == sum(
            size for name, size in one.sizes.items() if "safetensors" in name and not name.endswith(".json")
        )

    def test_matrices_in_float32_are_served_as_bf16(self) -> None:
        wide = {name: ("F32", shape) for name, (_, shape) in tensors(A12B).items()}
        half, whole = (
            counted(checkpoint(configuration(A12B), tensors(A12B))),
            counted(checkpoint(configuration(A12B), wide)),
        )
        assert whole.sizes.linear == half.sizes.linear
        assert whole.checkpoint_bytes > 1.9 * half.checkpoint_bytes

    def test_an_output_embedding_of_its_own_counts_where_it_is_not_tied(self) -> None:
        shapes = tensors(A12B) | {"lm_head.weight": ("BF16", (A12B.vocab_size, A12B.hidden_size))}
        tied = counted(checkpoint(configuration(A12B), shapes)).sizes
        config = configuration(A12B)
        config["text_config"]["tie_word_embeddings"] = False
        untied = counted(checkpoint(config, shapes)).sizes
        assert tied.lm_head == untied.lm_head == tied.embedding
        assert (tied.lm_head_is_tied, untied.lm_head_is_tied) == (True, False)

    def test_a_text_only_repack_has_no_tower(self) -> None:
        shapes = {
            name.replace("language_model.", ""): row
            for name, row in tensors(A12B).items()
            if "vision" not in name and "audio" not in name
        }
        config = configuration(A12B)["text_config"]
        one = counted(checkpoint(config, shapes)).sizes
        assert (one.vision, one.audio) == (0, 0)
        assert one.attention == BF16_BYTES * A12B.parameters.attention


class TestFormats:
    CASES: tuple[tuple[str, Callable[[str, tuple[int, ...]], Shapes], dict[str, Any], float], ...] = (
        ("fp8", fp8, compressed("float", 8, {"dynamic": True}), 1.0),
        ("fp8", fp8, {"quant_method": "fp8"}, 1.0),
        ("w4a16", packed, compressed("int", 4), 0.5625),
        ("awq", awq, {"quant_method": "awq", "bits": 4}, 0.515625 + 0.00390625),
        ("nvfp4", nvfp4, {"quant_method": "modelopt", "quant_algo": "NVFP4"}, 0.5625),
        ("nvfp4", nvfp4, compressed("float", 4, {"dynamic": "local"}), 0.5625),
    )

    @pytest.mark.parametrize(("wanted", "how", "config", "bytes_each"), CASES)
    def test_are_told_apart_and_counted_with_their_scales(
        self, wanted: str, how: Callable[[str, tuple[int, ...]], Shapes], config: dict[str, Any], bytes_each: float
    ) -> None:
        shapes = quantised(tensors(A12B), how)
        one = counted(checkpoint(configuration(A12B, quantization_config=config), shapes, 2))
        assert one.weight_format == wanted
        p = A12B.parameters
        assert one.sizes.linear == pytest.approx(bytes_each * (p.attention + p.mlp), rel=0.002)
        assert 0 < one.sizes.scales < 0.3 * one.sizes.linear
        assert one.sizes.duplicated_value == pytest.approx(bytes_each / 2 * A12B.duplicated_value_bytes, rel=0.01)

    def test_the_side_file_of_modelopt_is_read(self) -> None:
        one = checkpoint(configuration(A12B), quantised(tensors(A12B), nvfp4))
        one.put("hf_quant_config.json", {"quantization": {"quant_algo": "NVFP4"}})
        assert counted(one).weight_format == "nvfp4"

    @pytest.mark.parametrize(
        "config",
        [
            {"quant_method": "bitsandbytes"},
            {"quant_method": "auto-round", "bits": 4},
            {"quant_method": "awq", "bits": 3},
            compressed("int", 2),
            {},
            {"config_groups": 1},
        ],
    )
    def test_what_the_catalog_does_not_know_is_refused(self, config: dict[str, Any]) -> None:
        config = config or {"quant_method": "compressed-tensors"}
        assert "is quantised by" in why_not(checkpoint(configuration(A12B, quantization_config=config), tensors(A12B)))


class TestWhatIsNoGemma4:
    def test_another_kind_of_model_is_named(self) -> None:
        assert "its config.json says llama" in why_not(checkpoint({"model_type": "llama"}, tensors(A12B)))

    def test_other_dimensions_are_named_with_the_nearest_architecture(self) -> None:
        config = configuration(A12B)
        config["text_config"]["num_hidden_layers"] = 40
        said = why_not(checkpoint(config, tensors(A12B)))
        assert "nearest is 12b, but num_hidden_layers is 40 instead of 48" in said

    def test_an_extended_vocabulary_is_the_same_architecture(self) -> None:
        config = configuration(A12B)
        config["text_config"]["vocab_size"] += 64
        assert counted(checkpoint(config, tensors(A12B))).architecture == "12b"

    def test_an_adapter_is_sent_to_its_own_setting(self) -> None:
        one = FakeCheckpoint()
        one.put("adapter_config.json", {})
        assert "serving.adapters" in why_not(one)

    def test_names_that_no_gemma_4_has_are_refused(self) -> None:
        shapes = tensors(A12B) | {"model.blocks.0.feed_forward.weight": ("BF16", (10_000, 20_000))}
        assert "whose names no Gemma 4 has" in why_not(checkpoint(configuration(A12B), shapes))


class TestFilesThatAreNotWhatTheySay:
    def one(self) -> FakeCheckpoint:
        return checkpoint(configuration(A12B), tensors(A12B), 2)

    SHARD = "model-00002-of-00002.safetensors"

    @pytest.mark.parametrize("length", [0, 1, 100_000_001, 2**63])
    def test_an_absurd_length_is_not_followed(self, length: int) -> None:
        one = self.one()
        content, size = one.files[self.SHARD]
        one.files[self.SHARD] = (length.to_bytes(8, "little") + content[8:], size)
        assert f"announce a header of {length:,} bytes" in why_not(one)

    def test_a_file_that_ends_in_its_header_is_cut_short(self) -> None:
        one = self.one()
        content, _ = one.files[self.SHARD]
        one.files[self.SHARD] = (content[:500], 500)
        assert "announce a header of" in why_not(one)

    def test_a_header_that_does_not_arrive_whole_is_cut_short(self) -> None:
        content, size = header(tensors(A12B))
        with pytest.raises(Gemma4Error, match="of its header could be read"):
            read_header("x", size, lambda start, length: content[start : start + length][:400])

    def test_weights_that_are_missing_behind_the_header_are_noticed(self) -> None:
        one = self.one()
        content, size = one.files[self.SHARD]
        one.files[self.SHARD] = (content, size - 1)
        assert "behind its header" in why_not(one)

    @pytest.mark.parametrize(
        "text",
        [
            b"not json",
            b"[]",
            b'{"a": 1}',
            b'{"a": {"dtype": "F9", "shape": [1], "data_offsets": [0, 1]}}',
            b'{"a": {"dtype": "I8", "shape": [2], "data_offsets": [0, 1]}}',
            b'{"a": {"dtype": "I8", "shape": [-1], "data_offsets": [1, 0]}}',
        ],
    )
    def test_a_header_of_another_form_is_refused(self, text: bytes) -> None:
        one = self.one()
        whole = len(text).to_bytes(8, "little") + text
        one.files[self.SHARD] = (whole, len(whole) + 1)
        assert "is not a whole safetensors file" in why_not(one)

    def test_a_shard_that_the_index_names_must_be_there(self) -> None:
        one = self.one()
        del one.files[self.SHARD]
        assert f"lacks {self.SHARD}" in why_not(one)

    def test_tensors_that_the_index_promises_must_be_there(self) -> None:
        one = self.one()
        one.files[self.SHARD] = header({"x.norm.weight": ("BF16", (1,))})
        assert "tensors that the index promises" in why_not(one)

    def test_a_tensor_may_not_be_there_twice(self) -> None:
        one = checkpoint(configuration(A12B), tensors(A12B))
        one.files["copy.safetensors"] = one.files["model.safetensors"]
        assert "tensors twice" in why_not(one)

    def test_a_configuration_that_is_no_object_is_refused(self) -> None:
        one = self.one()
        one.put("config.json", b"[1]")
        assert "is not a JSON object" in why_not(one)

    def test_a_long_header_is_read_in_two_requests_and_no_weights_are(self) -> None:
        shapes: Shapes = {
            f"model.layers.0.experts.{number}.down_proj.weight": ("BF16", (1000, 1000)) for number in range(9_000)
        }
        content, size = header(shapes)
        asked: list[tuple[int, int]] = []

        def read(start: int, length: int) -> bytes:
            asked.append((start, length))
            return content[start : start + length]

        assert len(read_header("x", size, read)) == 9_000
        assert asked == [(0, FIRST_READ), (FIRST_READ, len(content) - FIRST_READ)]


LAB = os.environ.get("GEMMA4_VLLM_LAB", "")


@pytest.mark.skipif(not (LAB and Path(LAB, "tiny-mm").is_dir()), reason="GEMMA4_VLLM_LAB names no laboratory")
@pytest.mark.parametrize("folder", ["tiny", "tiny-mm"])
def test_a_real_tiny_checkpoint_is_counted_to_the_byte(folder: str) -> None:
    """Written by transformers and safetensors themselves, with dimensions that the catalog does not have."""
    source = FolderSource(Path(LAB, folder))
    config = json.loads(Path(LAB, folder, "config.json").read_text("utf-8"))
    text = config.get("text_config", config)
    tiny = A12B.model_copy(
        update={
            "id": "tiny",
            "hidden_size": text["hidden_size"],
            "layers": text["num_hidden_layers"],
            "attention_heads": text["num_attention_heads"],
            "kv_heads": text["num_key_value_heads"],
            "intermediate_size": text["intermediate_size"],
            "sliding_layers_with_kv": text["num_hidden_layers"],
            "full_layers_with_kv": 0,
        }
    )
    one = count_checkpoint(folder, source, {"tiny": tiny})
    header_bytes = 8 + int.from_bytes(source.read("model.safetensors", 0, 8), "little")
    assert one.sizes.total == one.checkpoint_bytes - header_bytes
    assert bool(one.sizes.vision) == (folder == "tiny-mm")
