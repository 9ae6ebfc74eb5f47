"""Compute Engine: one machine with all its GPUs, on demand. It is planned and priced; no component builds it yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from infra.catalog import Accelerator, Catalog
from infra.planning.cost.price_lines import LineItem, price_line
from infra.planning.names import Names, region_of
from infra.planning.performance.startup import Stage, StartupEstimate, container_stage, engine_stages, machine_stages
from infra.planning.platforms.base import Deployment, Place, Platform
from infra.planning.server.hosting import Hosting
from infra.planning.server.server import Server
from infra.planning.settings.declarations import Settings


@dataclass(frozen=True)
class MachinePlan(Deployment):
    """A machine of Compute Engine in a zone, on demand."""

    accelerator: Accelerator
    zone: str

    @property
    def replicas(self) -> int:
        return 1

    def hour(self, facts: Catalog) -> Iterator[LineItem]:
        machine = self.accelerator.machine_type or self.accelerator.id
        yield price_line(facts, machine, 1, machine, region_of(self.zone))


class ComputeEnginePlatform(Platform[MachinePlan]):
    """Virtual machines with GPUs."""

    id = "compute-engine"
    where = "on a machine of Compute Engine"
    without_effect: ClassVar[Mapping[str, str]] = {
        "tpu": "there are no slices",
        "gateway": "there is no gateway",
        "scaling": "it is one machine",
        "probes": "nothing probes it",
    }
    start_source = "no start on Compute Engine was found: stages taken from Cloud Run and from TPU VMs"
    start_notes = ("No start on this platform was found: the estimate puts together stages of others.",)

    def place(self, settings: Settings, accelerator: Accelerator) -> Place:
        zone = accelerator.locations[0]
        return Place(settings.region or region_of(zone), zone)

    def hosting(self, settings: Settings, accelerator: Accelerator, names: Names) -> Hosting:
        return Hosting(memory_gib=accelerator.host_memory_gib)

    def start_stages(self, settings: Settings, server: Server, weights: Stage) -> Iterator[Stage]:
        yield from machine_stages(weights)
        yield container_stage(server)
        yield from engine_stages(server)

    def deployment(
        self, settings: Settings, accelerator: Accelerator, place: Place, *, max_num_seqs: int, startup: StartupEstimate
    ) -> MachinePlan:
        return MachinePlan(accelerator, place.location)
