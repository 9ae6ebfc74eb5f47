"""Checkpoints of Gemma 4 as their makers lay them out: configuration, tensors by name, and safetensors files without weights.

A file is its header and the size that it claims: nobody reads the weights behind it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.catalog import Architecture
from infra.ops.pinning.safetensors_header import BITS

Shapes = dict[str, tuple[str, tuple[int, ...]]]
"""Type and shape of each tensor by its name."""
PLE = 256
"""Width of the per-layer embeddings of E2B and E4B."""


def configuration(a: Architecture, **changes: Any) -> dict[str, Any]:
    """The `config.json` of a bf16 checkpoint."""
    text = {
        "model_type": "gemma4_text",
        "hidden_size": a.hidden_size,
        "num_hidden_layers": a.layers,
        "num_attention_heads": a.attention_heads,
        "num_key_value_heads": a.kv_heads,
        "intermediate_size": a.intermediate_size,
        "num_kv_shared_layers": a.layers - a.sliding_layers_with_kv - a.full_layers_with_kv,
        "num_experts": a.experts.count if a.experts else None,
        "vocab_size": a.vocab_size,
        "tie_word_embeddings": True,
    }
    return {"model_type": "gemma4", "text_config": text, **changes}


def tensors(a: Architecture) -> Shapes:
    """Every tensor of a bf16 checkpoint, by the names of Google's; each tower is one tensor of its size."""
    p, prefix = a.parameters, "model.language_model."
    shapes: dict[str, tuple[int, ...]] = {f"{prefix}embed_tokens.weight": (a.vocab_size, a.hidden_size)}
    if p.per_layer_embedding:
        shapes[f"{prefix}embed_tokens_per_layer.weight"] = (a.vocab_size, a.layers * PLE)
        shapes[f"{prefix}per_layer_model_projection.weight"] = (a.layers * PLE, a.hidden_size)
    shared = a.layers - a.sliding_layers_with_kv - a.full_layers_with_kv
    every = a.layers // (a.layers - sum(1 for _ in _sliding(a)))
    for layer in range(a.layers):
        full = (layer + 1) % every == 0
        at = f"{prefix}layers.{layer}."
        heads = a.global_kv_heads if full else a.kv_heads
        size = a.global_head_dim if full else a.head_dim
        wide = 2 if a.double_wide_shared_mlp and layer >= a.layers - shared else 1
        shapes[f"{at}self_attn.q_proj.weight"] = (a.attention_heads * size, a.hidden_size)
        shapes[f"{at}self_attn.k_proj.weight"] = (heads * size, a.hidden_size)
        if not (a.key_equals_value and full):
            shapes[f"{at}self_attn.v_proj.weight"] = (heads * size, a.hidden_size)
        shapes[f"{at}self_attn.o_proj.weight"] = (a.hidden_size, a.attention_heads * size)
        for name in ("gate", "up"):
            shapes[f"{at}mlp.{name}_proj.weight"] = (wide * a.intermediate_size, a.hidden_size)
        shapes[f"{at}mlp.down_proj.weight"] = (a.hidden_size, wide * a.intermediate_size)
        if p.per_layer_embedding:
            shapes[f"{at}per_layer_input_gate.weight"] = (PLE, a.hidden_size)
            shapes[f"{at}per_layer_projection.weight"] = (a.hidden_size, PLE)
        if a.experts is not None:
            e = a.experts
            shapes[f"{at}experts.gate_up_proj"] = (e.count, 2 * e.intermediate_size, a.hidden_size)
            shapes[f"{at}experts.down_proj"] = (e.count, a.hidden_size, e.intermediate_size)
            shapes[f"{at}router.proj.weight"] = (e.count, a.hidden_size)
        shapes[f"{at}input_layernorm.weight"] = (a.hidden_size,)
        shapes[f"{at}layer_scalar"] = (1,)
    shapes[f"{prefix}norm.weight"] = (a.hidden_size,)
    shapes["model.vision_tower.encoder.weight"] = (p.vision,)
    if p.audio:
        shapes["model.embed_audio.embedding_projection.weight"] = (p.audio,)
    return {name: ("BF16", shape) for name, shape in shapes.items()}


def _sliding(a: Architecture) -> Iterator[int]:
    """The sliding layers: four of five in E2B, five of six in all others."""
    every = 5 if a.id == "e2b" else 6
    return (layer for layer in range(a.layers) if (layer + 1) % every)


