"""The TPU slices of a stack: how capacity is asked for, how long it is kept, and what stands before them."""

from __future__ import annotations

from dataclasses import dataclass

from infra.catalog import Accelerator
from infra.planning.gateway.limits import GatewayPlan, plan_gateway
from infra.planning.names import region_of
from infra.planning.settings.cidr import neighbour
from infra.planning.settings.declarations import Provisioning, Settings
from infra.planning.units import parse_duration


@dataclass(frozen=True)
class SlicesPlan:
    """All slices of a stack are alike; they differ in their names, which are part of their identity."""

    names: tuple[str, ...]
    """`pulumi up` waits for the capacity of the first; a further one joins when it comes."""
    zone: str
    accelerator_type: str
    """As the TPU API spells it, e.g. v6e-4."""
    runtime_version: str
    chips: int
    """Of one slice."""
    provisioning: Provisioning
    quota: str
    """What the chips are counted against."""
    known_zones: tuple[str, ...]
    """Zones known to offer this provisioning."""
    valid_until_duration_s: int
    """How long the request may stand in the queue."""
    max_run_duration_s: int | None
    """None: until it is deleted or, for spot, taken away."""
    wait_for_capacity_s: int
    """How long one `pulumi up` waits."""
    subnet_cidr: str
    """Range of the machines, beside the gateway's: the gateway can be let in, and no other."""
    gateway: GatewayPlan

    @property
    def region(self) -> str:
        """The zone's own, wherever the gateway is."""
        return region_of(self.zone)


def plan_slices(settings: Settings, accelerator: Accelerator) -> SlicesPlan | None:
    """None where the accelerator is no TPU."""
    limits, tpu = accelerator.tpu, settings.tpu
    if limits is None:
        return None
    flex = tpu.provisioning == "flex-start"
    return SlicesPlan(
        names=tpu.slices,
        zone=tpu.zone or accelerator.locations[0],
        accelerator_type=limits.accelerator_type,
        runtime_version=limits.runtime_version,
        chips=accelerator.devices,
        provisioning=tpu.provisioning,
        quota=limits.quota_on_demand if tpu.provisioning == "on-demand" else limits.quota,
        known_zones=limits.flex_start_zones if flex else accelerator.locations,
        valid_until_duration_s=parse_duration(tpu.valid_until_duration),
        max_run_duration_s=parse_duration(tpu.max_run_duration) if flex else None,
        wait_for_capacity_s=parse_duration(tpu.wait_for_capacity),
        subnet_cidr=neighbour(settings.network.subnet_cidr),
        gateway=plan_gateway(
            len(tpu.slices), settings.scaling.concurrency, parse_duration(settings.scaling.request_timeout)
        ),
    )
