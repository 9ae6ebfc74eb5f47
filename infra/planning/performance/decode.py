"""The time of one decode step: reading weights and KV cache, fixed costs a layer and a step, and the choice of tokens.

A step reads the decoder's weights and the output embedding once, and the KV cache of every running request, at a share of the
nominal bandwidth; it is never faster than its arithmetic allows. On top come the small kernels of each layer, which a CUDA
graph replays one after the other (a TPU runs one compiled program and has none), the collectives of devices that share a model,
and the choice of each request's token: Gemma's generation_config.json samples (top_k 64, top_p 0.95), and a sampler goes over
the whole vocabulary many times for each request. Requests with temperature 0 skip that, and are faster than predicted here.

What is fitted is so called and stands in `COSTS`; the rest is counted. The rows are those of
infra/catalog/published_runs.json.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from infra.catalog import BF16_BYTES, FLOAT32_BYTES, GIB, Device, catalog
from infra.planning.server.server import Server

Bound = Literal["bandwidth", "compute", "pcie", "launch", "sampling"]


class DeviceCosts(NamedTuple):
    """What a step costs on a kind of device, beside the bytes and operations that are counted."""

    bandwidth_share: float
    """Share of the nominal memory bandwidth at which bf16 and fp8 weights and the KV cache are read (fitted)."""
    int4_share: float
    """The same for int4 weights (fitted)."""
    layer_us: float
    """Microseconds of a layer's small kernels: norms, rotary, attention, residuals (fitted)."""
    shared_layer_us: float
    """What two all-reduces a layer take on top where devices share a model (fitted)."""
    mixture_us: float
    """What routing, sorting and summing add in a layer of a mixture of experts (fitted)."""
    step_us: float
    """Fixed microseconds of a step: scheduling and inputs that do not overlap with the device (fitted)."""
    request_us: float
    """Microseconds of host work that each running request adds to a step where it does not overlap with the device (fitted)."""
    sampling_passes: float
    """How often the sampler goes over one request's logits in float32, counted as reads of memory (fitted)."""


COSTS: Mapping[Device, DeviceCosts] = {
    # Fitted to lone streams on L4, L40S and GB10 (five models, three formats: within 5 %, fp8 10 %), 12B and 31B QAT on two and
    # four RTX 3090, 26B-A4B on H100, and 8 to 16 requests on L4 and L40S.
    Device.GPU: DeviceCosts(
        bandwidth_share=0.86,
        int4_share=0.86,
        layer_us=55,
        shared_layer_us=35,
        mixture_us=40,
        step_us=0,
        request_us=0,
        sampling_passes=40,
    ),
    # Share and step: lone streams of E2B, E4B and 12B on v6e-1, whose times lie on one line over their bytes. int4: E2B to 31B
    # QAT with 16 greedy requests; the kernel unpacks int4 tiles on chip, and is slower at that than at reading. Collectives
    # between E2B and 26B-A4B on v6e-4. Requests and passes: sweeps of July and August on v6e-1, whose tokens were
    # sampled (`vllm bench serve` leaves the temperature to the server): top-k and top-p are two binary searches of 31 passes,
    # each of several operations, in float32. Runs on v5e-1 were fitted to as well (left out, they come out within 21 % in the
    # median, 46 % at worst). Greedy runs of 0.29.1 pay nothing of it. tpu-inference 0.32 first draws 128 candidates instead;
    # nobody has published what that costs.
    Device.TPU: DeviceCosts(
        bandwidth_share=0.68,
        int4_share=0.40,
        layer_us=0,
        shared_layer_us=40,
        mixture_us=0,
        step_us=500,
        request_us=100,
        sampling_passes=400,
    ),
}
"""By kind of device."""
DECODE_FLOPS_SHARE = 0.6
"""Share of the dense bf16 peak that a large decode batch reaches (fitted)."""
FITTED_HOST_RATE = 12.23e9
"""Bytes/s of offloaded weights to an L4: 31B QAT decodes 2.0 tok/s with 5 GiB offloaded and 0.8 with 14 (fitted)."""
FREE_SAMPLED_ROWS: Mapping[Device, int] = {Device.GPU: 1, Device.TPU: 8}
"""Requests whose sampling is within the fixed costs: a TPU always samples 8 rows (MIN_NUM_SEQS in its runner)."""


@dataclass(frozen=True)
class Step:
    """Where the time of one step goes, seconds."""

    bandwidth_s: float
    pcie_s: float
    compute_s: float
    launch_s: float
    sampling_s: float

    @property
    def seconds(self) -> float:
        """Return the whole step: reading and arithmetic overlap, launches and sampling do not."""
        return max(self.bandwidth_s + self.pcie_s, self.compute_s) + self.launch_s + self.sampling_s

    @property
    def bound(self) -> Bound:
        """Return what a faster machine would need more of."""
        parts: dict[Bound, float] = {
            "bandwidth": self.bandwidth_s,
            "pcie": self.pcie_s,
            "compute": self.compute_s if self.compute_s > self.bandwidth_s + self.pcie_s else 0.0,
            "launch": self.launch_s,
            "sampling": self.sampling_s,
        }
        return max(parts, key=lambda part: parts[part])


