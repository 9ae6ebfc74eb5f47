"""How long a server needs from nothing to its first answer: image, weights, engine, probe, stage by stage.

Each stage has a time or a rate in `infra/catalog/starts.toml`, with its source. The engine's time is a constant: compiling
took 77 s for 35 layers of E2B and 66 s for 60 layers of 31B. What decides how long a stage takes (the registry, the bucket, the
machine's processors) has nothing to do with what decides the next one, so the errors of stages with different causes are
added as independent ones, and those with one cause as if they all fell on one side. Probes and time-outs go by `extremes`
instead, with all errors on one side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from infra.catalog import GIB, catalog
from infra.planning.server.server import Server
from infra.planning.settings.declarations import Settings
from infra.planning.units import Band, read_duration, read_minutes, read_predicted

IMAGE_BYTES = 10e9
"""Compressed size of the serving image (inferred: an image of 26 to 29 GB held 17.5 GiB of weights)."""

Cause = Literal["registry", "storage", "host", "machine", "probe"]
"""What decides how long a stage takes: the registry and its image, where the weights lie, the processors that import and
compile, Google's starting of a machine, and the probe's period."""


class WeightPath(StrEnum):
    """Where the weights come from at a start, and how they are read."""

    STREAM = "streamed from gs://"
    MOUNT_STREAMER = "streamed from the mounted bucket"
    MOUNT_SEQUENTIAL = "read file by file from the mounted bucket"
    MOUNT_MMAP = "mapped from the mounted bucket"
    BUCKET_COPY = "copied from the bucket into memory"
    HUGGING_FACE = "downloaded from Hugging Face"


@dataclass(frozen=True)
class Stage:
    """One part of a start. `repeats`: on each fresh instance; `restarts`: when the server restarts on the same one."""

    name: str
    seconds: Band
    cause: Cause
    repeats: bool = True
    restarts: bool = True
    cached: Band | None = None
    """Its seconds where the machine kept what it made before; None where no machine keeps anything of it."""


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
        return _whole(stage for stage in self.stages if stage.repeats)

    @property
    def extremes(self) -> Band:
        """`from_zero` with the errors of all stages on one side: no probe and no time-out may be shorter than its upper end."""
        return Band.total(stage.seconds for stage in self.stages if stage.repeats)

    @property
    def first_deploy(self) -> Band:
        """Seconds from nothing to the first answer when an image is deployed for the first time: `from_zero` and its import."""
        return _whole(self.stages)

    @property
    def longest_import_s(self) -> float:
        """The most seconds that go by before the start of an image that is deployed for the first time."""
        return sum(stage.seconds.high for stage in self.stages if not stage.repeats)

    @property
    def ready_timeout_s(self) -> int:
        """Seconds to wait for readiness unless a setting says, in whole minutes: 10 minutes, twice the estimate, or the
        longest start."""
        return max(600, 60 * math.ceil(max(2 * self.from_zero.mid, self.extremes.high) / 60))

    @property
    def restart(self) -> Band:
        """Seconds without an answer when only the server restarts, e.g. for a changed flag on a TPU slice.

        At best the machine kept all programs; likelier, the flag has changed them.
        """
        again = [stage for stage in self.stages if stage.repeats and stage.restarts]
        return _whole(
            replace(stage, seconds=replace(stage.seconds, low=stage.cached.low)) if stage.cached else stage
            for stage in again
        )


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
    return _rate("staging").dividing(weight_bytes)


def read_rate(path: WeightPath) -> Band:
    """Return the bytes/s at which weights come by `path`."""
    return _rate(path.name.lower().replace("_", "-"))


def weights_stage(weight_bytes: int, path: WeightPath) -> Stage:
    """Return the reading of `weight_bytes` of checkpoints by `path`."""
    return Stage(f"weights {path.value}", read_rate(path).dividing(weight_bytes), "storage")


def machine_stages(weights: Stage) -> Iterator[Stage]:
    """Yield what a machine does before its container starts; a server that restarts on it finds all of it done."""
    yield Stage("machine and Docker", stage_seconds("machine"), "machine", restarts=False)
    yield Stage("image pull", stage_seconds("image-pull"), "registry", restarts=False)
    yield replace(weights, restarts=False)


def container_stage(server: Server) -> Stage:
    """Return the start of the container and of Python in it; on TPU also of moving the weights to the chips."""
    if not server.implementation.uses_cuda:
        return Stage("container and load", stage_seconds("tpu-container"), "host")
    return Stage("container", stage_seconds("cuda-container"), "host")


def engine_stages(server: Server) -> Iterator[Stage]:
    """Yield what vLLM does between reading the weights and its first answer."""
    if not server.implementation.uses_cuda:
        chips = "one" if server.accelerator.devices == 1 else "several"
        yield Stage("engine profile", stage_seconds("tpu-profile"), "host")
        compile_s = stage_seconds(f"tpu-compile-{chips}")
        yield Stage("XLA compilation", compile_s, "host", cached=stage_seconds("tpu-compile-cached"))
    elif server.enforce_eager:
        yield Stage("engine profile", stage_seconds("cuda-profile-eager"), "host")
    else:
        yield Stage("engine profile and CUDA graphs", stage_seconds("cuda-profile"), "host")
        yield Stage("compile", stage_seconds("cuda-compile"), "host")


def cached_engine_seconds(server: Server) -> Band:
    """Return the seconds of the engine's start with a cache in which all of its compiled programs are found."""
    if server.implementation.uses_cuda:
        return stage_seconds("cuda-engine-cached")
    return Band.total(stage.cached or stage.seconds for stage in engine_stages(server))


def start_remedies(server: Server, weight_bytes: int, path: WeightPath) -> Iterator[str]:
    """Yield what would shorten a start, the largest saving first."""
    streamed = _read(read_rate(WeightPath.MOUNT_STREAMER).dividing(weight_bytes))
    if path in (WeightPath.MOUNT_MMAP, WeightPath.MOUNT_SEQUENTIAL):
        yield f"serving.loadFormat: runai_streamer reads the weights in {streamed}."
    if path is WeightPath.HUGGING_FACE:
        yield "weights.source: bucket downloads from Hugging Face once instead of at every start."
    if server.implementation.eager_starts_sooner and not server.enforce_eager:
        saved = _read(stage_seconds("cuda-compile"))
        yield f"serving.enforceEager: true skips {saved} of compiling and slows down decoding."


def _read(seconds: Band) -> str:
    return read_predicted(seconds, read_duration, ends=read_minutes)


def path_notes(path: WeightPath) -> Iterator[str]:
    """Yield what is not plain about the way in which the weights are read."""
    if path is WeightPath.MOUNT_MMAP:
        yield "Mapping weights from a mounted bucket means random reads: 2 to 110 MB/s were seen."
    if path is WeightPath.MOUNT_STREAMER:
        yield "The streamer was measured on gs:// paths; from a mount it is taken to be as fast."


def _whole(stages: Iterable[Stage]) -> Band:
    """Return the sum of stages: errors of one cause fall on one side together, those of different causes do not."""
    by_cause: dict[Cause, list[Band]] = {}
    for stage in stages:
        by_cause.setdefault(stage.cause, []).append(stage.seconds)
    return Band.independent_total(Band.total(parts) for parts in by_cause.values())


def stage_seconds(stage: str) -> Band:
    """Return how long a stage of the catalog takes."""
    return Band(*catalog().stage_times[stage].seconds)


def _rate(path: str) -> Band:
    return Band(*catalog().read_rates[path].gib_per_second).times(GIB)
