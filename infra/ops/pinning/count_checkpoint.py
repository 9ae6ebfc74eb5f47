"""From the files of a checkpoint to what a plan needs of it: architecture, format, and the size of every kind of tensor."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra.catalog import Architecture, CheckpointSizes
from infra.errors import Gemma4Error
from infra.ops.pinning.checkpoint_sources import CheckpointSource
from infra.ops.pinning.configuration import read_configuration
from infra.ops.pinning.safetensors_header import Tensor, read_header
from infra.ops.pinning.tensor_kinds import sort_tensors

_INDEX = "model.safetensors.index.json"
_MOST_JSON_BYTES = 64 * 1024**2
"""An index of 35,000 tensors has 4 MB."""


@dataclass(frozen=True)
class CountedCheckpoint:
    """A checkpoint whose headers were read."""

    architecture: str
    weight_format: str
    checkpoint_bytes: int
    files: int
    """How many safetensors files it has."""
    sizes: CheckpointSizes


def count_checkpoint(
    name: str, source: CheckpointSource, architectures: Mapping[str, Architecture]
) -> CountedCheckpoint:
    """Return what is known of checkpoint `name` from its configuration and its headers. Raises Gemma4Error."""
    there = source.sizes
    if "config.json" not in there:
        adapter = "adapter_config.json" in there
        fix = "A LoRA adapter goes under serving.adapters." if adapter else "Name the folder that config.json lies in."
        raise Gemma4Error(f"{name} has no config.json, so it is no checkpoint that vLLM serves. {fix}")
    quantization = _json(name, source, "hf_quant_config.json") if "hf_quant_config.json" in there else None
    configuration = read_configuration(name, _json(name, source, "config.json"), architectures, side_file=quantization)
    files = _files(name, source)
    tensors = [tensor for file, wanted in files.items() for tensor in _tensors(name, source, file, wanted)]
    twice = len(tensors) - len({tensor.name for tensor in tensors})
    if twice:
        raise Gemma4Error(
            f"{name} holds {twice} tensors twice, in different files. It was not pinned; upload it again."
        )
    return CountedCheckpoint(
        architecture=configuration.architecture,
        weight_format=configuration.weight_format,
        checkpoint_bytes=sum(there[file] for file in files),
        files=len(files),
        sizes=sort_tensors(name, tensors, configuration),
    )


def _files(name: str, source: CheckpointSource) -> dict[str, Collection[str]]:
    """Return the safetensors files that vLLM reads, with the tensors that the index promises of each; none without an index."""
    there = source.sizes
    if _INDEX not in there:
        files = sorted(file for file in there if file.endswith(".safetensors") and "/" not in file)
        if not files:
            raise Gemma4Error(
                f"{name} has no safetensors files, so its size cannot be read. Convert it, and pin it then."
            )
        return dict.fromkeys(files, ())
    promised: dict[str, set[str]] = {}
    places = _json(name, source, _INDEX).get("weight_map")
    for tensor, file in places.items() if isinstance(places, Mapping) else ():
        promised.setdefault(str(file), set()).add(tensor)
    if missing := sorted(promised.keys() - there.keys()):
        raise Gemma4Error(
            f"{name} lacks {', '.join(missing[:3])}, which its index names. Upload the files, and pin it then."
        )
    if not promised:
        raise Gemma4Error(f"{name}: {_INDEX} names no file. It was not pinned; upload it again.")
    return dict(sorted(promised.items()))


def _tensors(name: str, source: CheckpointSource, file: str, promised: Collection[str]) -> Iterator[Tensor]:
    def read(start: int, length: int) -> bytes:
        return source.read(file, start, length)

    found = read_header(f"{file} of {name}", source.sizes[file], read)
    if missing := set(promised) - {tensor.name for tensor in found}:
        fact = f"{file} of {name} lacks {len(missing)} tensors that the index promises, such as {min(missing)}."
        raise Gemma4Error(f"{fact} Upload it again.")
    yield from found


def _json(name: str, source: CheckpointSource, file: str) -> Mapping[str, Any]:
    size = source.sizes[file]
    if size > _MOST_JSON_BYTES:
        raise Gemma4Error(
            f"{file} of {name} has {size:,} bytes and was not read. It was not pinned; is it the right file?"
        )
    try:
        parsed = json.loads(source.read(file, 0, size))
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, Mapping):
        raise Gemma4Error(f"{file} of {name} is not a JSON object. It was not pinned; upload it again.")
    return parsed
