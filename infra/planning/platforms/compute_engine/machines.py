"""The machines of a stack: of which types, where, how many servers each runs, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.catalog import Accelerator, Catalog, ComputeEngineLimits, Price, catalog
from infra.errors import CatalogError
from infra.planning.cost.price_lines import MONTH_H, LineItem, price_line
from infra.planning.gateway.members import MEMBER_NAMES, TURNS, GatewayMember, gateway_members
from infra.planning.names import Names, region_of
from infra.planning.performance.startup import StartupEstimate
from infra.planning.platforms.base import QuotaNeed
from infra.planning.platforms.behind_gateway import BehindGateway, gateway_before, is_paused, queue_s, run_s
from infra.planning.server.command import PORT
from infra.planning.settings.cidr import neighbour
from infra.planning.settings.declarations import Provisioning, Settings
from infra.planning.units import counted, parse_duration, read_duration, read_minutes, read_predicted, read_usd

MACHINES = "-gpu"
"""End of the name of the machines' subnet, and of the tag by which the firewall knows them."""
FREE_IOPS, FREE_THROUGHPUT = 3000, 140
"""What a disk of Hyperdisk Balanced does free of charge, a second: operations and MiB."""
IOPS_PER_MIBPS = 4
"""Operations a second that a disk must have for each MiB/s of throughput."""
ALL_REGIONS = "global"
"""Where the quota of all GPUs of a project counts."""


@dataclass(frozen=True)
class MachineServer:
    """One of the servers on a machine."""

    suffix: str
    """What follows the machine's name in the server's: -0 of the first of several, nothing of the only one."""
    port: int
    devices: tuple[int, ...]
    """Numbers of its GPUs; empty: all that the machine has."""


@dataclass(frozen=True)
class BootDisk:
    """A disk of Hyperdisk Balanced."""

    size_gb: int
    throughput_mibps: int

    @property
    def iops(self) -> int:
        """The fewest operations a second that the throughput asks for, and no fewer than are free."""
        return max(FREE_IOPS, IOPS_PER_MIBPS * self.throughput_mibps)


