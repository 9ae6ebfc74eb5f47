"""How long a server needs from nothing to its first answer: image, weights, engine, probe, stage by stage.

Constants are fitted to the few starts that people published (vLLM 0.19 to 0.26, read 2026-11-21; the test of this
module holds them) and reproduce those within 10 %; so few cases from different hands deserve ±40 %. Weights have a band of
their own for each path, because what was seen on a mounted bucket spreads over a factor of fifty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from infra.catalog import GIB, Accelerator, Architecture, Platform
from infra.planning.artifacts import WeightSet
from infra.planning.server.implementations import implementation_of
from infra.planning.server.server import Server
from infra.planning.settings.declarations import Settings
from infra.planning.units import Band, read_duration

ERROR = 0.40
"""Relative error of every stage but the weights."""
IMAGE_BYTES = 10e9
"""Compressed size of the serving image (inferred: an image of 26 to 29 GB held 17.5 GiB of weights)."""
IMPORT_RATE = 37e6
"""Bytes/s of Cloud Run's import of an image that it has not seen: 26 to 29 GB in 12.4 min."""
CONTAINER_S = 45.0
"""Container start and Python imports on a GPU (fitted)."""
PROFILE_LAYER_S = 0.6
"""Seconds a layer that a GPU engine needs to profile memory and warm up (fitted; the split is inferred)."""
COMPILE_LAYER_S = 1.6
"""Seconds a layer of compiling and of capturing CUDA graphs, which eager mode skips (fitted; the split is inferred)."""
VM_BOOT_S = 60.0
"""From an active TPU node or VM until Docker answers."""
VM_PULL_S = 360.0
"""Pull of the serving image on a VM."""
TPU_LOAD_S = 60.0
"""Container start, Python imports and moving the weights to the chips (fitted)."""
TPU_COMPILE_S = 330.0
TPU_COMPILE_PARALLEL_S = 400.0
"""XLA compilation with a cold cache on one chip (E2B to 12B, v6e-1) and on several (31B, v6e-8)."""


class WeightPath(StrEnum):
    """Where the weights come from at a start, and how they are read."""

    STREAM = "streamed from gs://"
    MOUNT_STREAMER = "streamed from the mounted bucket"
    MOUNT_SEQUENTIAL = "read file by file from the mounted bucket"
    MOUNT_MMAP = "mapped from the mounted bucket"
    BUCKET_COPY = "copied from the bucket into memory"
    HUGGING_FACE = "downloaded from Hugging Face"


RATES: dict[WeightPath, Band] = {
    # 58.28 GiB in 73 s (Cloud Run, Direct VPC egress); 17.5 GiB in 64 to 83 s by another tool; best copy 1.05 GiB/s.
    WeightPath.STREAM: Band(0.24 * GIB, 0.80 * GIB, 1.05 * GIB),
    # Sixteen readers, never measured on a mount: taken as above. One reader had 110 MB/s, a buffered copy 1.05 GiB/s.
    WeightPath.MOUNT_STREAMER: Band(0.24 * GIB, 0.80 * GIB, 1.05 * GIB),
    WeightPath.MOUNT_SEQUENTIAL: Band(53e6, 110e6, 1.05 * GIB),
    # 25 min 40 s for one model at 2.2 MB/s; 31B QAT on an L4 with lazy safetensors up in 400 s.
    WeightPath.MOUNT_MMAP: Band(2.2e6, 100e6, 110e6),
    # 64 parallel range reads over Direct VPC egress on Cloud Run; none known from a TPU VM.
    WeightPath.BUCKET_COPY: Band(0.24 * GIB, 0.40 * GIB, 1.05 * GIB),
    # Fitted to E2B, E4B and 12B on v6e-1; a public bucket over the internet gave 46 MiB/s.
    WeightPath.HUGGING_FACE: Band(0.045 * GIB, 0.098 * GIB, 0.30 * GIB),
}
"""Bytes/s by path: the ends are the slowest and the fastest that was reported."""

