"""The shape of the facts: what a row of each catalog file must say, and in which unit.

Every row is frozen and refuses unknown keys. Sizes are bytes unless the name says otherwise, rates are bytes/s or
FLOP/s, money is US dollars. A `Source` names where a figure came from and when it was read.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from enum import StrEnum
from functools import cached_property
from typing import Literal

from pydantic import BaseModel, ConfigDict

GIB = 1024**3
BF16_BYTES = 2
"""Bytes of a bfloat16 number."""
FLOAT32_BYTES = 4

Modality = Literal["image", "audio", "video"]
Profile = Literal["latency", "balanced", "throughput"]
"""What a stack may be tuned for."""


class Device(StrEnum):
    """The kind of device that computes in a machine."""

    GPU = "gpu"
    TPU = "tpu"


class Row(BaseModel):
    """A frozen row of a catalog file; a misspelt key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class Source(Row):
    """Where a figure comes from and how sure it is.

    `confidence`: documented, exact (counted), measured (`where` says by whom), reported (by a third party), inferred.
    """

    where: str
    read: dt.date
    confidence: Literal["documented", "exact", "measured", "reported", "inferred"]


class Experts(Row):
    """The mixture-of-experts block of a layer: `count` experts of which each token uses `active`."""

    count: int
    active: int
    intermediate_size: int


class VisionTower(Row):
    """The encoder of images and video."""

    hidden_size: int
    intermediate_size: int


class Parameters(Row):
    """Exact parameter counts of a checkpoint, sorted by what happens to them when weights are quantised."""

    total: int
    embedding: int
    per_layer_embedding: int = 0
    """The PLE table of E2B and E4B: gathered row by row, never read whole."""
    per_layer_linears: int = 0
    """Gates and projections that bring the PLE rows into the layers (E2B, E4B): read at every step."""
    attention: int
    mlp: int
    experts: int = 0
    router: int = 0
    norms: int
    """Norms and per-layer scalars: always bf16."""
    vision: int
    """Vision tower and its projection."""
    audio: int = 0
    """Audio tower and its projection."""

    @cached_property
    def linear(self) -> int:
        """Return what quantization touches: the decoder's linear layers; embeddings, norms, router and towers stay bf16."""
        return self.attention + self.mlp + self.experts + self.per_layer_linears


class Architecture(Row):
    """The decoder geometry of one Gemma 4 size, as its configuration gives it."""

    id: str
    hidden_size: int
    layers: int
    sliding_layers_with_kv: int
    """Sliding-window layers that own KV cache (KV-shared layers own none)."""
    full_layers_with_kv: int
    """Full-attention layers that own KV cache."""
    sliding_window: int
    attention_heads: int
    kv_heads: int
    global_kv_heads: int
    """KV heads of the full-attention layers (equal to `kv_heads` where the configuration leaves it null)."""
    head_dim: int
    global_head_dim: int
    key_equals_value: bool
    """`attention_k_eq_v`: K weights are loaded twice on full layers; both K and V are stored in the cache."""
    intermediate_size: int
    double_wide_shared_mlp: bool = False
    """`use_double_wide_mlp` (E2B): the KV-shared layers have an MLP of twice the width."""
    max_position: int
    vocab_size: int
    experts: Experts | None = None
    parameters: Parameters
    input_modalities: tuple[Modality, ...]
    """The kinds of input that the checkpoint takes beside text."""
    vision_tower: VisionTower | None = None
    """None: images and sound enter through one projection each."""
    media_may_be_split: bool = False
    """Whether vLLM may split an image or a video between two steps; for all others it switches that off."""
    rope_cache_bytes: int
    """Rotary tables that vLLM keeps on each rank, not sharded by tensor parallelism."""
    duplicated_value_bytes: int = 0
    """Bytes of V weights that vLLM duplicates on k_eq_v full layers, bf16."""
    unshared_kv_checkpoint_bytes: int = 0
    """K/V weights of KV-shared layers: in the checkpoint and on TPU, skipped by vLLM on GPU."""
    jax_class: bool = True
    """Whether the JAX path of tpu-inference has the model's class; else its PyTorch path serves it, unless it is served as
    the decoder alone."""
    source: Source

    @cached_property
    def active_parameters(self) -> int:
        """Return how many decoder parameters one token multiplies with: active experts only, output embedding included."""
        p = self.parameters
        experts = p.experts * self.experts.active // self.experts.count if self.experts else 0
        return p.attention + p.mlp + p.per_layer_linears + p.router + experts + p.embedding

    @cached_property
    def largest_tensor_bytes(self) -> int:
        """Return the size of a checkpoint's largest tensor: the PLE table, an embedding, or a layer's fused experts.

        QAT checkpoints keep all three in bf16, as they do a second copy of the embedding.
        """
        experts = self.experts
        fused = 0 if experts is None else 2 * experts.count * experts.intermediate_size * self.hidden_size
        return BF16_BYTES * max(self.parameters.per_layer_embedding, self.parameters.embedding, fused)