@dataclass(frozen=True)
class MachinesPlan(BehindGateway):
    """The machines of a stack, each with as many servers as its GPUs allow. A replica is one server."""

    names_setting = "machine.names"
    machine_noun = "machine"
    server_noun = "server"
    api = "Compute Engine"
    lasting = None

    zones: tuple[str, ...]
    """Of one region: Google may place a machine in any of them."""
    shapes: tuple[str, ...]
    """Machine types in order of preference. Each runs `servers`."""
    family: str
    """Of the machine types, by which their GPUs are priced: g4."""
    gpus: int
    """Of the first shape."""
    servers: tuple[MachineServer, ...]
    """On each machine."""
    turns: tuple[str, ...]
    """Of machines that are followed by others of their name; empty where the same machine comes back."""
    limits: ComputeEngineLimits
    image: str
    """The system's, as Compute Engine takes it."""
    disk: BootDisk

    @property
    def region(self) -> str:
        return region_of(self.zones[0])

    @property
    def ports(self) -> tuple[int, ...]:
        """Of the servers on a machine, in their order."""
        return tuple(server.port for server in self.servers)

    def members(self) -> tuple[GatewayMember, ...]:
        """Return every server that the gateway knows, whether or not it is there."""
        return self.gateway.members

    @property
    def together(self) -> int:
        return len(self.servers)

    def member_paths(self) -> Mapping[str, str]:
        if self.turns:  # which of the turns serves is not known here
            return super().member_paths()
        return {server: path for name in self.names for server, path in self.paths_of(name).items()}

    def paths_of(self, machine: str) -> Mapping[str, str]:
        """Return, by the name of each server on a machine of that name, the path that selects it at the stack's address."""
        own = (one for one in self.members() if one.group == machine)
        return {one.name: f"/members/{one.name}" for one in own}

    def machine_of(self, member: str) -> str:
        """Return the name of the machine that a server, or itself, is on: blue of blue-0."""
        return next((one.group for one in self.members() if one.name == member), member)

    def hosts(self, member: str) -> tuple[str, ...]:
        return (self.machine_of(member),)

    def log_place(self, names: Names, member: str) -> dict[str, str]:
        # One log a machine, and it says the region: Google chooses the zone.
        return {"kind": "machine", "name": names.member(self.machine_of(member)), "location": self.region}

    def hour(self, facts: Catalog) -> Iterator[LineItem]:
        """Return the price lines of one server: its GPUs, and its share of the machine's disk."""
        share = 1 / len(self.servers)
        yield price_line(facts, f"GPUs, {self.provisioning}", self.gpus * share, self._sku(), self.region)
        over_h = share / MONTH_H
        yield price_line(facts, "disk", self.disk.size_gb * over_h, "hyperdisk-balanced", self.region)
        for label, sku, beyond in (
            ("disk throughput", "hyperdisk-balanced-throughput", self.disk.throughput_mibps - FREE_THROUGHPUT),
            ("disk operations", "hyperdisk-balanced-iops", self.disk.iops - FREE_IOPS),
        ):
            if beyond > 0:
                yield price_line(facts, label, beyond * over_h, sku, self.region)

    def _sku(self, provisioning: Provisioning | None = None) -> str:
        return f"{self.family}-{provisioning or self.provisioning}"

    def price_notes(self, facts: Catalog) -> Iterator[str]:
        yield from super().price_notes(facts)
        price = self._price(facts)
        if self.provisioning == "spot":
            yield f"Spot prices move from month to month: this one was read on {price.source.read:%d %B %Y}."
        if self.provisioning == "flex-start":
            spot = facts.price(self._sku("spot"), self.region)
            yield (
                f"Flex-start at about ${price.usd:g} a GPU rests on one report, and on Google's word that it is up to 53 % "
                f"below on demand; spot, which may be taken back, is ${spot.usd:g} here."
            )
        for shape in self.shapes[1:]:
            if (gpus := gpus_of(shape)) > self.gpus:
                yield (
                    f"On a {shape}, which is taken where there is no {self.shapes[0]}, an hour costs "
                    f"{read_usd(gpus * price.usd)}: {gpus - self.gpus} of its {gpus} GPUs are idle."
                )

    def _price(self, facts: Catalog) -> Price:
        return facts.price(self._sku(), self.region)

    def quotas(self, facts: Catalog) -> Iterator[QuotaNeed]:
        own = self.limits.quota_on_demand if self.provisioning == "on-demand" else self.limits.quota
        for name, place in ((own, self.region), (self.limits.quota_all_regions, ALL_REGIONS)):
            yield QuotaNeed(facts.quotas[name], place, self.machines * max(self.gpus, *map(gpus_of, self.shapes)))

    @property
    def terms(self) -> str:
        if self.provisioning == "on-demand":
            return super().terms
        if self.provisioning == "spot":
            return "spot, is paid for while it exists and may be taken back at any time"
        lasts = read_duration(self.max_run_duration_s or 0)
        return f"flex-start, waits in a queue for capacity, is paid for while it exists and ends after {lasts}"

    def summary(self, usd_per_run: float | None) -> Iterator[tuple[str, str]]:
        ends = f", ends after {read_duration(self.max_run_duration_s)}" if self.max_run_duration_s else ""
        ends += f" ({read_usd(usd_per_run)})" if usd_per_run is not None else ""
        paused = "paused; when resumed " if self.paused else ""
        yield "Machine", f"{self._named()}: {paused}{self.provisioning}{ends}, {self._served()}"

    def _named(self) -> str:
        return ", ".join(self.names)

    def _served(self) -> str:
        each = len(self.servers[0].devices) or self.gpus
        return f"{counted(len(self.servers), 'server')} of {counted(each, 'GPU')}{' each' if self.together > 1 else ''}"

    def rows(self, settings: Settings, startup: StartupEstimate) -> Iterator[tuple[str, list[str]]]:
        yield "Machine", list(self._lines(settings, startup))

    def _lines(self, settings: Settings, startup: StartupEstimate) -> Iterator[str]:
        lasts = {"on-demand": "until deleted", "spot": "until deleted or taken back"}.get(self.provisioning, "")
        if self.valid_until_duration_s is not None and self.max_run_duration_s is not None:
            queued = read_duration(self.valid_until_duration_s)
            lasts = f"{read_duration(self.max_run_duration_s)}; queued for at most {queued}"
        yield (
            f"{self._named()}: {' or '.join(self.shapes)} in {' or '.join(self.zones)}, {self.provisioning}, {lasts}; "
            f"`pulumi up` waits {read_duration(self.wait_for_capacity_s)}"
        )
        ports = f"ports {self.ports[0]} to {self.ports[-1]}" if self.together > 1 else f"port {self.ports[0]}"
        yield f"on each: {self._served()}, {ports}; one copy of the weights in /dev/shm"
        yield (
            f"{self.image}; disk of {self.disk.size_gb} GB, {self.disk.throughput_mibps} MiB/s and {self.disk.iops:,} "
            "operations a second"
        )
        yield from self.gateway_lines(settings)
        one = read_predicted(startup.restart, read_duration, ends=read_minutes)
        if self.replicas == 1:
            yield f"a changed flag is an outage of {one}: the server loads again"
        elif self.together == 1 and settings.access.ingress == "internal":
            yield f"a changed flag is an outage of {one}: no machine waits for another one that cannot be checked from outside"
        else:
            yield f"a changed flag takes {one} a server, one after the other; the rest goes on serving"

    def as_json(self) -> dict[str, Any]:
        return {
            "machines": {
                **self.capacity_data(),
                "zones": list(self.zones),
                "shapes": list(self.shapes),
                "gpus": self.gpus,
                "servers": [
                    {"suffix": one.suffix, "port": one.port, "devices": list(one.devices)} for one in self.servers
                ],
                "members": [one.name for one in self.members()],
                "image": self.image,
                "diskGb": self.disk.size_gb,
                "diskThroughputMibps": self.disk.throughput_mibps,
                "diskIops": self.disk.iops,
            }
        }