def step_of(server: Server, requests: int, context: float, *, tokens: int | None = None) -> Step:
    """Return the step of `requests` running requests at `context` tokens each.

    `tokens` pass through the weights: by default one a request, more where drafts are checked or prompts worked on.
    """
    passing = requests if tokens is None else tokens
    # Only decoder layers are offloaded, never the embedding.
    offloaded = min(server.cpu_offload_gib * GIB * server.tensor_parallel, _decoder_bytes(server, passing))
    read = weight_bytes(server, passing) - offloaded + requests * kv_bytes(server, context)
    costs = COSTS[server.accelerator.device]
    # int4 weights that are read more slowly than all else count as more bytes.
    read += (costs.bandwidth_share / costs.int4_share - 1) * _int4_bytes(server, passing)
    return Step(
        bandwidth_s=read / (bandwidth_share(server) * server.accelerator.bandwidth * server.tensor_parallel),
        pcie_s=offloaded / ((server.accelerator.pcie_bandwidth or FITTED_HOST_RATE) * server.tensor_parallel),
        compute_s=flop_seconds(server, 2 * server.architecture.active_parameters * requests, DECODE_FLOPS_SHARE),
        launch_s=launch_s(server),
        sampling_s=sampling_s(server, requests),
    )


def bandwidth_share(server: Server) -> float:
    """Return the share of its nominal bandwidth at which a machine reads weights: its own where it is known to reach less."""
    slow = catalog().slow_memory.get(server.accelerator.id)
    return COSTS[server.accelerator.device].bandwidth_share if slow is None else slow.share


def sampling_s(server: Server, requests: int) -> float:
    """Return the seconds that choosing one token for each of `requests` requests adds to a step."""
    rows = max(0, requests - FREE_SAMPLED_ROWS[server.accelerator.device])
    costs = COSTS[server.accelerator.device]
    logits = FLOAT32_BYTES * server.architecture.vocab_size
    # Each chip looks at its own part of the vocabulary; GPUs gather the logits first.
    shared = server.tensor_parallel if server.accelerator.device is Device.TPU else 1
    seconds = rows * costs.sampling_passes * logits / server.accelerator.bandwidth + requests * costs.request_us * 1e-6
    return seconds / shared


def weight_bytes(server: Server, tokens: int) -> float:
    """Return the bytes of weights that a step of `tokens` tokens reads, over all devices, the PLE table left out.

    A MoE reads the experts that at least one of the tokens chose, as if each token drew its experts at random.
    """
    return _decoder_bytes(server, tokens) + (server.weights.own_lm_head or server.weights.embedding)


def kv_bytes(server: Server, context: float) -> float:
    """Return the bytes of KV cache that one running request reads a step at `context` tokens, over all devices.

    Full layers read the whole context, sliding layers their window: on TPU too, where the cache stores sliding
    layers at full length but the attention kernel (ragged paged attention v3) skips blocks outside the window.
    KV-shared layers read the cache of the layer they share with, so every layer counts, not only the owners.
    """
    arch = server.architecture
    owners = arch.sliding_layers_with_kv + arch.full_layers_with_kv
    sliding = arch.sliding_layers_with_kv * _token_bytes(server, arch.kv_heads, arch.head_dim)
    full = arch.full_layers_with_kv * _token_bytes(server, arch.global_kv_heads, arch.global_head_dim)
    read = sliding * min(context, arch.sliding_window) + full * context
    return read * arch.layers / owners * server.tensor_parallel


def flop_seconds(server: Server, flop: float, share: float) -> float:
    """Return the seconds that all devices together need for `flop` operations at a share of their bf16 peak."""
    return flop / (share * server.accelerator.flops * server.tensor_parallel)


def launch_s(server: Server) -> float:
    """Return the seconds of a step that are the same whatever it reads and computes: small kernels, collectives, scheduling."""
    costs = COSTS[server.accelerator.device]
    layer_us = costs.layer_us + (costs.shared_layer_us if server.tensor_parallel > 1 else 0)
    layer_us += costs.mixture_us if server.mixture else 0
    return (costs.step_us + server.architecture.layers * layer_us) * 1e-6


def is_int4(server: Server) -> bool:
    """Return whether the weights are served in four bits, scales not counted."""
    return server.weight_format.bytes_per_parameter < 1


def _int4_bytes(server: Server, tokens: int) -> float:
    """Return the bytes of int4 weights that a step of `tokens` tokens reads."""
    if not is_int4(server):
        return 0.0
    return _decoder_bytes(server, tokens) - server.weights.router - server.weights.norms


def _decoder_bytes(server: Server, tokens: int) -> float:
    weights, experts = server.weights, server.architecture.experts
    chosen = 1 - (1 - experts.active / experts.count) ** tokens if experts else 0.0
    read = weights.linear - weights.experts + weights.experts * chosen
    return read + weights.router + weights.norms


def _token_bytes(server: Server, heads: int, head_dim: int) -> int:
    """Return the bytes of K and V of one token in one layer on one device; heads fewer than devices are replicated."""
    width = 1 if server.kv_cache_dtype.startswith("fp8") else BF16_BYTES
    rows = 2 * max(1, heads // server.tensor_parallel)
    pack = max(1, server.implementation.kv_word_bytes // width)
    rows = math.ceil(rows / pack) * pack
    return rows * head_dim * width