class Assistant(Row):
    """An MTP drafter: four query-only layers that read the target's KV cache, so weights are their only memory."""

    id: str
    hub_id: str
    parameters: int
    speculative_tokens: int
    """Tokens that it drafts in each step, by vLLM's own recipe."""
    min_vllm: str
    source: Source


class WeightFormat(Row):
    """How a published checkpoint stores the weights of its linear layers; all others are bf16."""

    id: str
    holds: str
    """In a sentence: what a checkpoint of this format holds."""
    bytes_per_parameter: float
    quantized: bool
    """Whether the weights are quantised already, so that nothing is left to quantise while loading."""
    devices: tuple[Device, ...]
    """Kinds of device whose vLLM loads it."""
    tpu_dense_jax_only: bool = False
    """Whether vLLM on TPU loads it in its JAX path only, and there only in dense layers."""
    min_compute_capability: float | None = None
    """CUDA compute capability of the oldest GPU on which vLLM loads it; None: any."""
    native_compute_capability: float | None = None
    """From here on a GPU computes in this format; on an older one vLLM unpacks the weights to bf16 at every step (Marlin),
    which saves memory but no arithmetic. None: the format is unpacked on every GPU, or needs no unpacking."""
    resident_error: tuple[float, float]
    """Relative error down and up of the counted size on a GPU against the sizes that vLLM logs."""
    source: Source


class CheckpointSizes(Row):
    """Bytes of a checkpoint's tensors, sorted by what a server does with them; scales and zero points count with what they
    scale."""

    attention: int
    mlp: int
    experts: int = 0
    router: int = 0
    per_layer_linears: int = 0
    """Gates and projections that bring the PLE rows into the layers (E2B, E4B)."""
    embedding: int
    per_layer_embedding: int = 0
    """The PLE table of E2B and E4B."""
    lm_head: int = 0
    """An output embedding of its own; 0 where the checkpoint holds none."""
    lm_head_is_tied: bool = True
    """Whether the configuration ties the output embedding to the input's, so that one in the checkpoint is not kept."""
    norms: int
    """Norms and scalars of the decoder."""
    vision: int = 0
    """Vision tower and its projection."""
    audio: int = 0
    """Audio tower and its projection."""
    shared_kv: int = 0
    """K and V of layers that share another layer's KV cache: in the checkpoint and on TPU, skipped by vLLM on GPU."""
    duplicated_value: int = 0
    """Part of `attention`: K of full layers whose V is the same matrix, which vLLM on GPU keeps twice."""
    scales: int = 0
    """Part of the others: scales, zero points and shapes."""
    largest_tensor: int
    """The largest single tensor."""

    @cached_property
    def linear(self) -> int:
        """Return the bytes of the decoder's linear layers."""
        return self.attention + self.mlp + self.experts + self.per_layer_linears

    @cached_property
    def total(self) -> int:
        """Return the bytes of all tensors."""
        tables = self.embedding + self.per_layer_embedding + self.lm_head
        return self.linear + tables + self.router + self.norms + self.vision + self.audio + self.shared_kv


class Model(Row):
    """One checkpoint that can be served."""

    id: str
    hub_id: str
    maker: str = "Google"
    """Who made the checkpoint: another than Google has quantised or tuned it without Google's word on its quality."""
    title: str
    architecture: str
    weight_format: str
    """Catalog id of the format of its weights."""
    checkpoint_bytes: int
    """Size of the safetensors files: what is staged and loaded."""
    sizes: CheckpointSizes | None = None
    """Its tensors, where not every linear layer has the format, or where they were read; None: they follow from the
    architecture and the format."""
    assistant: str | None
    """Catalog id of the MTP drafter trained for it."""
    min_vllm: str
    gated: bool
    """Whether Hugging Face asks for an accepted licence and a token before it gives the files."""
    source: Source

    @property
    def third_party(self) -> bool:
        """Return whether somebody other than Google made the checkpoint."""
        return self.maker != "Google"


class Benchmark(Row):
    """A published test by which checkpoints are compared."""

    id: str
    title: str
    source: Source


class Score(Row):
    """What a checkpoint reached in a benchmark, in percent of its questions, as its maker published it; `id` is the model."""

    id: str
    benchmark: str
    percent: float
    source: Source


