"""The tensors of a checkpoint sorted as memory and speed need them: by the names that Gemma 4's own checkpoints have."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from infra.catalog import BF16_BYTES, CheckpointSizes
from infra.errors import Gemma4Error
from infra.ops.pinning.configuration import Configuration
from infra.ops.pinning.safetensors_header import BITS, Tensor

_KINDS = (
    ("vision", r"(^|\.)(vision_tower|embed_vision|vision_embedder|multi_modal_projector)\."),
    ("audio", r"(^|\.)(audio_tower|embed_audio)\."),
    ("lm_head", r"(^|\.)lm_head\."),
    ("per_layer_embedding", r"(^|\.)embed_tokens_per_layer\."),
    ("embedding", r"(^|\.)embed_tokens\."),
    ("per_layer_linears", r"(^|\.)(per_layer_model_projection|per_layer_input_gate|per_layer_projection)\."),
    ("router", r"\.router\."),
    ("experts", r"\.experts\."),
    ("attention", r"\.self_attn\.(q|k|v|o|qkv)_proj\."),
    ("mlp", r"\.mlp\.(gate|up|down|gate_up)_proj\."),
    ("norms", r"(norm\.(weight|bias)|\.layer_scalar|\.self_attn\.[kv]_scale|\.[kv]_cache_scale)$"),
)
"""Kind and the pattern of its tensors' names; the first that is found counts."""
_SCALES = re.compile(r"\.(\w*scales?(_2|_inv)?|\w*zero_point|qzeros|weight_shape|g_idx)$")
_PROJECTION = re.compile(r"\.(\d+)\.self_attn\.([kv])_(?:proj|norm)\.")
_MOST_UNKNOWN = 0.005
"""Share of the bytes that may have names of no kind: they count as norms, which are kept as they are."""


def sort_tensors(name: str, tensors: Iterable[Tensor], configuration: Configuration) -> CheckpointSizes:
    """Return the sizes of the tensors of checkpoint `name` by kind. Raises Gemma4Error where too many are of none."""
    sizes, unknown = Counter[str](), Counter[str]()
    keys, values = Counter[int](), set[int]()
    largest = 0
    for tensor in tensors:
        size = _served_bytes(tensor)
        largest = max(largest, tensor.size_bytes)
        projection = _PROJECTION.search(tensor.name)
        kind = next((kind for kind, pattern in _KINDS if re.search(pattern, tensor.name)), None)
        if kind not in ("vision", "audio") and projection is not None:
            layer = int(projection[1])
            if layer in configuration.shared_layers:
                kind = "shared_kv"
            elif kind == "attention" and projection[2] == "k":
                keys[layer] += size
            elif kind == "attention":
                values.add(layer)
        if kind is None:
            unknown[tensor.name] += size
        sizes[kind or "norms"] += size
        if _SCALES.search(tensor.name):
            sizes["scales"] += size
    _refuse_unknown(name, unknown, sum(sizes.values()) - sizes["scales"])
    sizes["duplicated_value"] = sum(size for layer, size in keys.items() if layer not in values)
    for kind in ("embedding", "attention", "mlp"):
        if not sizes[kind]:
            raise Gemma4Error(f"{name} holds no tensor of its {kind}: files are missing. It was not pinned.")
    return CheckpointSizes(**sizes, lm_head_is_tied=configuration.ties_embeddings, largest_tensor=largest)


def _served_bytes(tensor: Tensor) -> int:
    """Return the bytes that are kept of a tensor: matrices of a wider float type are made bf16 while loading."""
    if tensor.dtype in ("F32", "F64") and len(tensor.shape) > 1 and not _SCALES.search(tensor.name):
        return tensor.size_bytes * 8 * BF16_BYTES // BITS[tensor.dtype]
    return tensor.size_bytes


def _refuse_unknown(name: str, unknown: Counter[str], total: int) -> None:
    if sum(unknown.values()) <= _MOST_UNKNOWN * total:
        return
    largest = ", ".join(tensor for tensor, _ in unknown.most_common(3))
    raise Gemma4Error(
        f"{name} holds tensors whose names no Gemma 4 has, such as {largest}: vLLM would not load them, and how much memory it "
        "takes is not known. It was not pinned. Is it a LoRA adapter, or another kind of model?"
    )
