"""The TPU slices of a stack: what is asked for, where, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from infra.catalog import Accelerator, Catalog, TpuLimits
from infra.errors import CatalogError
from infra.planning.cost.price_lines import LineItem, price_line
from infra.planning.gateway.members import MEMBER_NAMES, TURNS, gateway_members
from infra.planning.names import Names, region_of
from infra.planning.performance.startup import StartupEstimate
from infra.planning.platforms.base import QuotaNeed
from infra.planning.platforms.behind_gateway import BehindGateway, gateway_before, is_paused, queue_s, run_s
from infra.planning.server.command import PORT
from infra.planning.settings.cidr import neighbour
from infra.planning.settings.declarations import Provisioning, Settings
from infra.planning.units import parse_duration, read_duration, read_minutes, read_predicted, read_usd

SLICES = "-tpu"
"""End of the name of the slices' subnet, and of the tag by which the firewall knows them."""


@dataclass(frozen=True)
class SlicesPlan(BehindGateway):
    """The slices of a stack: `pulumi up` waits for the capacity of the first; a further one joins when it comes."""

    names_setting = "tpu.slices"
    machine_noun = server_noun = "slice"
    api = "The TPU API"
    lasting = "flex-start"

    valid_until_duration_s: int
    """A slice is queued for on all terms."""
    zone: str
    accelerator_type: str
    """As the TPU API spells it, e.g. v6e-4."""
    runtime_version: str
    chips: int
    """Of one slice."""
    quota: str
    """The quotas that the chips count against."""
    known_zones: tuple[str, ...]
    """Zones known to offer this provisioning."""

    @property
    def region(self) -> str:
        return region_of(self.zone)

    def hosts(self, member: str) -> tuple[str, ...]:
        return tuple(f"{member}-{turn}" for turn in TURNS)

    def log_place(self, names: Names, member: str) -> dict[str, str]:
        return {"kind": "machine", "name": names.member(member), "location": self.zone}

    def hour(self, facts: Catalog) -> Iterator[LineItem]:
        yield self._chips(facts, self.provisioning)

    def price_notes(self, facts: Catalog) -> Iterator[str]:
        yield from super().price_notes(facts)
        if self.provisioning != "spot":
            return
        spot, flex = self._chips(facts, "spot"), self._chips(facts, "flex-start")
        if spot.price.usd > flex.price.usd:
            yield f"Spot is dearer here than flex-start: ${spot.price.usd} against ${flex.price.usd} a chip-hour."

    def _chips(self, facts: Catalog, provisioning: Provisioning) -> LineItem:
        return price_line(facts, f"chips, {provisioning}", self.chips, f"v6e-{provisioning}", self.region)

    def quotas(self, facts: Catalog) -> Iterator[QuotaNeed]:
        for name, place in ((self.quota, self.zone), (regional(self.quota), self.region)):
            yield QuotaNeed(facts.quotas[name], place, self.replicas * self.chips)

    @property
    def terms(self) -> str:
        seconds = self.max_run_duration_s
        lasts = "runs until it is deleted" if seconds is None else f"ends after {read_duration(seconds)}"
        return f"{self.provisioning}, waits in a queue for capacity, is paid for while it exists and {lasts}"

    def summary(self, usd_per_run: float | None) -> Iterator[tuple[str, str]]:
        ends = "runs until it is deleted"
        if self.max_run_duration_s is not None:
            ends = f"ends after {read_duration(self.max_run_duration_s)}"
        if usd_per_run is not None:
            ends += f" ({read_usd(usd_per_run)})"
        asked = f"{self.provisioning}, queued up to {read_duration(self.valid_until_duration_s)}"
        if self.paused:
            asked = f"paused; when resumed {self.provisioning}"
        yield "Slices", f"{', '.join(self.names)}: {asked}, {ends}"

    def rows(self, settings: Settings, startup: StartupEstimate) -> Iterator[tuple[str, list[str]]]:
        yield "Slices", list(self._lines(settings, startup))

    def _lines(self, settings: Settings, startup: StartupEstimate) -> Iterator[str]:
        lasts = "until deleted" if self.max_run_duration_s is None else read_duration(self.max_run_duration_s)
        lasts += " or taken back" if self.provisioning == "spot" else ""
        yield (
            f"{', '.join(self.names)}: {self.provisioning}, {lasts}; queued for at most "
            f"{read_duration(self.valid_until_duration_s)}, `pulumi up` waits {read_duration(self.wait_for_capacity_s)}"
        )
        yield from self.gateway_lines(settings)
        one = read_predicted(startup.restart, read_duration, ends=read_minutes)
        if self.replicas == 1:
            yield f"a changed flag is an outage of {one}: the server loads, and compiles what the flag changes"
        elif settings.access.ingress == "internal":
            yield f"a changed flag is an outage of {one}: no slice waits for another one that cannot be checked from outside"
        else:
            yield f"a changed flag takes {one} a slice, one after the other; the rest goes on serving"

    def as_json(self) -> dict[str, Any]:
        return {"slices": {**self.capacity_data(), "chips": self.chips, "quota": self.quota}}


def regional(quota: str) -> str:
    """Return the twin of a quota that counts a whole region; the TPU API asks both."""
    return quota.replace("PerZone", "PerRegion")


def limits_of(accelerator: Accelerator) -> TpuLimits:
    """Return what the TPU API is asked for. Raises CatalogError for a machine whose row does not say."""
    if accelerator.tpu is None:
        raise CatalogError(f"accelerators.{accelerator.id} is a TPU and has no limits of the TPU API")
    return accelerator.tpu


def plan_slices(settings: Settings, accelerator: Accelerator, *, gateway_region: str) -> SlicesPlan:
    """Return the slices that the settings ask for."""
    limits, tpu = limits_of(accelerator), settings.tpu
    names = tpu.slices or MEMBER_NAMES[:1]
    return SlicesPlan(
        names=names,
        paused=is_paused(settings, tpu.slices),
        zone=tpu.zone or accelerator.locations[0],
        accelerator_type=limits.accelerator_type,
        runtime_version=limits.runtime_version,
        chips=accelerator.devices,
        provisioning=tpu.provisioning,
        quota=limits.quota_on_demand if tpu.provisioning == "on-demand" else limits.quota,
        known_zones=limits.flex_start_zones if tpu.provisioning == "flex-start" else accelerator.locations,
        valid_until_duration_s=queue_s(tpu),
        max_run_duration_s=run_s(tpu),
        wait_for_capacity_s=parse_duration(tpu.wait_for_capacity),
        subnet_cidr=neighbour(settings.network.subnet_cidr),
        gateway=gateway_before(gateway_members(names, ports=[PORT]), settings),
        gateway_region=gateway_region,
    )
