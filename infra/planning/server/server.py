"""The one value that describes a vLLM server: what it will really use once every default is resolved.

The command spells it out; memory, speed and start are estimated from it. Nothing here knows a cloud or a price.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from infra.catalog import Accelerator, Architecture, Assistant, Device, Model, WeightFormat, catalog
from infra.planning.server.hosting import UNKNOWN, Hosting
from infra.planning.server.implementations import Implementation, implementation_of
from infra.planning.server.served_weights import ServedWeights, served_weights
from infra.planning.settings.declarations import Settings

VIDEO_TOKENS = 2496
"""Prompt tokens of one video (32 frames of 78): one step must take it whole where the input cannot be chunked."""
IMAGE_TOKENS = 280
"""Prompt tokens that one image takes at most, unless serving.visionTokens says otherwise."""

STREAMER_BYTES = 4_000_000_000
"""What the weights' streamer may buffer; its own default of 40 GB is more than an L4 instance has."""

USUAL_ADAPTER_SLOTS = 8
"""The most adapters that get a slot each on the device where serving.adapterSlots says nothing."""

Quantization = Literal["none", "fp8"]
Drafting = Literal["none", "ngram", "mtp"]


@dataclass(frozen=True)
class Server:
    """A model on its devices, with all that decides memory and speed. Lengths in tokens, counts in requests."""

    model: Model
    accelerator: Accelerator
    vllm_version: str
    """The version whose arithmetic counts: the image's own, or the nearest that was compared."""
    tensor_parallel: int
    """Devices that share the model."""
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    gpu_memory_utilization: float
    """Share of device memory that vLLM plans with, on TPU too."""
    async_scheduling: bool
    """Whether scheduling overlaps with the device; where ngram speculation cannot, it switches it off."""
    image_version: str | None = None
    """The version that the image's name says; None where it says none."""
    tensor_parallel_written: bool = False
    """Whether the settings say `tensor_parallel`, so that another machine would get the same."""
    kv_cache_dtype: str = "auto"
    """As vLLM spells it; auto is bfloat16."""
    block_size: int | None = None
    quantization: Quantization = "none"
    speculation: Drafting = "none"
    speculative_tokens: int = 0
    """Draft tokens a step; 0 without speculation."""
    cpu_offload_gib: float = 0.0
    """Weights kept in host memory, GiB a device."""
    enforce_eager: bool = False
    adapters: int = 0
    """LoRA adapters that it serves; 0: none, and no room is set aside for any."""
    adapter_slots: int = 0
    """Adapters that lie on the device at once."""
    adapter_rank: int = 0
    """The largest rank of an adapter, for which each slot has room."""
    adapts_experts: bool = False
    """Whether each slot has room for the experts of a mixture too."""
    text_only: bool = False
    """Whether no modality but text is served, so that none is profiled."""
    logged_weights_gib: float | None = None
    """Resident weights of one device as a run logged them, instead of their count; None: counted."""
    compile_cache_warm: bool = False
    """Whether compiled kernels of an earlier start are found; a container that starts anew has none."""
    load_format: str = "auto"
    """How the weights are read: auto, safetensors or runai_streamer."""
    hosting: Hosting = UNKNOWN
    """What follows from the place where the server runs."""

    @cached_property
    def architecture(self) -> Architecture:
        """The decoder geometry of the model."""
        return catalog().architectures[self.model.architecture]

    @cached_property
    def weight_format(self) -> WeightFormat:
        """The format in which the checkpoint stores its weights."""
        return catalog().weight_formats[self.model.weight_format]

    @cached_property
    def largest_tensor_bytes(self) -> int:
        """Size of the checkpoint's largest tensor."""
        return self.model.sizes.largest_tensor if self.model.sizes else self.architecture.largest_tensor_bytes

    @cached_property
    def weights(self) -> ServedWeights:
        """What is held of each kind of tensor, over all devices."""
        quantizing = self.quantization == "fp8" and not self.weight_format.quantized
        return served_weights(self.model, self.architecture, self.weight_format, to_fp8=quantizing)

    @cached_property
    def mixture(self) -> bool:
        """True if a token uses only some of the weights (mixture of experts)."""
        return self.architecture.experts is not None

    @cached_property
    def implementation(self) -> Implementation:
        """The implementation of vLLM that serves."""
        return implementation_of(self.accelerator)

    @cached_property
    def decoder_alone(self) -> bool:
        """True if a TPU serves text only of a model whose class the JAX path lacks: as its decoder, which the path has."""
        return self.accelerator.device is Device.TPU and self.text_only and not self.architecture.jax_class

    @cached_property
    def pytorch_on_tpu(self) -> bool:
        """True if vLLM on TPU serves the model with PyTorch, because its JAX path lacks the class."""
        on_tpu = self.accelerator.device is Device.TPU
        return on_tpu and not self.architecture.jax_class and not self.decoder_alone

    @cached_property
    def loads(self) -> bool:
        """True if vLLM on this kind of device loads the format of the weights."""
        form, device = self.weight_format, self.accelerator.device
        barred = device is Device.TPU and form.tpu_dense_jax_only and (self.mixture or self.pytorch_on_tpu)
        return device in form.devices and (self.logged_weights_gib is not None or not barred)

    @cached_property
    def streamed(self) -> bool:
        """True if the weights come through the streamer's buffers in host memory."""
        return self.load_format == "runai_streamer"

    @cached_property
    def streamer_limit_bytes(self) -> int:
        """The most bytes that the streamer may buffer: at least the largest tensor, or it refuses to start."""
        return max(STREAMER_BYTES, self.largest_tensor_bytes)


