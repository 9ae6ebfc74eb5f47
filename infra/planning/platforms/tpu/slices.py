"""The TPU slices of a stack: how capacity is asked for, how long it is kept, and what stands before them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra.catalog import Accelerator, Catalog, TpuLimits
from infra.errors import CatalogError
from infra.planning.cost.price_lines import LineItem, price_line
from infra.planning.gateway.limits import GatewayPlan, plan_gateway
from infra.planning.gateway.members import TURNS, gateway_members
from infra.planning.names import Names, region_of
from infra.planning.performance.startup import StartupEstimate
from infra.planning.platforms.base import Deployment, QuotaNeed, gateway_month
from infra.planning.platforms.flex_start import SHORTEST_QUEUE_S
from infra.planning.platforms.renewal import RenewalLead
from infra.planning.server.command import PORT as SERVER_PORT
from infra.planning.settings.cidr import neighbour
from infra.planning.settings.declarations import Provisioning, Settings
from infra.planning.units import counted, parse_duration, read_duration, read_minutes, read_predicted, read_usd

GATEWAY, SLICES = "-gate", "-tpu"
"""Ends of names: of the gateway's account; of the slices' subnet, and the tag by which the firewall knows them."""
SLICE_NAMES = ("blue", "green", "red", "amber", "violet", "teal", "pink", "grey")
"""Names for slices that nobody named, as many as tpu.slices takes."""


@dataclass(frozen=True)
class SlicesPlan(Deployment):
    """The slices of a stack, all alike but for their names, which are part of their identity; and the gateway before them,
    whose instance is kept and billed by request."""

    names: tuple[str, ...]
    """`pulumi up` waits for the capacity of the first; a further one joins when it comes. Never empty: a stack that is paused
    without names is planned with one slice."""
    paused: bool
    """Whether none of them is asked for, while all else of the stack stays."""
    zone: str
    accelerator_type: str
    """As the TPU API spells it, e.g. v6e-4."""
    runtime_version: str
    chips: int
    """Of one slice."""
    provisioning: Provisioning
    quota: str
    """The quotas that the chips count against."""
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
    gateway_region: str

    @property
    def region(self) -> str:
        """The zone's own, wherever the gateway is."""
        return region_of(self.zone)

    @property
    def replicas(self) -> int:
        return len(self.names)

    @property
    def requests_each(self) -> int:
        return self.gateway.requests_each

    def member_paths(self) -> Mapping[str, str]:
        return {name: f"/members/{name}" for name in self.names}

    def hosts(self, member: str) -> tuple[str, ...]:
        return tuple(f"{member}-{turn}" for turn in TURNS)

    def log_place(self, names: Names, member: str) -> dict[str, str]:
        return {"kind": "machine", "name": names.member(member), "location": self.zone}

    def services(self, names: Names) -> dict[str, tuple[str, str]]:
        return {"gateway": (names.prefix, self.gateway_region)}

    @property
    def unattended_s(self) -> int:
        """How long the request still stands in the queue after the `pulumi up` that made it has stopped waiting."""
        return max(0, self.valid_until_duration_s - max(self.wait_for_capacity_s, SHORTEST_QUEUE_S))

    @property
    def always_running(self) -> int:
        return 0 if self.paused else super().always_running

    @property
    def ends_after_s(self) -> int | None:
        return self.max_run_duration_s

    def renewal(self, startup: StartupEstimate) -> RenewalLead | None:
        if self.max_run_duration_s is None:
            return None
        return RenewalLead(max(self.valid_until_duration_s, self.wait_for_capacity_s), startup.extremes.high)

    def hour(self, facts: Catalog) -> Iterator[LineItem]:
        yield self._chips(facts, self.provisioning)

    def idle_month(self, facts: Catalog) -> Iterator[LineItem]:
        yield from gateway_month(facts, self.gateway, self.gateway_region)

    def price_notes(self, facts: Catalog) -> Iterator[str]:
        yield "The gateway is priced between requests; while it forwards some, its CPU costs about ten times as much."
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

    @property
    def settings_without_end(self) -> dict[str, Any]:
        return {} if self.max_run_duration_s is None else {"tpu.provisioning": "on-demand"}

    def settings_of(self, replicas: int, requests_each: int) -> dict[str, Any]:
        written: dict[str, Any] = {}
        if self.gateway.requests_each < requests_each:
            written["scaling.concurrency"] = requests_each
        return written | ({"tpu.slices": list(SLICE_NAMES[:replicas])} if replicas > 1 else {})

    def summary(self, usd_per_run: float | None) -> Iterator[tuple[str, str]]:
        ends = "runs until it is deleted"
        if self.max_run_duration_s is not None:
            ends = f"ends after {read_duration(self.max_run_duration_s)}"
        if usd_per_run is not None:
            ends += f" ({read_usd(usd_per_run)})"
        asked = f"{self.provisioning}, queued for at most {read_duration(self.valid_until_duration_s)}"
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
        yield f"machines in {self.subnet_cidr}, the range beside the gateway's {settings.network.subnet_cidr}"
        held = counted(self.gateway.requests_each, "request")
        yield f"the gateway admits {held} at once for each slice that is ready, and answers 429 to the next"
        one = read_predicted(startup.restart, read_duration, ends=read_minutes)
        if self.replicas == 1:
            yield f"a changed flag is an outage of {one}: the server loads, and compiles what the flag changes"
        elif settings.access.ingress == "internal":
            yield f"a changed flag is an outage of {one}: no slice waits for another one that cannot be checked from outside"
        else:
            yield f"a changed flag takes {one} a slice, one after the other; the rest goes on serving"

    def as_json(self) -> dict[str, Any]:
        return {
            "slices": {
                "names": list(self.names),
                "provisioning": self.provisioning,
                "chips": self.chips,
                "quota": self.quota,
                "validUntilDurationS": self.valid_until_duration_s,
                "maxRunDurationS": self.max_run_duration_s,
                "waitForCapacityS": self.wait_for_capacity_s,
                "subnetCidr": self.subnet_cidr,
                "gatewayRequestsEach": self.gateway.requests_each,
            }
        }


