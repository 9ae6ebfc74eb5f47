"""Where a device's memory goes, and what is left of it for the KV cache, with the error of each.

`footprint.py` says what a server takes, `kv_cache.py` what the rest holds, `verdict.py` whether that is enough.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, replace

from infra.catalog import GIB
from infra.planning.memory.adapter_memory import adapter_bytes, adapters_in_host_memory
from infra.planning.memory.footprint import (
    assistant_bytes,
    counted_on_gpu,
    error_origin,
    host_memory,
    loaded_weights,
    loading_extra_bytes,
    offloadable_bytes,
    tpu_programs,
)
from infra.planning.memory.gpu_overhead import gpu_overhead
from infra.planning.memory.kv_cache import KvCapacity, kv_capacity
from infra.planning.server.server import Server
from infra.planning.units import Band

DEVICE_MEMORY_ERROR = 0.002
"""Share by which a GPU's memory may be other than given: sizes are reported to a tenth of a GiB, and vary by driver."""


@dataclass(frozen=True)
class MemoryBudget:
    """One device's memory in bytes; bands run from the least to the most that the known errors allow."""

    device_bytes: float
    cap_bytes: float
    """What vLLM may plan with: device memory times utilization."""
    weights: Band
    """Resident on the device, without the assistant and without what is offloaded."""
    assistant_bytes: float
    """The MTP drafter; 0 without one."""
    adapter_bytes: float
    """The slots of LoRA adapters; 0 where none is served."""
    offloaded_bytes: float
    """Weights that stay in host memory."""
    overhead: Band
    """What vLLM sets aside at start-up: dry run, CUDA graphs, buffers; nothing inside the cap on TPU."""
    kv: Band
    """What is left for the KV cache; negative where the rest is over the cap already."""
    construction_peak: Band | None
    """The most that loading needs, whatever the utilization; None on TPU."""
    programs: Band | None
    """Compiled programs, outside the cap; None on GPU."""
    host: Band
    """Memory of the host: processes, offloaded weights, a staged checkpoint."""
    error_origin: str

    @property
    def outside_bytes(self) -> float:
        """Device memory outside the cap."""
        return self.device_bytes - self.cap_bytes

    @property
    def kv_limits(self) -> Band:
        """What verdicts reckon with: twice as far from the middle as `kv`, which is to hold four of five boots only."""
        return Band(2 * self.kv.low - self.kv.mid, self.kv.mid, 2 * self.kv.high - self.kv.mid)

    @property
    def kv_left(self) -> Band:
        """What is left for the KV cache where it is not less than nothing."""
        return Band(*(max(0.0, end) for end in (self.kv.low, self.kv.mid, self.kv.high)))

    @property
    def kv_bytes_per_device(self) -> int:
        """The likeliest size of the KV cache, never negative."""
        return max(0, int(self.kv.mid))


def device_budget(server: Server) -> MemoryBudget:
    """Return where the memory of each device of `server` goes."""
    device = server.accelerator.device_memory_gib * GIB
    cap = device * server.gpu_memory_utilization
    loaded = loaded_weights(server)
    offloaded = min(server.cpu_offload_gib * GIB, offloadable_bytes(server))
    weights = Band(*(max(0.0, end - offloaded) for end in (loaded.low, loaded.mid, loaded.high)))
    assistant, adapters = assistant_bytes(server), adapter_bytes(server)
    beside = assistant + adapters
    outside = server.implementation.programs_outside_share
    overhead = Band.exactly(0.0) if outside else gpu_overhead(server)
    unknown = 0.0 if outside else DEVICE_MEMORY_ERROR * cap
    taken = Band.independent_total([weights, overhead, Band(-unknown, 0.0, unknown)])
    return MemoryBudget(
        device_bytes=device,
        cap_bytes=cap,
        weights=weights,
        assistant_bytes=assistant,
        adapter_bytes=adapters,
        offloaded_bytes=offloaded,
        overhead=overhead,
        kv=Band(cap - beside - taken.high, cap - beside - taken.mid, cap - beside - taken.low),
        construction_peak=None if outside else _construction_peak(server, loaded, offloaded),
        programs=tpu_programs(server) if outside else None,
        host=Band.total([host_memory(server, offloaded), adapters_in_host_memory(server)]),
        error_origin=error_origin(server),
    )


def _construction_peak(server: Server, loaded: Band, offloaded: float) -> Band:
    """Return the most that loading needs. The output embedding is allocated before the weights are read, so that what vLLM
    logs beyond the count need not be there yet."""
    counted = loaded.low if server.logged_weights_gib is not None else min(counted_on_gpu(server), loaded.low)
    built = Band(*(max(0.0, end - offloaded) for end in (counted, counted, loaded.mid)))
    return Band.total([built, Band.exactly(loading_extra_bytes(server))])


def capacity_of(server: Server, kv_bytes: float) -> KvCapacity:
    """Return what `kv_bytes` bytes of KV cache a device hold under `server`."""
    return kv_capacity(
        server.model.id,
        backend=server.accelerator.device.value,
        tp=server.tensor_parallel,
        kv_bytes_per_device=max(0.0, kv_bytes),
        kv_cache_dtype=server.kv_cache_dtype,
        max_model_len=server.max_model_len,
        max_num_batched_tokens=server.max_num_batched_tokens,
        vllm_version=server.vllm_version,
        async_scheduling=server.async_scheduling,
        block_size=server.block_size,
        max_num_seqs=server.max_num_seqs,
    )


def largest_max_num_seqs(server: Server, tokens_per_request: int, *, limit: int = 4096) -> int:
    """Return how many requests of `tokens_per_request` tokens (prompt and answer) run at once, at most `limit`.

    By what decoding requests hold, not by what vLLM sets aside when it admits one; a larger batch costs activation
    and, on TPU, room for programs, which is counted in. 0 if not even one fits.
    """

    def too_many(seqs: int) -> bool:
        trial = replace(server, max_num_seqs=seqs)
        budget = device_budget(trial)
        if budget.programs is not None and budget.programs.mid > budget.outside_bytes:
            return True
        return capacity_of(trial, budget.kv.mid).requests_held(tokens_per_request) < seqs

    return bisect.bisect_left(range(1, limit + 1), True, key=too_many)


def smallest_cpu_offload_gib(server: Server, *, cautious: bool = False) -> float | None:
    """Return the least CPU offload, in steps of 0.5 GiB, that is predicted to load and to hold one full-length request.

    `cautious` asks for that at the unfavourable end of the band. None where offload cannot help: on TPU, or beyond
    the decoder's own weights.
    """
    bare = device_budget(replace(server, cpu_offload_gib=0.0))
    if bare.construction_peak is None:
        return None
    peak, left = bare.construction_peak.mid, bare.kv.mid
    if cautious:
        peak, left = bare.construction_peak.high, bare.kv_limits.low
    missing = max(0.0, peak - bare.device_bytes, capacity_of(server, 0).min_kv_bytes - left)
    offload = math.ceil(2 * missing / GIB) / 2
    return offload if offload * GIB <= offloadable_bytes(server) else None
