"""What a plan rents and keeps, from its settings: the bridge between decisions and the arithmetic of cost."""

from __future__ import annotations

from collections.abc import Sequence

from infra.catalog import Accelerator, Catalog
from infra.planning.artifacts import WeightSet
from infra.planning.cost.estimate import CostEstimate, Kept, StagingJob, estimate_cost
from infra.planning.cost.rental import CloudRunRental, MachineRental, Rental, TpuRental
from infra.planning.performance.speed import SpeedEstimate
from infra.planning.performance.startup import IMAGE_BYTES, estimate_staging
from infra.planning.plan import Instance
from infra.planning.platforms.tpu_slices import SlicesPlan
from infra.planning.settings.declarations import Settings

_STAGER_CPU, _STAGER_MEMORY_GIB = 2, 1


def cost_of(
    facts: Catalog,
    settings: Settings,
    rental: Rental,
    *,
    region: str,
    weights: Sequence[WeightSet],
    speed: SpeedEstimate,
) -> CostEstimate:
    """The cost of `rental` with what the stack keeps in `region`: bucket, images, token, and the one-time copy."""
    own = settings.weights.source == "bucket"
    size = sum(one.size_bytes for one in weights)
    kept = Kept(
        region=region,
        bucket_bytes=size if own else 0,
        image_bytes=IMAGE_BYTES,
        secret_versions=1 if settings.hf_token else 0,
    )
    seconds = estimate_staging(size).mid
    staging = StagingJob(region, seconds, _STAGER_CPU, _STAGER_MEMORY_GIB) if own else None
    return estimate_cost(facts, rental, kept=kept, alone=speed.alone, planned=speed.planned, staging=staging)


def rental_of(
    settings: Settings,
    accelerator: Accelerator,
    *,
    region: str,
    location: str,
    instance: Instance | None,
    slices: SlicesPlan | None,
) -> Rental:
    """What is rented to serve: instances, slices, or the machine at `location`."""
    if instance is not None:
        return CloudRunRental(
            accelerator,
            region,
            instance.cpu,
            instance.memory_gib,
            instance.min_instances,
            instance.max_instances,
            settings.scaling.zonal_redundancy,
        )
    if slices is not None:
        return TpuRental(slices, region)
    return MachineRental(accelerator, location)