class Unscored(Row):
    """Checkpoints of which no score was published, and where that was looked up."""

    id: str
    models: tuple[str, ...]
    says: str
    """Half a sentence: whose score stands in."""
    source: Source


class Bounds(Row):
    """Smallest and largest value that the platform takes."""

    min: float
    max: float


class CloudRunLimits(Row):
    """What Cloud Run demands of a container with this GPU."""

    accelerator: str
    """Value of the node selector, e.g. nvidia-l4."""
    cpu: Bounds
    memory_gib: Bounds
    cpu_values: tuple[int, ...]
    """vCPU counts that are taken; empty where only the bounds are known."""
    default_cpu: int
    default_memory_gib: int
    quota: str
    """Quota name without zonal redundancy."""
    quota_zonal_redundancy: str
    """Quota name with it: a separate pool."""


class TpuLimits(Row):
    """What the TPU API is asked for."""

    accelerator_type: str
    """acceleratorType of the node, e.g. v6e-4."""
    runtime_version: str
    quota: str
    """Quota of flex-start and spot, in chips."""
    quota_on_demand: str
    flex_start_zones: tuple[str, ...]
    """Zones documented for flex-start or seen to accept such a request."""
    flex_start_refused_zones: tuple[str, ...] = ()
    """Zones where Google was seen to refuse flex-start for this generation; what is in neither list is unknown."""


class ComputeEngineLimits(Row):
    """What Compute Engine is asked for, and what is known of it."""

    listed_regions: tuple[str, ...]
    """Regions in whose price list the machine is; in which of their zones, and whether there is stock, is not known."""
    quota: str
    """Quota of spot and flex-start, in GPUs."""
    quota_on_demand: str
    quota_all_regions: str
    """Quota of all GPUs of the project, whatever they are and however they are bought."""
    p2p_level: str
    """NCCL_P2P_LEVEL, with which NCCL lets the GPUs of this machine reach each other directly."""


class Accelerator(Row):
    """A machine shape that can be rented: devices of one kind, and where."""

    id: str
    title: str
    platform: str
    """Id of the platform that runs it, as planning/platforms names it."""
    device: Device
    devices: int
    """GPUs or TPU chips."""
    device_memory_gib: float
    """Usable memory of one device as the runtime reports it, in GiB."""
    nominal_memory_gb: int
    bandwidth: float
    """Memory bandwidth of one device, bytes/s."""
    flops: float
    """Dense bf16 FLOP/s of one device."""
    pcie_bandwidth: float | None = None
    """Effective host-to-device bytes/s for CPU offload (fitted); None where nobody measured it, or none exists."""
    locations: tuple[str, ...]
    """Regions (Cloud Run) or zones (TPU, Compute Engine) known to offer it; the first is the default."""
    invited_locations: tuple[str, ...] = ()
    """Locations by invitation only."""
    compute_capability: float | None = None
    """CUDA compute capability of a GPU; None for other devices."""
    machine_type: str | None = None
    host_memory_gib: int | None = None
    """Memory of the machine as its system sees it, where the platform fixes it (TPU, Compute Engine)."""
    cloud_run: CloudRunLimits | None = None
    tpu: TpuLimits | None = None
    compute_engine: ComputeEngineLimits | None = None
    deployable: bool = True
    """False: planned, but no component builds it yet."""
    measured: tuple[Literal["decode", "prompt"], ...] = ()
    """What was timed on its devices: answers, or prompts that are not cached. The band is wider for what was not timed."""
    notes: tuple[str, ...] = ()
    """What a reader of a plan should know of the machine."""
    source: Source


class ProgramSize(Row):
    """Memory that compiled programs were seen to need outside vLLM's share, on one TPU chip."""

    id: str
    architecture: str
    drafting: bool
    """Whether drafts are verified."""
    gib: tuple[float, float, float]
    """Least, likeliest and most."""
    source: Source


class StageTime(Row):
    """How long a stage of a start takes."""

    id: str
    seconds: tuple[float, float, float]
    """Least, likeliest and most."""
    source: Source


class ReadRate(Row):
    """How fast weights come by a path."""

    id: str
    gib_per_second: tuple[float, float, float]
    """Least, likeliest and most."""
    source: Source


class SlowPrompts(Row):
    """The rates at which prompts are worked on, on a machine where they are far below what others reach."""

    id: str
    machines: tuple[str, ...]
    """Ids of machines, also of those that nobody offers here."""
    linear_flops: float
    attention_flops: float
    """Operations a second of linear layers and of attention on one device."""
    source: Source