def limits_of(accelerator: Accelerator) -> ComputeEngineLimits:
    """Return what Compute Engine is asked for. Raises CatalogError for a machine whose row does not say."""
    if accelerator.compute_engine is None:
        raise CatalogError(f"accelerators.{accelerator.id} is on Compute Engine and has no limits of it")
    return accelerator.compute_engine


def gpus_of(shape: str) -> int:
    """Return how many GPUs a machine type of the catalog has; 0 for one that is not in it."""
    return next((one.devices for one in catalog().accelerators.values() if one.machine_type == shape), 0)


def servers_on(gpus: int, tensor_parallel: int, shapes: Sequence[str]) -> tuple[MachineServer, ...]:
    """Return the servers of `tensor_parallel` GPUs each that `gpus` GPUs allow; GPUs that a larger shape has are left alone."""
    count = max(1, gpus // tensor_parallel)
    if tensor_parallel == gpus and all(gpus_of(shape) == gpus for shape in shapes):
        return (MachineServer("", PORT, ()),)
    groups = (tuple(range(at * tensor_parallel, (at + 1) * tensor_parallel)) for at in range(count))
    return tuple(
        MachineServer(f"-{number}" if count > 1 else "", PORT + number, devices)
        for number, devices in enumerate(groups)
    )


def zones_of(settings: Settings, accelerator: Accelerator) -> tuple[str, ...]:
    """Return the zones in which a machine may be."""
    return settings.machine.zones or accelerator.locations[:1]


def plan_machines(settings: Settings, accelerator: Accelerator, *, gateway_region: str) -> MachinesPlan:
    """Return the machines that the settings ask for."""
    machine, flex = settings.machine, settings.machine.provisioning == "flex-start"
    own_type = accelerator.machine_type or accelerator.id
    names, turns = machine.names or MEMBER_NAMES[:1], TURNS if flex else ()
    shapes = machine.shapes or (own_type,)
    servers = servers_on(accelerator.devices, settings.serving.tensor_parallel_size or accelerator.devices, shapes)
    return MachinesPlan(
        names=names,
        paused=is_paused(settings, machine.names),
        zones=zones_of(settings, accelerator),
        shapes=shapes,
        family=own_type.partition("-")[0],
        gpus=gpus_of(shapes[0]) or accelerator.devices,
        servers=servers,
        turns=turns,
        provisioning=machine.provisioning,
        limits=limits_of(accelerator),
        image=_full_name(machine.image),
        disk=BootDisk(machine.disk_gb, machine.disk_throughput),
        max_run_duration_s=run_s(machine),
        valid_until_duration_s=queue_s(machine) if flex else None,
        wait_for_capacity_s=parse_duration(machine.wait_for_capacity),
        subnet_cidr=neighbour(settings.network.subnet_cidr),
        gateway=gateway_before(
            gateway_members(names, ports=[server.port for server in servers], turns=turns), settings
        ),
        gateway_region=gateway_region,
    )


def _full_name(image: str) -> str:
    """Return the path of a system image: Google's own by its bare name, and a family where the name says no build."""
    if "/" in image:
        return image
    family = "" if sum(part.isdigit() for part in image.split("-")) > 1 else "family/"
    return f"projects/cos-cloud/global/images/{family}{image}"
