"""A platform that does not exist, with everything that the next real one will bring: its object, what it deploys, prices."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from infra.catalog import Accelerator, Catalog, Price, PriceUnit, Source, catalog
from infra.errors import Fault, Findings
from infra.planning.cost.price_lines import LineItem, price_line
from infra.planning.names import Names
from infra.planning.performance.startup import Stage, StartupEstimate, container_stage, engine_stages, machine_stages
from infra.planning.platforms.base import Deployment, Draft, Place, Platform
from infra.planning.platforms.registry import PLATFORMS
from infra.planning.server.hosting import Hosting
from infra.planning.server.server import Server
from infra.planning.settings.declarations import Settings

PODS = "pods"
MACHINE = "pod-1"
SKU = "pod-hour"


@dataclass(frozen=True)
class PodsPlan(Deployment):
    """So many pods."""

    region: str
    count: int

    @property
    def replicas(self) -> int:
        return self.count

    def hour(self, facts: Catalog) -> Iterator[LineItem]:
        yield price_line(facts, "pod", 1, SKU, self.region)

    def summary(self, usd_per_run: float | None) -> Iterator[tuple[str, str]]:
        yield "Pods", f"{self.count} of them"

    def rows(self, settings: Settings, startup: StartupEstimate) -> Iterator[tuple[str, list[str]]]:
        yield "Pods", [f"{self.count} of them", f"a changed flag takes {startup.restart.mid:.0f} s"]

    def as_json(self) -> Mapping[str, Any]:
        return {"pods": {"count": self.count}}

    @property
    def terms(self) -> str:
        return "rented by the pod"

    def settings_of(self, replicas: int, requests_each: int) -> Mapping[str, Any]:
        return {"scaling.maxInstances": replicas} if replicas > 1 else {}


class PodsPlatform(Platform[PodsPlan]):
    """Pods somewhere in a field."""

    id = PODS
    where = "in a pod"
    without_effect: ClassVar[Mapping[str, str]] = {"tpu": "there are no slices", "scaling.cpu": "a pod is a pod"}
    start_source = "nobody has started a pod"
    start_notes = ("Pods start when the weather is fair.",)
    most_replicas = 4
    components = "tests.planning.platforms.pods_deploy"

    def place(self, settings: Settings, accelerator: Accelerator) -> Place:
        region = settings.region or accelerator.locations[0]
        return Place(region, region)

    def hosting(self, settings: Settings, accelerator: Accelerator, names: Names) -> Hosting:
        return Hosting(weights_folder="/pod/weights", listens_on="127.0.0.1", memory_gib=accelerator.host_memory_gib)

    def start_stages(self, settings: Settings, server: Server, weights: Stage) -> Iterator[Stage]:
        yield from machine_stages(weights)
        yield container_stage(server)
        yield from engine_stages(server)

    def deployment(
        self, settings: Settings, accelerator: Accelerator, place: Place, *, max_num_seqs: int, startup: StartupEstimate
    ) -> PodsPlan:
        return PodsPlan(place.region, settings.scaling.max_instances)

    def findings(self, draft: Draft, deployment: PodsPlan) -> Findings:
        if deployment.count < 13:
            return Findings()
        return Findings((Fault("scaling.maxInstances", "13 pods are unlucky.", "One would be lost.", "Write 12."),))

    def notes(self, draft: Draft, deployment: PodsPlan) -> Iterator[str]:
        yield "Pods are green."


def add_pods(patch: pytest.MonkeyPatch) -> None:
    """Add the platform with one entry in the registry, and to the catalog a machine on it with its price."""
    facts, source = catalog(), Source(where="a test", read=dt.date(2026, 11, 22), confidence="inferred")
    row = facts.accelerator("l4").model_copy(
        update={
            "id": MACHINE,
            "platform": PODS,
            "title": "a pod",
            "locations": ("field-1", "field-2"),
            "invited_locations": (),
            "host_memory_gib": 64,
            "cloud_run": None,
            "notes": (),
        }
    )
    price = Price(sku=SKU, usd=0.5, unit=PriceUnit.MACHINE_HOUR, source=source)
    patch.setitem(PLATFORMS, PODS, PodsPlatform())
    patch.setitem(vars(facts), "accelerators", {**facts.accelerators, MACHINE: row})
    patch.setitem(vars(facts), "prices", (*facts.prices, price))
