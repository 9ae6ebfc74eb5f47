"""How many tokens vLLM's KV cache holds: the arithmetic of vLLM's own planner, without a fitted constant.

`kv_blocks.py` cuts the cache into blocks; here they are counted, and one request of max_model_len is checked as
vLLM checks it at start-up. Equal to the planners of vLLM 0.19 to 0.33 block for block (their answers stand in
tests/data/kv_planner.csv).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise

from infra.catalog import Architecture, Device, Model, catalog
from infra.errors import Fault, SettingsError
from infra.planning.memory.kv_blocks import (
    TPU_USUAL_SEQS,
    KvGeometry,
    StoredType,
    counted_minor,
    gpu_geometry,
    stored_type,
    tpu_geometry,
    tpu_page_size,
    tpu_pages_per_request,
)
from infra.planning.server.implementations import IMPLEMENTATIONS, Implementation
from infra.suggestions import similar


@dataclass(frozen=True)
class KvCapacity:
    """What one server's KV cache holds. Bytes are per device."""

    tokens: int
    """The "KV cache size" that this version of vLLM logs; comparable only at equal max_model_len and version."""
    concurrency: float
    """The "maximum concurrency" that vLLM logs: requests of max_model_len at admission, pessimistic for decoding."""
    num_blocks: int
    bytes_per_block: int
    blocks_per_request: int
    """Blocks set aside for one request of max_model_len."""
    geometry: KvGeometry
    fits: bool
    """Whether vLLM starts: one request of max_model_len must fit."""
    shortage_bytes: int
    """Bytes of cache that are missing for that; 0 if it fits."""
    min_kv_bytes: int
    """The smallest cache with which vLLM starts at this max_model_len."""
    longest: Callable[[], int] = field(repr=False, compare=False)
    """Searches `largest_max_model_len`, which few of many capacities are asked for."""

    @cached_property
    def largest_max_model_len(self) -> int:
        """Return the largest max_model_len with which vLLM starts on this cache, at most what the model was built for; 0:
        none."""
        return self.longest()

    def requests_held(self, tokens: int) -> int:
        """Return how many decoding requests of `tokens` tokens (prompt and answer so far) the cache holds at once."""
        usable = max(0, self.num_blocks - 1)  # one block is never handed out
        return usable // self.geometry.held_blocks(tokens)


def kv_capacity(
    model: str,
    *,
    backend: str,
    tp: int,
    kv_bytes_per_device: float,
    kv_cache_dtype: str,
    max_model_len: int,
    max_num_batched_tokens: int,
    vllm_version: str,
    async_scheduling: bool,
    block_size: int | None = None,
    max_num_seqs: int = TPU_USUAL_SEQS,
) -> KvCapacity:
    """Return what `kv_bytes_per_device` bytes of KV cache hold for `model` (a catalog id or a hub id).

    `backend` is gpu or tpu, `kv_cache_dtype` is spelled as vLLM spells it, `vllm_version` like 0.32.0 or 0.26.1rc1.
    `block_size` None is vLLM's own choice; on TPU it depends on `max_num_seqs`, which changes nothing else. A cache that
    is too small is reported, not raised. Raises SettingsError for an unknown model, version, backend or KV type, and for
    a `tp` that vLLM refuses for this model.
    """
    positive = {
        "serving.tensorParallelSize": tp,
        "serving.maxModelLen": max_model_len,
        "serving.maxNumBatchedTokens": max_num_batched_tokens,
        "serving.maxNumSeqs": max_num_seqs,
        "serving.blockSize": 1 if block_size is None else block_size,
    }
    faults = [Fault(key, f"{value} is too small: at least 1.") for key, value in positive.items() if value < 1]
    if faults:
        raise SettingsError(faults)
    if backend not in set(Device):
        raise SettingsError.of("accelerator", f"{backend!r} is not a backend.", fix="Use gpu or tpu.")
    architecture = catalog().architectures[find_model(model).architecture]
    if fault := tensor_parallel_fault(architecture, tp):
        raise SettingsError([fault])
    implementation, minor = IMPLEMENTATIONS[Device(backend)], counted_minor(vllm_version)
    planner = _KvPlanner(
        architecture=architecture,
        implementation=implementation,
        tp=tp,
        minor=minor,
        stored=stored_type(kv_cache_dtype, implementation, minor),
        max_num_batched_tokens=max_num_batched_tokens,
        async_scheduling=async_scheduling,
        block_size=block_size,
        max_num_seqs=max_num_seqs,
    )
    return planner.capacity(int(kv_bytes_per_device), max_model_len)