def regional(quota: str) -> str:
    """Return the twin of a quota that counts a whole region; the TPU API asks both."""
    return quota.replace("PerZone", "PerRegion")


def limits_of(accelerator: Accelerator) -> TpuLimits:
    """Return what the TPU API is asked for. Raises CatalogError for a machine whose row does not say."""
    if accelerator.tpu is None:
        raise CatalogError(f"accelerators.{accelerator.id} is a TPU and has no limits of the TPU API")
    return accelerator.tpu


def is_paused(settings: Settings) -> bool:
    """Return whether no slice is asked for: by `paused`, or because none is named."""
    return settings.paused or not settings.tpu.slices


def plan_slices(settings: Settings, accelerator: Accelerator, *, gateway_region: str) -> SlicesPlan:
    """Return the slices that the settings ask for."""
    limits, tpu = limits_of(accelerator), settings.tpu
    flex = tpu.provisioning == "flex-start"
    names = tpu.slices or SLICE_NAMES[:1]
    wait_s = parse_duration(tpu.wait_for_capacity)
    default_queue_s = max(wait_s, SHORTEST_QUEUE_S)
    return SlicesPlan(
        names=names,
        paused=is_paused(settings),
        zone=tpu.zone or accelerator.locations[0],
        accelerator_type=limits.accelerator_type,
        runtime_version=limits.runtime_version,
        chips=accelerator.devices,
        provisioning=tpu.provisioning,
        quota=limits.quota_on_demand if tpu.provisioning == "on-demand" else limits.quota,
        known_zones=limits.flex_start_zones if flex else accelerator.locations,
        valid_until_duration_s=parse_duration(tpu.valid_until_duration)
        if tpu.valid_until_duration
        else default_queue_s,
        max_run_duration_s=parse_duration(tpu.max_run_duration) if flex else None,
        wait_for_capacity_s=wait_s,
        subnet_cidr=neighbour(settings.network.subnet_cidr),
        gateway=plan_gateway(
            gateway_members(names, ports=[SERVER_PORT]),
            requests_each=settings.scaling.concurrency,
            request_timeout_s=parse_duration(settings.scaling.request_timeout),
            settings=settings.gateway,
        ),
        gateway_region=gateway_region,
    )
