"""How long a server needs from nothing to its first answer: image, weights, engine, probe, stage by stage.

Constants are fitted to the few starts that people published (vLLM 0.19 to 0.26, read 2026-11-21; the test of this
module holds them) and reproduce those within 10 %; so few cases from different hands deserve ±40 %. Weights have a band of
their own for each path, because what was seen on a mounted bucket spreads over a factor of fifty.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from infra.catalog import GIB
from infra.planning.server.server import Server
from infra.planning.settings.declarations import Settings
from infra.planning.units import Band, read_duration

ERROR = 0.40
"""Relative error of every stage but the weights."""
IMAGE_BYTES = 10e9
"""Compressed size of the serving image (inferred: an image of 26 to 29 GB held 17.5 GiB of weights)."""
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
        """Seconds from nothing to the first answer when an image is deployed for the first time: `from_zero` and its import."""
        return Band.total(stage.seconds for stage in self.stages)

    @property
    def ready_timeout_s(self) -> int:
        """Seconds to wait for readiness unless a setting says: 10 minutes or twice the estimate, in whole minutes."""
        return max(600, 60 * math.ceil(2 * self.from_zero.mid / 60))

    @property
    def restart(self) -> Band:
        """Seconds without an answer when only the server restarts, e.g. for a changed flag on a TPU slice."""
        return Band.total(stage.seconds for stage in self.stages if stage.repeats and stage.restarts)


def weight_path(settings: Settings, server: Server) -> WeightPath:
    """Return where the weights of `server` come from at a start, and how they are read."""
    if settings.weights.from_hub:
        return WeightPath.HUGGING_FACE
    if not server.hosting.mounts_bucket:
        return WeightPath.BUCKET_COPY
    if settings.weights.access == "stream":
        return WeightPath.STREAM
    if server.streamed:
        return WeightPath.MOUNT_STREAMER
    in_order = settings.serving.safetensors_load_strategy in ("eager", "prefetch")
    return WeightPath.MOUNT_SEQUENTIAL if in_order else WeightPath.MOUNT_MMAP


def estimate_staging(weight_bytes: int) -> Band:
    """Return the seconds that the one-time copy of a checkpoint from Hugging Face into the bucket takes."""
    return STAGING_RATE.dividing(weight_bytes)


def weights_stage(weight_bytes: int, path: WeightPath) -> Stage:
    """Return the reading of `weight_bytes` of checkpoints by `path`."""
    return Stage(f"weights {path.value}", RATES[path].dividing(weight_bytes))


def machine_stages(weights: Stage) -> Iterator[Stage]:
    """Yield what a machine does before its container starts; a server that restarts on it finds all of it done."""
    yield Stage("machine and Docker", Band.around(VM_BOOT_S, ERROR), restarts=False)
    yield Stage("image pull", Band.around(VM_PULL_S, ERROR), restarts=False)
    yield replace(weights, restarts=False)


def container_stage(server: Server) -> Stage:
    """Return the start of the container and of Python in it; on TPU also of moving the weights to the chips."""
    if not server.implementation.uses_cuda:
        return Stage("container and load", Band.around(TPU_LOAD_S, ERROR))
    return Stage("container", Band.around(CONTAINER_S, ERROR))


def engine_stages(server: Server) -> Iterator[Stage]:
    """Yield what vLLM does between reading the weights and its first answer."""
    if not server.implementation.uses_cuda:
        compile_s = TPU_COMPILE_S if server.accelerator.devices == 1 else TPU_COMPILE_PARALLEL_S
        yield Stage("XLA compilation", Band.around(compile_s, ERROR))
        return
    yield Stage("engine profile", Band.around(PROFILE_LAYER_S * server.architecture.layers, ERROR))
    if not server.enforce_eager:
        yield Stage("compile and CUDA graphs", Band.around(COMPILE_LAYER_S * server.architecture.layers, ERROR))


def start_remedies(server: Server, weight_bytes: int, path: WeightPath) -> Iterator[str]:
    """Yield what would shorten a start, the largest saving first."""
    streamed = read_duration(RATES[WeightPath.MOUNT_STREAMER].dividing(weight_bytes).mid)
    if path in (WeightPath.MOUNT_MMAP, WeightPath.MOUNT_SEQUENTIAL):
        yield f"serving.loadFormat: runai_streamer reads the weights in about {streamed}."
    if path is WeightPath.HUGGING_FACE:
        yield "weights.source: bucket downloads from Hugging Face once instead of at every start."
    if server.implementation.eager_starts_sooner and not server.enforce_eager:
        saved = read_duration(COMPILE_LAYER_S * server.architecture.layers)
        yield f"serving.enforceEager: true skips about {saved} of compiling and slows down decoding."


def path_notes(path: WeightPath) -> Iterator[str]:
    """Yield what is not plain about the way in which the weights are read."""
    if path is WeightPath.MOUNT_MMAP:
        yield "Mapping weights from a mounted bucket means random reads: 2 to 110 MB/s were seen."
    if path is WeightPath.MOUNT_STREAMER:
        yield "The streamer was measured on gs:// paths; from a mount it is taken to be as fast."
