"""What a plan rents to serve, one class a platform, and the price lines that it comes to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from infra.catalog import Accelerator, Catalog, Price
from infra.planning.names import region_of
from infra.planning.platforms.tpu_slices import SlicesPlan
from infra.planning.settings.declarations import Provisioning

MONTH_H = 730


@dataclass(frozen=True)
class LineItem:
    """`quantity` of the price's unit, less what is free of charge: `usd` in the period of the list it stands in."""

    label: str
    quantity: float
    usd: float
    price: Price
    region: str
    """The region asked for; a price row without a region stood in for it."""


class Rental(ABC):
    """What is rented to serve: one subclass a platform."""

    @abstractmethod
    def replica(self, catalog: Catalog) -> Iterable[LineItem]:
        """An hour of one replica."""

    def kept(self, catalog: Catalog) -> Iterable[LineItem]:
        """A month of what runs even while no request comes."""
        return ()

    @property
    def replicas(self) -> int:
        """The most that run at once."""
        return 1

    @property
    def run_hours(self) -> float | None:
        """Hours after which a replica ends by itself."""
        return None

    def notes(self, catalog: Catalog) -> Iterable[str]:
        """What to know before renting."""
        return ()


@dataclass(frozen=True)
class CloudRunRental(Rental):
    """Instances of a GPU service: instance-based billing, paid for as long as an instance exists."""

    accelerator: Accelerator
    region: str
    cpu: int
    memory_gib: float
    min_instances: int = 0
    max_instances: int = 1
    zonal_redundancy: bool = False

    def replica(self, catalog: Catalog) -> Iterator[LineItem]:
        return self._instances(catalog, hours=1)

    def kept(self, catalog: Catalog) -> Iterable[LineItem]:
        return self._instances(catalog, hours=MONTH_H * self.min_instances) if self.min_instances else ()

    @property
    def replicas(self) -> int:
        return self.max_instances

    def _instances(self, catalog: Catalog, *, hours: float) -> Iterator[LineItem]:
        sku = f"cloud-run-{self.accelerator.id}" + ("-zonal-redundancy" if self.zonal_redundancy else "")
        yield price_line(catalog, "GPU", self.accelerator.devices * hours, sku, self.region)
        yield price_line(catalog, "vCPU", self.cpu * hours, "cloud-run-vcpu", self.region)
        yield price_line(catalog, "memory", self.memory_gib * hours, "cloud-run-memory", self.region)


@dataclass(frozen=True)
class TpuRental(Rental):
    """Slices, and the gateway's instance before them that is kept and billed by request."""

    slices: SlicesPlan
    gateway_region: str

    def replica(self, catalog: Catalog) -> Iterator[LineItem]:
        yield self._chips(catalog, self.slices.provisioning)

    def kept(self, catalog: Catalog) -> Iterator[LineItem]:
        gateway, region = self.slices.gateway, self.gateway_region
        hours = MONTH_H * gateway.min_instances
        memory_gib = gateway.memory_mib / 1024
        yield price_line(catalog, "gateway vCPU", gateway.cpu * hours, "cloud-run-idle-vcpu", region)
        yield price_line(catalog, "gateway memory", memory_gib * hours, "cloud-run-idle-memory", region)

    @property
    def replicas(self) -> int:
        return len(self.slices.names)

    @property
    def run_hours(self) -> float | None:
        seconds = self.slices.max_run_duration_s
        return None if seconds is None else seconds / 3600

    def notes(self, catalog: Catalog) -> Iterator[str]:
        yield "The gateway is priced between requests; while it forwards some, its CPU costs about ten times as much."
        if self.slices.provisioning != "spot":
            return
        spot, flex = self._chips(catalog, "spot"), self._chips(catalog, "flex-start")
        if spot.price.usd > flex.price.usd:
            yield f"Spot is dearer here than flex-start: ${spot.price.usd} against ${flex.price.usd} a chip-hour."

    def _chips(self, catalog: Catalog, provisioning: Provisioning) -> LineItem:
        chips, region = self.slices.chips, self.slices.region
        return price_line(catalog, f"chips, {provisioning}", chips, f"v6e-{provisioning}", region)


@dataclass(frozen=True)
class MachineRental(Rental):
    """A Compute Engine machine, on demand."""

    accelerator: Accelerator
    zone: str

    def replica(self, catalog: Catalog) -> Iterator[LineItem]:
        machine = self.accelerator.machine_type or self.accelerator.id
        yield price_line(catalog, machine, 1, machine, region_of(self.zone))


def price_line(catalog: Catalog, label: str, quantity: float, sku: str, region: str) -> LineItem:
    """`quantity` units of `sku` in `region`, beyond what is free of charge; CatalogError for an unknown sku."""
    price = catalog.price(sku, region)
    return LineItem(label, quantity, max(0.0, quantity - price.free_allowance) * price.usd, price, region)