class LoadedSize(Row):
    """What vLLM logged as loaded on one GPU that holds a whole checkpoint, towers and rotary tables included."""

    id: str
    model: str
    gib: float
    vllm: str
    """The version that logged it."""
    source: Source


class SlowMemory(Row):
    """The share of its nominal memory bandwidth that a machine reaches, where that is below what its kind reaches."""

    id: str
    machines: tuple[str, ...]
    """Ids of machines, also of those that nobody offers here."""
    share: float
    source: Source


class OpenFault(Row):
    """A fault of vLLM that stood open when its thread was read: what a configuration must be like to meet it."""

    id: str
    thread: str
    """Where it is told: vllm-project/vllm#48848."""
    what: str
    """What happens, as half a sentence."""
    cure: str = ""
    """What was reported to help, as a sentence; empty where nothing was."""
    seen_in: str
    """Versions of vLLM in which it was seen."""
    stops_the_server: bool = False
    """Whether it ends the server at its start."""
    architectures: tuple[str, ...] = ()
    """Ids of architectures that meet it; empty: all."""
    weight_formats: tuple[str, ...] = ()
    """Ids of formats that meet it; empty: all."""
    speculation: str | None = None
    """The method of drafting that meets it; None: any, or none."""
    several_devices: bool = False
    """Whether only a model that several devices share meets it."""
    compute_capability: float | None = None
    """The CUDA compute capability of the GPUs that meet it; None: any."""
    with_env: str = ""
    """The variable of serving.env without which nobody meets it; empty: none."""
    tools: bool = False
    """Whether only a server that parses tool calls meets it."""
    source: Source


class Quota(Row):
    """A quota of Google that a deployment is counted against; `id` is the name that Google gives it."""

    id: str
    service: str
    unit: Literal["GPU", "GiB", "vCPU", "chips"]
    dimensions: dict[str, str] = {}
    """What of the quota counts, beside its region: the family of the GPUs."""
    per_unit: int
    """How many of the quota's own units make one `unit`: 1,073,741,824 bytes a GiB."""
    default: float | None = None
    """What a project has if nobody asked Google for more, in `unit`; None where reports contradict each other."""
    comes_with_first_deployment: bool = False
    """Whether Google gives `default` only with the first deployment in a region: before that, a project may read as 0."""
    source: Source


class PriceUnit(StrEnum):
    """What a price is per."""

    GPU_HOUR = "gpu-hour"
    CHIP_HOUR = "chip-hour"
    MACHINE_HOUR = "machine-hour"
    VCPU_HOUR = "vcpu-hour"
    GIB_HOUR = "gib-hour"
    GB_MONTH = "gb-month"
    MIBPS_MONTH = "mibps-month"
    IOPS_MONTH = "iops-month"
    VERSION_MONTH = "version-month"


class Price(Row):
    """One list price. `region` is None for a tier-1 price that serves as the stand-in elsewhere."""

    sku: str
    """e.g. cloud-run-l4, cloud-run-vcpu, v6e-flex-start, g4-spot, storage-standard."""
    usd: float
    unit: PriceUnit
    region: str | None = None
    free_allowance: float = 0.0
    """Units a month that cost nothing."""
    source: Source


class PriceOfRegions(Price):
    """The same list price in several regions, as the file has it."""

    regions: tuple[str, ...] = ()

    def each(self) -> Iterator[Price]:
        """Yield the price of each region; without any, the tier-1 price."""
        for region in self.regions or (self.region,):
            yield Price(
                sku=self.sku,
                usd=self.usd,
                unit=self.unit,
                region=region,
                source=self.source,
                free_allowance=self.free_allowance,
            )


class Image(Row):
    """A container image by role."""

    id: Literal["gpu", "tpu", "staging", "gateway"]
    repository: str
    """Registry path without tag, e.g. vllm/vllm-openai (Docker Hub) or gcr.io/…"""
    tag: str
    vllm_version: str | None = None
    newest_release: str | None = None
    """The newest version of vLLM that was on the package index for this kind of device on the source's day."""
    source: Source


class Recipe(Row):
    """A tuned configuration of a model on an accelerator, as settings in the spelling of a stack file."""

    id: str
    model: str
    accelerator: str
    profile: Profile | None = None
    """None: the base recipe of the pair; else laid over it when that profile is asked for."""
    settings: dict[str, object]
    """Dotted setting paths (e.g. serving.maxModelLen) to values."""
    measured_by: str | None = None
    """Who ran it and when; None means unverified."""
    speed_measured_at: tuple[int, ...] = ()
    """Numbers of running requests at which `measured_by` has the speed; empty where only a start is known."""
    corrections: tuple[str, ...] = ()
    """Where the original command was changed, and why."""
    source: Source
