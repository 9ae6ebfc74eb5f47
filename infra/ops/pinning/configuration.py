"""What a checkpoint's `config.json` says: which architecture of the catalog it is, and in which format its weights are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra.catalog import Architecture
from infra.errors import Gemma4Error

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Configuration:
    """What the sizes of a checkpoint depend on."""

    architecture: str
    """Catalog id."""
    weight_format: str
    """Catalog id."""
    shared_layers: range
    """Layers that use another layer's K and V."""
    ties_embeddings: bool
    """Whether the output embedding is the input's."""


def read_configuration(
    name: str, config: Json, architectures: Mapping[str, Architecture], *, side_file: Json | None = None
) -> Configuration:
    """Return what the configuration of checkpoint `name` says. `side_file` is ModelOpt's hf_quant_config.json, if there.

    Raises Gemma4Error where it is of none of `architectures`, or in a format that the catalog does not have.
    """
    text = config.get("text_config") or config
    if not isinstance(text, Mapping) or not str(config.get("model_type", "")).startswith("gemma4"):
        kind = config.get("model_type") or "without a model_type"
        raise Gemma4Error(f"{name} is no Gemma 4: its config.json says {kind}. It cannot be planned; name another one.")
    layers = text.get("num_hidden_layers")
    shared = text.get("num_kv_shared_layers") or 0
    if not isinstance(layers, int) or not isinstance(shared, int) or not 0 <= shared <= layers:
        raise Gemma4Error(f"{name}: its config.json does not say how many layers it has. It cannot be counted.")
    return Configuration(
        architecture=_architecture(name, text, architectures),
        weight_format=_format(name, config, text, side_file),
        shared_layers=range(layers - shared, layers),
        ties_embeddings=bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", True))),
    )


def _dimensions(architecture: Architecture) -> dict[str, int | None]:
    """Return what tells architectures apart, by the key of the configuration. The vocabulary may have been extended."""
    experts = architecture.experts
    return {
        "hidden_size": architecture.hidden_size,
        "num_hidden_layers": architecture.layers,
        "num_attention_heads": architecture.attention_heads,
        "num_key_value_heads": architecture.kv_heads,
        "intermediate_size": architecture.intermediate_size,
        "num_experts": None if experts is None else experts.count,
        "num_kv_shared_layers": architecture.layers
        - architecture.sliding_layers_with_kv
        - architecture.full_layers_with_kv,
    }


def _architecture(name: str, text: Json, architectures: Mapping[str, Architecture]) -> str:
    differences = {one.id: list(_differences(text, _dimensions(one))) for one in architectures.values()}
    nearest = min(differences, key=lambda one: len(differences[one]))
    if differences[nearest]:
        known = ", ".join(architectures)
        raise Gemma4Error(
            f"{name} has the dimensions of none of {known}; nearest is {nearest}, but {'; '.join(differences[nearest])}. "
            "Its memory and speed cannot be predicted, so it was not pinned."
        )
    return nearest


def _differences(text: Json, dimensions: Mapping[str, int | None]) -> Iterator[str]:
    for key, wanted in dimensions.items():
        found = text.get(key)
        if (found or 0) != (wanted or 0):
            yield f"{key} is {found!r} instead of {wanted}"


def _format(name: str, config: Json, text: Json, side_file: Json | None) -> str:
    quantization = config.get("quantization_config") or text.get("quantization_config")
    if quantization is None and side_file is not None:
        quantization = {"quant_method": "modelopt", **(side_file.get("quantization") or {})}
    if quantization is None:
        return "bf16"
    method = str(quantization.get("quant_method", "")).lower()
    found = None
    if method == "compressed-tensors":
        found = _compressed(quantization)
    elif method.startswith("modelopt"):
        found = {"NVFP4": "nvfp4", "FP8": "fp8"}.get(str(quantization.get("quant_algo", "")).upper())
    elif method == "fp8":
        found = "fp8"
    elif method in ("awq", "gptq") and quantization.get("bits", quantization.get("w_bit")) == 4:
        found = method
    if found is None:
        raise Gemma4Error(
            f"{name} is quantised by {method or 'an unnamed method'} in a way that the catalog does not know, so neither its "
            "devices nor its speed are known. It was not pinned. Known are bf16, FP8, NVFP4, AWQ and GPTQ in 4 bits, and int4 "
            "and int8 of compressed-tensors."
        )
    return found


def _compressed(quantization: Json) -> str | None:
    """Return the format of the first group of compressed-tensors; most checkpoints have one."""
    groups = quantization.get("config_groups")
    group = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = group.get("weights") if isinstance(group, Mapping) else None
    if not isinstance(weights, Mapping):
        return None
    activations = isinstance(group, Mapping) and group.get("input_activations") is not None
    kind = (weights.get("type"), weights.get("num_bits"), activations)
    formats: dict[tuple[Any, Any, bool], str] = {
        ("float", 8, True): "fp8",
        ("float", 8, False): "fp8",
        ("float", 4, True): "nvfp4",
        ("float", 4, False): "nvfp4",
        ("int", 4, False): "w4a16",
        ("int", 8, False): "w8a16",
        ("int", 8, True): "w8a8",
    }
    return formats.get(kind)