STAGING_RATE = Band(0.045 * GIB, 0.098 * GIB, 0.19 * GIB)
"""Bytes/s from Hugging Face into the bucket: as the download above, at best what the copy itself manages."""

_SOURCES = {
    Platform.CLOUD_RUN: "starts on Cloud Run: 31B fp8 and 26B NVFP4 on RTX PRO 6000, 31B QAT on L4 (2026-06 to 09)",
    Platform.TPU_QUEUED_RESOURCE: "starts of E2B, E4B and 12B on v6e-1 and of 31B on v6e-8 (2026-07 and 08)",
    Platform.COMPUTE_ENGINE: "no start on Compute Engine was found: stages taken from Cloud Run and from TPU VMs",
}


@dataclass(frozen=True)
class Stage:
    """One part of a start. `repeats`: on each fresh instance; `restarts`: when the server restarts on the same one."""

    name: str
    seconds: Band
    repeats: bool = True
    restarts: bool = True


@dataclass(frozen=True)
class StartupEstimate:
    """The stages of a start in their order. Waiting for capacity is not part of it."""

    stages: tuple[Stage, ...]
    path: WeightPath
    remedies: tuple[str, ...]
    """What would shorten this start, the largest saving first."""
    notes: tuple[str, ...]
    source: str

    @property
    def from_zero(self) -> Band:
        """Seconds from nothing (no instance, or a TPU node that just became active) to the first answer."""
        return Band.total(stage.seconds for stage in self.stages if stage.repeats)

    @property
    def first_deploy(self) -> Band:
        """As `from_zero`, with what only the first deployment of an image pays."""
        return Band.total(stage.seconds for stage in self.stages)

    @property
    def restart(self) -> Band:
        """Seconds without an answer when only the server restarts, e.g. for a changed flag on a TPU slice."""
        return Band.total(stage.seconds for stage in self.stages if stage.repeats and stage.restarts)


def weight_path(
    platform: Platform, *, source: str, access: str, load_format: str, safetensors_load_strategy: str | None
) -> WeightPath:
    """The path that these settings take; arguments are spelled as in a stack file, `load_format` is resolved."""
    if source == "huggingface":
        return WeightPath.HUGGING_FACE
    if platform is not Platform.CLOUD_RUN:
        return WeightPath.BUCKET_COPY
    if access == "stream":
        return WeightPath.STREAM
    if load_format == "runai_streamer":
        return WeightPath.MOUNT_STREAMER
    return WeightPath.MOUNT_SEQUENTIAL if safetensors_load_strategy in ("eager", "prefetch") else WeightPath.MOUNT_MMAP


def startup_of(
    settings: Settings, server: Server, weights: Iterable[WeightSet], *, probe_period_s: int
) -> StartupEstimate:
    """Return the start of `server`, whose checkpoints come as `settings` say; `probe_period_s`: 0 without a probe."""
    path = weight_path(
        server.accelerator.platform,
        source=settings.weights.source,
        access=settings.weights.access,
        load_format=server.load_format,
        safetensors_load_strategy=settings.serving.safetensors_load_strategy,
    )
    return estimate_startup(
        server.architecture,
        server.accelerator,
        weight_bytes=sum(one.size_bytes for one in weights),
        path=path,
        enforce_eager=server.enforce_eager,
        probe_period_s=probe_period_s,
    )


def estimate_startup(
    architecture: Architecture,
    accelerator: Accelerator,
    *,
    weight_bytes: int,
    path: WeightPath,
    enforce_eager: bool,
    probe_period_s: int,
) -> StartupEstimate:
    """The start of a server that reads `weight_bytes` of checkpoints by `path`; `probe_period_s`: 0 without a probe."""
    weights = RATES[path].dividing(weight_bytes)
    if accelerator.platform is Platform.CLOUD_RUN:
        stages = _cloud_run(architecture, weights, path, enforce_eager, probe_period_s)
    elif accelerator.platform is Platform.TPU_QUEUED_RESOURCE:
        stages = _tpu(accelerator, weights, path)
    else:
        stages = _vm(architecture, weights, path, enforce_eager)
    return StartupEstimate(
        stages=tuple(stages),
        path=path,
        remedies=tuple(_remedies(architecture, accelerator, weight_bytes, path, enforce_eager)),
        notes=tuple(_notes(accelerator, path)),
        source=_SOURCES[accelerator.platform],
    )


