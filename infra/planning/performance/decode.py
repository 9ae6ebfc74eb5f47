"""The time of one decode step: a roofline, plus what each layer costs to launch.

A step reads the decoder's weights and the output embedding once, and the KV cache of every running request; it is
never faster than its arithmetic allows, and each layer costs a fixed launch time on top. The constants below are
fitted to public measurements of vLLM 0.19 to 0.33 (dense models and one MoE on L4, RTX PRO 6000, v5e and v6e, read
2026-11-21); everything else is counted. tests/planning/performance/test_speed.py holds the measurements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from infra.catalog import BF16_BYTES, GIB, Device
from infra.planning.server.server import Server

Bound = Literal["bandwidth", "compute", "pcie", "launch"]

BANDWIDTH_SHARE = 0.8
"""Share of the nominal memory bandwidth that decoding reaches (fitted)."""
DECODE_FLOPS_SHARE = 0.6
"""Share of the dense bf16 peak that a large decode batch reaches (fitted)."""
FITTED_HOST_RATE = 12.23e9
"""Bytes/s of offloaded weights to an L4: 31B QAT decodes 2.0 tok/s with 5 GiB offloaded and 0.8 with 14 (fitted)."""
LAUNCH_US: Mapping[str, tuple[float, float, float]] = {
    Device.GPU: (50, 80, 110),
    Device.TPU: (50, 110, 110),
    "mixture": (50, 170, 170),
}
"""Microseconds a layer on one, two and more devices, and those of a mixture of experts on any kind of device (fitted, save
for GPUs at TP 4 and 8, taken from TPU, and for a mixture on several TPU chips)."""


@dataclass(frozen=True)
class Step:
    """Where the time of one step goes, seconds."""

    bandwidth_s: float
    pcie_s: float
    compute_s: float
    launch_s: float

    @property
    def seconds(self) -> float:
        """Return the whole step: reading and arithmetic overlap, launches do not."""
        return max(self.bandwidth_s + self.pcie_s, self.compute_s) + self.launch_s

    @property
    def bound(self) -> Bound:
        """Return what a faster machine would need more of."""
        parts: dict[Bound, float] = {
            "bandwidth": self.bandwidth_s,
            "pcie": self.pcie_s,
            "compute": self.compute_s if self.compute_s > self.bandwidth_s + self.pcie_s else 0.0,
            "launch": self.launch_s,
        }
        return max(parts, key=lambda part: parts[part])


def step_of(server: Server, requests: int, context: float, *, tokens: int | None = None) -> Step:
    """Return the step of `requests` running requests at `context` tokens each.

    `tokens` pass through the weights: by default one a request, more where drafts are checked or prompts worked on.
    """
    passing = requests if tokens is None else tokens
    rate = BANDWIDTH_SHARE * server.accelerator.bandwidth * server.tensor_parallel
    # Only decoder layers are offloaded, never the embedding.
    offloaded = min(server.cpu_offload_gib * GIB * server.tensor_parallel, _decoder_bytes(server, passing))
    read = weight_bytes(server, passing) - offloaded + requests * kv_bytes(server, context)
    return Step(
        bandwidth_s=read / rate,
        pcie_s=offloaded / ((server.accelerator.pcie_bandwidth or FITTED_HOST_RATE) * server.tensor_parallel),
        compute_s=flop_seconds(server, 2 * server.architecture.active_parameters * requests, DECODE_FLOPS_SHARE),
        launch_s=launch_s(server),
    )


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
    """Return the seconds that a step spends on launching kernels and on collectives, whatever it computes."""
    rule = "mixture" if server.mixture else server.accelerator.device
    alone, pair, more = LAUNCH_US[rule]
    layer_us = alone if server.tensor_parallel == 1 else pair if server.tensor_parallel == 2 else more
    return server.architecture.layers * layer_us * 1e-6


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
