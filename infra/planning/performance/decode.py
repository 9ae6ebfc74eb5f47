"""The time of one decode step: a roofline with a launch cost a layer.

A step reads the decoder's weights and the output embedding once, and the KV cache of every running request; it is
never faster than its arithmetic allows, and each layer costs a fixed launch time on top. The constants below are
fitted to public measurements of vLLM 0.19 to 0.33 (dense models and one MoE on L4, RTX PRO 6000, v5e and v6e, read
2026-11-21); everything else is counted. tests/planning/performance/test_speed.py holds the measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from infra.catalog.schema import GIB, Accelerator, Architecture, Backend, Model, WeightFormat

Bound = Literal["bandwidth", "compute", "pcie", "launch"]

BANDWIDTH_SHARE = 0.8
"""Share of the nominal memory bandwidth that decoding reaches (fitted)."""
DECODE_FLOPS_SHARE = 0.6
"""Share of the dense bf16 peak that a large decode batch reaches (fitted)."""
FITTED_HOST_RATE = 12.23e9
"""Bytes/s of offloaded weights to an L4: 31B QAT decodes 2.0 tok/s with 5 GiB offloaded and 0.8 with 14 (fitted)."""
BF16_BYTES = 2
W4A16_BYTES = 0.5625
"""Bytes of a QAT parameter: int4 plus one bf16 scale for each group of 32."""
TPU_WORD_BYTES = 4
"""TPU pages pack K and V heads into 32-bit words and pad what is left over."""


@dataclass(frozen=True)
class Served:
    """A model on its devices: all that the time of a step depends on, the batch aside."""

    model: Model
    architecture: Architecture
    accelerator: Accelerator
    tensor_parallel: int
    kv_cache_dtype: str = "auto"
    """As vLLM spells it; auto is bfloat16."""
    quantization: Literal["none", "fp8"] = "none"
    cpu_offload_gib: float = 0.0
    """Weights kept in host memory, GiB a device."""
    enforce_eager: bool = False

    @property
    def mixture(self) -> bool:
        """Whether a token uses only some of the weights (mixture of experts)."""
        return self.architecture.experts is not None

    @property
    def host_rate(self) -> float:
        """Bytes/s between host and one device; the fitted one stands in where the accelerator has none on file."""
        return self.accelerator.pcie_bandwidth or FITTED_HOST_RATE

    @property
    def launch_s(self) -> float:
        """Seconds a step spends on launching kernels and on collectives, whatever it computes (fitted)."""
        layer_us = _launch_us(self.accelerator.backend, self.mixture, self.tensor_parallel)
        return self.architecture.layers * layer_us * 1e-6

    def weight_bytes(self, tokens: int) -> float:
        """Bytes of weights that a step of `tokens` tokens reads, over all devices; the PLE table is only gathered from.

        A MoE reads the experts that at least one of the tokens chose, as if each token drew its experts at random.
        """
        return self._decoder_bytes(tokens) + BF16_BYTES * self.architecture.parameters.embedding

    def kv_bytes(self, context: float) -> float:
        """Bytes of KV cache that one running request reads a step at `context` tokens, over all devices.

        Full layers read the whole context, sliding layers their window: on TPU too, where the cache stores sliding
        layers at full length but the attention kernel (ragged paged attention v3) skips blocks outside the window.
        KV-shared layers read the cache of the layer they share with, so every layer counts, not only the owners.
        """
        arch = self.architecture
        owners = arch.sliding_layers_with_kv + arch.full_layers_with_kv
        sliding = arch.sliding_layers_with_kv * self._token_bytes(arch.kv_heads, arch.head_dim)
        full = arch.full_layers_with_kv * self._token_bytes(arch.global_kv_heads, arch.global_head_dim)
        read = sliding * min(context, arch.sliding_window) + full * context
        return read * arch.layers / owners * self.tensor_parallel

    def step(self, requests: int, context: float, *, tokens: int | None = None) -> Step:
        """The step of `requests` running requests at `context` tokens each.

        `tokens` pass through the weights: by default one a request, more where drafts are checked or prompts worked on.
        """
        passing = requests if tokens is None else tokens
        rate = BANDWIDTH_SHARE * self.accelerator.bandwidth * self.tensor_parallel
        offloaded = self._offloaded_bytes(passing)
        return Step(
            bandwidth_s=(self.weight_bytes(passing) - offloaded + requests * self.kv_bytes(context)) / rate,
            pcie_s=offloaded / (self.host_rate * self.tensor_parallel),
            compute_s=self.flop_seconds(2 * self.architecture.active_parameters * requests, DECODE_FLOPS_SHARE),
            launch_s=self.launch_s,
        )

    def flop_seconds(self, flop: float, share: float) -> float:
        """Seconds that all devices together need for `flop` operations at a share of their bf16 peak."""
        return flop / (share * self.accelerator.flops * self.tensor_parallel)

    def _decoder_bytes(self, tokens: int) -> float:
        p = self.architecture.parameters
        always = p.attention + p.mlp
        plain = p.per_layer_linears + p.router + p.norms
        if self.model.weight_format is WeightFormat.W4A16 and p.w4a16_quantized is not None:
            return W4A16_BYTES * p.w4a16_quantized + BF16_BYTES * (always + plain - p.w4a16_quantized)
        width = 1 if self.quantization == "fp8" else BF16_BYTES
        return width * (always + p.experts * self._experts_share(tokens)) + BF16_BYTES * plain

    def _experts_share(self, tokens: int) -> float:
        experts = self.architecture.experts
        return 1 - (1 - experts.active / experts.count) ** tokens if experts else 0.0

    def _token_bytes(self, heads: int, head_dim: int) -> int:
        """Bytes of K and V of one token in one layer on one device; heads fewer than devices are replicated."""
        width = 1 if self.kv_cache_dtype.startswith("fp8") else BF16_BYTES
        rows = 2 * max(1, heads // self.tensor_parallel)
        if self.accelerator.backend is Backend.TPU:
            pack = TPU_WORD_BYTES // width
            rows = math.ceil(rows / pack) * pack
        return rows * head_dim * width

    def _offloaded_bytes(self, tokens: int) -> float:
        """Only decoder layers are offloaded, never the embedding."""
        return min(self.cpu_offload_gib * GIB * self.tensor_parallel, self._decoder_bytes(tokens))


@dataclass(frozen=True)
class Step:
    """Where the time of one step goes, seconds."""

    bandwidth_s: float
    pcie_s: float
    compute_s: float
    launch_s: float

    @property
    def seconds(self) -> float:
        """Reading and arithmetic overlap; launches do not."""
        return max(self.bandwidth_s + self.pcie_s, self.compute_s) + self.launch_s

    @property
    def bound(self) -> Bound:
        """What a faster machine would need more of."""
        parts: dict[Bound, float] = {
            "bandwidth": self.bandwidth_s,
            "pcie": self.pcie_s,
            "compute": self.compute_s if self.compute_s > self.bandwidth_s + self.pcie_s else 0.0,
            "launch": self.launch_s,
        }
        return max(parts, key=lambda part: parts[part])


def _launch_us(backend: Backend, mixture: bool, tensor_parallel: int) -> float:
    """Microseconds a layer. Fitted, save for GPUs at TP 4 and 8 (taken from TPU) and for a MoE on several TPU chips."""
    if tensor_parallel == 1:
        return 50
    if mixture:
        return 170
    return 80 if backend is Backend.GPU and tensor_parallel == 2 else 110
