"""Compute Engine: machines with all their GPUs behind a gateway, as many servers on each as the model leaves room for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from infra.catalog import Accelerator, catalog
from infra.errors import Fault, Findings
from infra.planning.names import Names, region_of
from infra.planning.performance.startup import Stage, StartupEstimate, container_stage, engine_stages
from infra.planning.platforms.base import Draft, Place
from infra.planning.platforms.behind_gateway import GATEWAY, is_paused
from infra.planning.platforms.behind_gateway_platform import BehindGatewayPlatform, without_effect
from infra.planning.platforms.compute_engine.machine_checks import bad_machine_settings, check_machines, check_zones
from infra.planning.platforms.compute_engine.machine_starts import machine_stages
from infra.planning.platforms.compute_engine.machines import (
    MACHINES,
    BootDisk,
    MachinesPlan,
    limits_of,
    plan_machines,
    servers_on,
    zones_of,
)
from infra.planning.server.hosting import SERVER_PORT, Hosting
from infra.planning.server.server import Server
from infra.planning.settings.declarations import MachineSettings, Settings

MOST_ALL_REDUCE = 2
"""GPUs without NVLink between which vLLM's own all-reduce works (vllm #56128, 2026-09-09): more of them use NCCL."""
WIDEST_P2P = "SYS"
"""The NCCL_P2P_LEVEL that holds for every machine: NCCL then takes the direct way between any two GPUs."""


class ComputeEnginePlatform(BehindGatewayPlatform[MachinesPlan]):
    """Virtual machines with GPUs."""

    id = "compute-engine"
    where = "on a machine of Compute Engine"
    location_setting = "machine.zones"
    names_setting = MachinesPlan.names_setting
    run_duration_setting = "machine.maxRunDuration"
    without_effect: ClassVar[Mapping[str, str]] = {
        **without_effect(MachinesPlan.names_setting, "GPUs"),
        "tpu": "there are no slices",
        "scaling.zonalRedundancy": "machine.zones says where a machine may be",
    }
    start_source = "no start on this platform was found: stages from Kubernetes nodes, Cloud Run and TPU VMs"
    start_notes = ("No start on this platform was found: the estimate puts together stages of others.",)
    fills_machine = True
    without_metrics = ", and the machine's supervisor may restart a server that is only busy"
    part_suffixes = (GATEWAY, MACHINES)
    apis = ("dns", "secretmanager")
    components = "infra.components.compute_engine.deploy"
    operations = "infra.ops.compute_engine.machine_operations"
    preflight = "infra.preflight.compute_engine.machine_preflight"
    diagnosis = "infra.ops.compute_engine.machine_look"

    def place(self, settings: Settings, accelerator: Accelerator) -> Place:
        first, *others = zones_of(settings, accelerator)
        return Place(settings.region or region_of(first), first, None if others else first)

    def hosting(self, settings: Settings, accelerator: Accelerator, names: Names) -> Hosting:
        shapes, parallel = settings.machine.shapes, settings.serving.tensor_parallel_size or accelerator.devices
        own_level = limits_of(accelerator).p2p_level
        return replace(
            super().hosting(settings, accelerator, names),
            port=SERVER_PORT,
            servers=len(servers_on(accelerator.devices, parallel, shapes)),
            env={} if parallel == 1 else {"NCCL_P2P_LEVEL": _p2p_level(shapes) or own_level},
            most_all_reduce=MOST_ALL_REDUCE,
        )

    def start_stages(self, settings: Settings, server: Server, weights: Stage) -> Iterator[Stage]:
        yield from machine_stages(weights, BootDisk(settings.machine.disk_gb, settings.machine.disk_throughput))
        yield container_stage(server)
        yield from engine_stages(server)

    def deployment(
        self, settings: Settings, accelerator: Accelerator, place: Place, *, max_num_seqs: int, startup: StartupEstimate
    ) -> MachinesPlan:
        return plan_machines(settings, accelerator, gateway_region=place.region)

    def paused(self, settings: Settings) -> bool:
        return is_paused(settings, settings.machine.names)

    def capacity_settings(self, settings: Settings) -> MachineSettings:
        return settings.machine

    def bad_settings(self, settings: Settings) -> Iterator[Fault]:
        return bad_machine_settings(settings)

    def check_place(self, settings: Settings, accelerator: Accelerator, place: Place) -> Findings:
        return check_zones(zones_of(settings, accelerator), accelerator)

    def own_findings(self, draft: Draft, deployment: MachinesPlan) -> Findings:
        return check_machines(draft, deployment)

    def notes(self, draft: Draft, deployment: MachinesPlan) -> Iterator[str]:
        if draft.settings.region is None and draft.settings.machine.zones:
            yield (
                f"The region of gateway, images and weights follows machine.zones. Write region: {draft.place.region} before "
                "you look for capacity elsewhere, and they stay where they are."
            )
        if deployment.together > 1:
            yield (
                f"Speed is that of one server times {deployment.together}: nobody has published several servers on one such "
                "machine, whose processors and PCIe switches they share."
            )


def _p2p_level(shapes: tuple[str, ...]) -> str:
    """Return the level for all of several machine types; empty where there are none."""
    machines = {one.machine_type: one for one in catalog().accelerators.values() if one.machine_type in shapes}
    levels = {limits_of(one).p2p_level for one in machines.values() if one.compute_engine}
    return levels.pop() if len(levels) == 1 else WIDEST_P2P if levels else ""