def estimate_staging(weight_bytes: int) -> Band:
    """Seconds that the one-time copy of a checkpoint from Hugging Face into the bucket takes."""
    return STAGING_RATE.dividing(weight_bytes)


def _cloud_run(
    architecture: Architecture, weights: Band, path: WeightPath, eager: bool, probe_period_s: int
) -> Iterator[Stage]:
    yield Stage("image import", Band.around(IMAGE_BYTES / IMPORT_RATE, 0.5, error_up=1.0), repeats=False)
    yield Stage("container", Band.around(CONTAINER_S, ERROR))
    yield Stage(f"weights {path.value}", weights)
    yield from _gpu_engine(architecture, eager)
    yield Stage("probe", Band(0.0, probe_period_s / 2, float(probe_period_s)))


def _tpu(accelerator: Accelerator, weights: Band, path: WeightPath) -> Iterator[Stage]:
    compile_s = TPU_COMPILE_S if accelerator.devices == 1 else TPU_COMPILE_PARALLEL_S
    yield Stage("machine and Docker", Band.around(VM_BOOT_S, ERROR), restarts=False)
    yield Stage("image pull", Band.around(VM_PULL_S, ERROR), restarts=False)
    yield Stage(f"weights {path.value}", weights, restarts=False)
    yield Stage("container and load", Band.around(TPU_LOAD_S, ERROR))
    yield Stage("XLA compilation", Band.around(compile_s, ERROR))


def _vm(architecture: Architecture, weights: Band, path: WeightPath, eager: bool) -> Iterator[Stage]:
    yield Stage("machine and Docker", Band.around(VM_BOOT_S, ERROR), restarts=False)
    yield Stage("image pull", Band.around(VM_PULL_S, ERROR), restarts=False)
    yield Stage(f"weights {path.value}", weights, restarts=False)
    yield Stage("container", Band.around(CONTAINER_S, ERROR))
    yield from _gpu_engine(architecture, eager)


def _gpu_engine(architecture: Architecture, eager: bool) -> Iterator[Stage]:
    yield Stage("engine profile", Band.around(PROFILE_LAYER_S * architecture.layers, ERROR))
    if not eager:
        yield Stage("compile and CUDA graphs", Band.around(COMPILE_LAYER_S * architecture.layers, ERROR))


def _remedies(
    architecture: Architecture, accelerator: Accelerator, weight_bytes: int, path: WeightPath, eager: bool
) -> Iterator[str]:
    streamed = read_duration(RATES[WeightPath.MOUNT_STREAMER].dividing(weight_bytes).mid)
    if path in (WeightPath.MOUNT_MMAP, WeightPath.MOUNT_SEQUENTIAL):
        yield f"serving.loadFormat: runai_streamer reads the weights in about {streamed}."
    if path is WeightPath.HUGGING_FACE:
        yield "weights.source: bucket downloads from Hugging Face once instead of at every start."
    if implementation_of(accelerator).eager_starts_sooner and not eager:
        saved = read_duration(COMPILE_LAYER_S * architecture.layers)
        yield f"serving.enforceEager: true skips about {saved} of compiling and slows down decoding."


def _notes(accelerator: Accelerator, path: WeightPath) -> Iterator[str]:
    if path is WeightPath.MOUNT_MMAP:
        yield "Mapping weights from a mounted bucket means random reads: 2 to 110 MB/s were seen."
    if path is WeightPath.MOUNT_STREAMER:
        yield "The streamer was measured on gs:// paths; from a mount it is taken to be as fast."
    if accelerator.platform is Platform.TPU_QUEUED_RESOURCE:
        yield "Waiting for capacity comes first and takes minutes to hours; the compile cache ends with the slice."
    if accelerator.platform is Platform.COMPUTE_ENGINE:
        yield "No start on this platform was found: the estimate puts together stages of others."
