"""Configurations near a server's own, to look for one that fits: a setting changed, another machine, another model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from infra.catalog import Accelerator, Model, catalog
from infra.planning.memory.budget import capacity_of, device_budget, smallest_cpu_offload_gib
from infra.planning.memory.kv_cache import tensor_parallel_fault
from infra.planning.server.hosting import UNKNOWN
from infra.planning.server.implementations import implementation_of
from infra.planning.server.server import Server

Neighbour = tuple[dict[str, object], Server]
"""Settings in the spelling of a stack file, and the server with them."""

_HIGHEST_UTILIZATION = 0.95
_SMALL_BATCH = 2048
_MOST_OFFLOAD = 0.75
"""Share of the device's memory; 14 GiB beside an L4 already mean about a token a second."""


def with_other_settings(server: Server) -> Iterator[Neighbour]:
    """Yield the server with one setting changed: a shorter context first, then what costs speed or accuracy."""
    longest = capacity_of(server, device_budget(server).kv_limits.low).largest_max_model_len
    length = longest - longest % (1024 if longest >= 1024 else 256)
    if 0 < length < server.max_model_len:
        yield {"serving.maxModelLen": length}, replace(server, max_model_len=length)
    if server.max_num_batched_tokens > _SMALL_BATCH and not server.implementation.programs_outside_share:
        small = replace(server, max_num_batched_tokens=_SMALL_BATCH)
        yield {"serving.maxNumBatchedTokens": _SMALL_BATCH}, small
    if server.kv_cache_dtype in ("auto", "bfloat16", "float16"):
        yield {"serving.kvCacheDtype": "fp8"}, replace(server, kv_cache_dtype="fp8")
    if server.implementation.programs_outside_share:
        return
    if server.adapter_slots > 1:
        yield {"serving.adapterSlots": 1}, replace(server, adapter_slots=1)
    if server.text_only:
        yield {"serving.modalities.image": 1}, replace(server, text_only=False)
    if server.gpu_memory_utilization < _HIGHEST_UTILIZATION:
        fuller = replace(server, gpu_memory_utilization=_HIGHEST_UTILIZATION)
        yield {"serving.gpuMemoryUtilization": _HIGHEST_UTILIZATION}, fuller
    offload = smallest_cpu_offload_gib(server, cautious=True)
    bearable = _MOST_OFFLOAD * server.accelerator.device_memory_gib
    if offload is not None and server.cpu_offload_gib < offload <= bearable:
        yield {"serving.cpuOffloadGb": offload}, replace(server, cpu_offload_gib=offload)


def on_other_accelerators(server: Server) -> Iterator[Neighbour]:
    """Yield the server on all devices of every other machine that can be deployed and that its heads divide over."""
    for accelerator in catalog().accelerators.values():
        offered = accelerator.deployable or not server.accelerator.deployable
        divides = tensor_parallel_fault(server.architecture, accelerator.devices) is None
        adapted = not server.adapters or implementation_of(accelerator).serves_adapters
        if offered and divides and adapted and accelerator.id != server.accelerator.id:
            moved = _moved(server, accelerator)
            yield {"accelerator": accelerator.id, **_changes(server, moved)}, moved


def with_other_models(server: Server) -> Iterator[Neighbour]:
    """Yield the server with the same model in its other format, then with smaller models, the largest first: none of those
    where there are adapters, which fit one architecture."""
    smaller = [row for row in catalog().models.values() if not row.third_party and _size(row) < _size(server.model)]
    smaller = [] if server.adapters else smaller
    for model in (*siblings(server.model), *sorted(smaller, key=_size, reverse=True)):
        quantization = "none" if catalog().weight_formats[model.weight_format].quantized else server.quantization
        changed = replace(server, model=model, quantization=quantization, cpu_offload_gib=0.0)
        fits_model = server.max_model_len <= changed.architecture.max_position
        if fits_model and not tensor_parallel_fault(changed.architecture, server.tensor_parallel):
            yield {"model": model.id, **_changes(server, changed)}, changed


def siblings(model: Model) -> Iterator[Model]:
    """Return Google's other checkpoints of the same architecture."""
    rows = (row for row in catalog().models.values() if not row.third_party)
    return (row for row in rows if row.architecture == model.architecture and row.hub_id != model.hub_id)


def _moved(server: Server, accelerator: Accelerator) -> Server:
    moved = replace(
        server,
        accelerator=accelerator,
        tensor_parallel=accelerator.devices,
        cpu_offload_gib=0.0,
        block_size=None,
        hosting=UNKNOWN,
    )
    can, most = implementation_of(accelerator), implementation_of(accelerator).safe_utilization
    unscaled = can.scaled_kv_types or not server.kv_cache_dtype.endswith("_per_token_head")
    return replace(
        moved,
        quantization=server.quantization if can.quantizes_while_loading else "none",
        kv_cache_dtype=server.kv_cache_dtype if unscaled else "auto",
        gpu_memory_utilization=min(most or 1.0, server.gpu_memory_utilization),
    )


def _changes(old: Server, new: Server) -> dict[str, object]:
    """Return the settings beside model and machine that a move changes."""
    named = {
        "serving.gpuMemoryUtilization": (old.gpu_memory_utilization, new.gpu_memory_utilization),
        "serving.quantization": (old.quantization, new.quantization),
        "serving.kvCacheDtype": (old.kv_cache_dtype, new.kv_cache_dtype),
        "serving.cpuOffloadGb": (old.cpu_offload_gib, new.cpu_offload_gib),
    }
    changes: dict[str, object] = {key: after for key, (before, after) in named.items() if after != before}
    if old.tensor_parallel_written and new.tensor_parallel != old.tensor_parallel:
        changes["serving.tensorParallelSize"] = new.tensor_parallel
    return changes


def _size(model: Model) -> int:
    return catalog().architectures[model.architecture].parameters.total
