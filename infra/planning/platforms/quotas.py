"""The quotas that a stack is counted against, how much of each it needs, and whether a usual project has that much.

What a project really has is not known here: the catalog holds what new projects were seen to have. Cloud Run refuses a
service that could grow beyond its quotas, so all of `scaling.maxInstances` count, whatever runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infra.catalog import Accelerator, Catalog
from infra.errors import Fault
from infra.planning.plan import Instance, QuotaNeed
from infra.planning.platforms.tpu_slices import SlicesPlan

MEMORY, CPU = "MemAllocPerProjectRegion", "CpuAllocPerProjectRegion"
WHERE = "https://console.cloud.google.com/iam-admin/quotas"


def regional(quota: str) -> str:
    """The twin that counts a whole region; the TPU API asks both."""
    return quota.replace("PerZone", "PerRegion")


def quota_needs(
    facts: Catalog,
    accelerator: Accelerator,
    *,
    region: str,
    instance: Instance | None,
    slices: SlicesPlan | None,
    zonal_redundancy: bool,
) -> tuple[QuotaNeed, ...]:
    """What the stack needs, the devices first; empty where the platform's quotas are not on file (Compute Engine)."""
    limits = accelerator.cloud_run
    if instance is not None and limits is not None:
        gpus = limits.quota_zonal_redundancy if zonal_redundancy else limits.quota
        each = ((gpus, accelerator.devices), (MEMORY, instance.memory_gib), (CPU, instance.cpu))
        return tuple(QuotaNeed(facts.quotas[name], region, instance.max_instances * size) for name, size in each)
    if slices is not None:
        chips, places = len(slices.names) * slices.chips, (slices.zone, slices.region)
        names = (slices.quota, regional(slices.quota))
        return tuple(QuotaNeed(facts.quotas[name], place, chips) for name, place in zip(names, places, strict=True))
    return ()


def check_quotas(needs: Sequence[QuotaNeed], accelerator: Accelerator, instance: Instance | None) -> Iterator[Fault]:
    """A warning where a project with the usual quotas cannot hold the stack: found out last, it costs the most."""
    beyond = [need for need in needs if need.beyond_default()]
    if not beyond or instance is None:
        return
    amounts = ", ".join(f"{need.amount:g} {need.quota.unit} of {need.quota.id}" for need in beyond)
    usual = ", ".join(f"{need.quota.default:g}" for need in beyond)
    fewer = min(int(instance.max_instances * (need.quota.default or 0) // need.amount) for need in beyond)
    fact = f"{amounts} in {beyond[0].place}; a new project was seen to have {usual}."
    consequence = "With no more than that, Cloud Run refuses the service after images and weights are in place."
    fix = f"Before the first up, look at {WHERE} and ask for more"
    if instance.max_instances == 1:
        smaller = [f"leave {key} out" for key in _enlarged(beyond, accelerator)]
        yield Fault("accelerator", f"one instance needs {fact}", consequence, f"{', or '.join([fix, *smaller])}.")
    else:
        fix += f", or write scaling.maxInstances: {fewer}." if fewer else "."
        yield Fault("scaling.maxInstances", f"{instance.max_instances} instances need {fact}", consequence, fix)


def _enlarged(beyond: Sequence[QuotaNeed], accelerator: Accelerator) -> Iterator[str]:
    """The settings that alone make an instance larger than a usual project holds: its machine's own size would pass."""
    limits = accelerator.cloud_run
    if limits is None:
        return
    own = {MEMORY: ("scaling.memoryGib", limits.default_memory_gib), CPU: ("scaling.cpu", limits.default_cpu)}
    for need in beyond:
        key, size = own.get(need.quota.id, ("", 0))
        if key and size <= (need.quota.default or 0):
            yield key


def update_note(needs: Sequence[QuotaNeed]) -> Iterator[str]:
    """What an update may need for a while, where that is more than a project usually has."""
    beyond = [need for need in needs if need.beyond_default(times=2)]
    if beyond:
        amounts = ", ".join(f"{2 * need.amount:g} {need.quota.unit}" for need in beyond)
        yield (
            f"Cloud Run may count old and new revision together while it updates, here {amounts} (reported, not "
            "documented); refused, the old one goes on serving."
        )