def usual_drafts(method: str, assistant: Assistant | None) -> int:
    """Return how many tokens a step drafts where nobody says it: with an MTP drafter as many as its recipe has."""
    return {"none": 0, "ngram": 3, "mtp": assistant.speculative_tokens if assistant else 4}[method]


def server_of(
    settings: Settings,
    model: Model,
    accelerator: Accelerator,
    assistant: Assistant | None,
    hosting: Hosting,
    *,
    vllm_version: str,
    image_version: str | None,
) -> Server:
    """Resolve the defaults of `settings`. A max_num_seqs that nobody set is 1 here: the planner chooses it by speed."""
    serving, modalities = settings.serving, settings.serving.modalities
    method = serving.speculation.method
    implementation = implementation_of(accelerator)
    batched = implementation.usual_batched_tokens(accelerator.device_memory_gib)
    if modalities.video:
        batched = max(batched, VIDEO_TOKENS)
    overlapping = implementation.overlaps_scheduling if serving.async_scheduling is None else serving.async_scheduling
    return Server(
        model=model,
        accelerator=accelerator,
        vllm_version=vllm_version,
        image_version=image_version,
        tensor_parallel=serving.tensor_parallel_size or accelerator.devices,
        tensor_parallel_written=serving.tensor_parallel_size is not None,
        max_model_len=serving.max_model_len,
        max_num_seqs=serving.max_num_seqs or 1,
        max_num_batched_tokens=serving.max_num_batched_tokens or batched,
        gpu_memory_utilization=serving.gpu_memory_utilization,
        async_scheduling=overlapping and implementation.can_overlap(method, vllm_version),
        kv_cache_dtype=serving.kv_cache_dtype,
        block_size=serving.block_size,
        quantization=serving.quantization,
        speculation=method,
        speculative_tokens=serving.speculation.tokens or usual_drafts(method, assistant),
        cpu_offload_gib=serving.cpu_offload_gb,
        enforce_eager=serving.enforce_eager,
        adapters=len(serving.adapters),
        adapter_slots=_adapter_slots(settings),
        adapter_rank=serving.adapter_rank if serving.adapters else 0,
        adapts_experts=bool(serving.adapters) and serving.adapter_experts,
        text_only=not (modalities.image or modalities.audio or modalities.video),
        load_format=load_format(settings, hosting),
        hosting=hosting,
    )


def _adapter_slots(settings: Settings) -> int:
    serving = settings.serving
    return (serving.adapter_slots or min(len(serving.adapters), USUAL_ADAPTER_SLOTS)) if serving.adapters else 0


def load_format(settings: Settings, hosting: Hosting) -> str:
    """Return how the weights are read: as written, else by the streamer from a mounted bucket, else vLLM's own choice."""
    serving = settings.serving
    if serving.load_format is not None:
        return serving.load_format
    if not hosting.mounts_bucket or settings.weights.from_hub:
        return "auto"
    chosen_otherwise = serving.safetensors_load_strategy is not None and settings.weights.access == "mount"
    return "auto" if chosen_otherwise else "runai_streamer"