LINEAR = re.compile(r"layers\.\d+\.(self_attn|mlp)\.\w+_proj\.weight$")


def quantised(shapes: Shapes, how: Callable[[str, tuple[int, ...]], Shapes], which: re.Pattern[str] = LINEAR) -> Shapes:
    """The same with the linear layers stored as `how` says."""
    changed: Shapes = {}
    for name, (dtype, shape) in shapes.items():
        changed.update(how(name.removesuffix(".weight"), shape) if which.search(name) else {name: (dtype, shape)})
    return changed


def fp8(name: str, shape: tuple[int, ...]) -> Shapes:
    """compressed-tensors, float-quantized: one scale a row."""
    return {f"{name}.weight": ("F8_E4M3", shape), f"{name}.weight_scale": ("BF16", (shape[0], 1))}


def packed(name: str, shape: tuple[int, ...]) -> Shapes:
    """compressed-tensors, pack-quantized: eight int4 in an I32, a scale for each group of 32."""
    rows, columns = shape
    return {
        f"{name}.weight_packed": ("I32", (rows, columns // 8)),
        f"{name}.weight_scale": ("BF16", (rows, columns // 32)),
        f"{name}.weight_shape": ("I64", (2,)),
    }


def awq(name: str, shape: tuple[int, ...]) -> Shapes:
    """AutoAWQ: int4 by columns, scales and zero points for each group of 128."""
    rows, columns = shape
    return {
        f"{name}.qweight": ("I32", (columns, rows // 8)),
        f"{name}.qzeros": ("I32", (columns // 128, rows // 8)),
        f"{name}.scales": ("F16", (columns // 128, rows)),
    }


def nvfp4(name: str, shape: tuple[int, ...]) -> Shapes:
    """ModelOpt: two fp4 in a byte, an fp8 scale for each group of 16, and scales of the whole."""
    rows, columns = shape
    return {
        f"{name}.weight": ("U8", (rows, columns // 2)),
        f"{name}.weight_scale": ("F8_E4M3", (rows, columns // 16)),
        f"{name}.weight_scale_2": ("F32", ()),
        f"{name}.input_scale": ("F32", ()),
    }


COMPRESSED: Mapping[str, Any] = {"quant_method": "compressed-tensors"}


def compressed(kind: str, bits: int, activations: Any = None) -> dict[str, Any]:
    """A `quantization_config` of compressed-tensors with one group."""
    group = {"targets": ["Linear"], "weights": {"type": kind, "num_bits": bits}, "input_activations": activations}
    return {**COMPRESSED, "config_groups": {"group_0": group}}


def size_of(dtype: str, shape: Iterable[int]) -> int:
    return math.prod(shape) * BITS[dtype] // 8


def header(shapes: Shapes) -> tuple[bytes, int]:
    """The header of a file with these tensors, and the size of the whole file."""
    at, rows = 0, dict[str, Any]()
    for name, (dtype, shape) in shapes.items():
        end = at + size_of(dtype, shape)
        rows[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps({"__metadata__": {"format": "pt"}, **rows}).encode()
    return len(text).to_bytes(8, "little") + text, 8 + len(text) + at


@dataclass
class FakeCheckpoint:
    """Files by name: the bytes that are there, and the size that is claimed."""

    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)

    @property
    def sizes(self) -> dict[str, int]:
        return {name: size for name, (_, size) in self.files.items()}

    def read(self, file: str, start: int, length: int) -> bytes:
        """As a source of `gemma4 pin` does; behind the header a file holds zeros."""
        content, size = self.files[file]
        return (content[start : start + length]).ljust(max(0, min(length, size - start)), b"\0")

    def put(self, name: str, document: Any) -> None:
        text = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.files[name] = (text, len(text))


def checkpoint(config: Mapping[str, Any], shapes: Shapes, shards: int = 1) -> FakeCheckpoint:
    """A checkpoint in one file, or in several with an index."""
    made = FakeCheckpoint()
    made.put("config.json", config)
    made.put("tokenizer.json", {})
    if shards == 1:
        made.files["model.safetensors"] = header(shapes)
        return made
    names = list(shapes)
    places = dict[str, str]()
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        held = {name: shapes[name] for name in names[number::shards]}
        made.files[file] = header(held)
        places |= dict.fromkeys(held, file)
    made.put("model.safetensors.index.json", {"metadata": {}, "weight_map": places})
    return made