def find_model(model: str) -> Model:
    """Return the model of a catalog id or hub id, in any case. Raises SettingsError, which names the nearest."""
    by_name = {name.lower(): row for row in catalog().models.values() for name in (row.id, row.hub_id)}
    if row := by_name.get(model.strip().lower()):
        return row
    near = similar(model, by_name, most=1)
    hint = f"Did you mean {by_name[near[0]].id}?" if near else f"Known: {', '.join(catalog().models)}."
    raise SettingsError.of("model", f"there is no model {model!r} in the catalog.", fix=hint)


def tensor_parallel_fault(architecture: Architecture, tp: int, *, most: int = 32) -> Fault | None:
    """Return why `architecture` cannot be split over `tp` devices, None where it can. At most `most` are offered instead.

    Query heads must divide; KV heads must divide too, or be fewer and repeat evenly.
    """

    def divides(devices: int) -> bool:
        kv_heads = (architecture.kv_heads, architecture.global_kv_heads)
        even = all(heads % devices == 0 or devices % heads == 0 for heads in kv_heads)
        return architecture.attention_heads % devices == 0 and even

    if divides(tp):
        return None
    able = [str(devices) for devices in (1, 2, 4, 8, 16, 32) if devices <= most and divides(devices)]
    offered = f"one of {', '.join(able)}" if len(able) > 1 else f"{able[0]}, or leave it out"
    return Fault(
        "serving.tensorParallelSize",
        f"{tp} devices cannot share the attention heads of this model evenly.",
        "vLLM would refuse it at start.",
        f"Use {offered}.",
    )


@dataclass(frozen=True)
class _KvPlanner:
    """The KV cache planner of one version and implementation, asked for one model."""

    architecture: Architecture
    implementation: Implementation
    tp: int
    minor: int
    stored: StoredType
    max_num_batched_tokens: int
    async_scheduling: bool
    block_size: int | None
    max_num_seqs: int

    @property
    def null_blocks(self) -> int:
        """Return the blocks that the start-up check sets aside: one is never handed out, which 0.29 first considers."""
        return 1 if self.minor >= 29 else 0

    def capacity(self, kv_bytes: int, max_model_len: int) -> KvCapacity:
        geometry = self.geometry(max_model_len)
        num_blocks = max(0, kv_bytes // geometry.bytes_per_block)
        per_request = geometry.admission_blocks(max_model_len)
        min_kv_bytes = (per_request + self.null_blocks) * geometry.bytes_per_block
        concurrency = num_blocks / per_request
        if self.minor <= 20:
            tokens = num_blocks // geometry.groups * min(geometry.full_block, geometry.sliding_block)
        else:
            tokens = int(concurrency * max_model_len)
        return KvCapacity(
            tokens=tokens,
            concurrency=concurrency,
            num_blocks=num_blocks,
            bytes_per_block=geometry.bytes_per_block,
            blocks_per_request=per_request,
            geometry=geometry,
            fits=kv_bytes >= min_kv_bytes,
            shortage_bytes=max(0, min_kv_bytes - kv_bytes),
            min_kv_bytes=min_kv_bytes,
            longest=partial(self.largest_max_model_len, kv_bytes),
        )

    def geometry(self, max_model_len: int) -> KvGeometry:
        if not self.implementation.frees_sliding_window:
            page = self.block_size or tpu_page_size(max_model_len, self.max_num_seqs)
            return tpu_geometry(self.architecture, tp=self.tp, stored=self.stored, page=page)
        return gpu_geometry(
            self.architecture,
            tp=self.tp,
            stored=self.stored,
            minor=self.minor,
            block_size=self.block_size,
            max_num_batched_tokens=self.max_num_batched_tokens,
            async_scheduling=self.async_scheduling,
        )

    def largest_max_model_len(self, kv_bytes: int) -> int:
        """Return the longest max_model_len that vLLM starts with, 0 where there is none.

        Lengths of equal block size are searched together, the longest first.
        """
        longest = self.architecture.max_position
        bounds = {0, longest}
        if self.block_size is None and not self.implementation.frees_sliding_window:
            for power in range(longest.bit_length()):
                bounds |= {1 << power, tpu_pages_per_request(self.max_num_seqs) << power}
        for last, before in pairwise(sorted((bound for bound in bounds if bound <= longest), reverse=True)):
            lengths = range(before + 1, last + 1)
            geometry = self.geometry(lengths[0])
            usable = kv_bytes // geometry.bytes_per_block - self.null_blocks
            if found := geometry.longest_admitted(lengths, usable):
                return found
        return 0
