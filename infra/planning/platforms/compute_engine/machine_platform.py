"""Compute Engine: machines with all their GPUs behind a gateway, as many servers on each as the model leaves room for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from infra.catalog import Accelerator, catalog
from infra.errors import Fault, Findings
from infra.planning.gateway.limits import MOST_IN_FLIGHT
from infra.planning.gateway.service_limits import check_request_timeout
from infra.planning.names import Names, region_of
from infra.planning.performance.startup import Stage, StartupEstimate, container_stage, engine_stages
from infra.planning.platforms.base import Draft, Place, Platform
from infra.planning.platforms.compute_engine.machine_checks import bad_machine_settings, check_machines, check_zones
from infra.planning.platforms.compute_engine.machine_starts import machine_stages
from infra.planning.platforms.compute_engine.machines import (
    GATEWAY,
    MACHINE_NAMES,
    MACHINES,
    BootDisk,
    MachinesPlan,
    is_paused,
    limits_of,
    plan_machines,
    servers_on,
    zones_of,
)
from infra.planning.server.hosting import IN_MEMORY, SERVER_PORT, SHUTDOWN_S, VPC_ADDRESS, Hosting
from infra.planning.server.server import Server
from infra.planning.settings.declarations import MOST_CONCURRENCY, Settings

_NAMED = "machine.names says how many there are"
_MACHINE = "the machine belongs to the GPUs"
MOST_ALL_REDUCE = 2
"""GPUs without NVLink between which vLLM's own all-reduce works (vllm #56128, 2026-09-09): more of them use NCCL."""
WIDEST_P2P = "SYS"
"""The NCCL_P2P_LEVEL that holds for every machine: NCCL then takes the direct way between any two GPUs."""


class ComputeEnginePlatform(Platform[MachinesPlan]):
    """Virtual machines with GPUs."""

    id = "compute-engine"
    where = "on a machine of Compute Engine"
    location_setting = "machine.zones"
    names_setting = "machine.names"
    run_duration_setting = "machine.maxRunDuration"
    without_effect: ClassVar[Mapping[str, str]] = {
        "tpu": "there are no slices",
        "scaling.minInstances": _NAMED,
        "scaling.maxInstances": _NAMED,
        "scaling.cpu": _MACHINE,
        "scaling.memoryGib": _MACHINE,
        "scaling.zonalRedundancy": "machine.zones says where a machine may be",
        "probes": "the supervisor on the machine probes",
        "weights.access": "the weights are copied into memory",
    }
    start_source = "no start on this platform was found: stages from Kubernetes nodes, Cloud Run and TPU VMs"
    start_notes = ("No start on this platform was found: the estimate puts together stages of others.",)
    fills_machine = True
    without_metrics = ", and the machine's supervisor may restart a server that is only busy"
    most_replicas = len(MACHINE_NAMES)
    images = ("gateway",)
    part_suffixes = (GATEWAY, MACHINES)
    apis = ("dns", "secretmanager")
    components = "infra.components.compute_engine.deploy"
    operations = "infra.ops.compute_engine.machine_operations"
    preflight = "infra.preflight.compute_engine.machine_preflight"
    diagnosis = "infra.ops.compute_engine.machine_look"
    rollback = "infra.ops.changing.earlier_spec"

    def place(self, settings: Settings, accelerator: Accelerator) -> Place:
        first, *others = zones_of(settings, accelerator)
        return Place(settings.region or region_of(first), first, None if others else first)

    def hosting(self, settings: Settings, accelerator: Accelerator, names: Names) -> Hosting:
        shapes, parallel = settings.machine.shapes, settings.serving.tensor_parallel_size or accelerator.devices
        own_level = limits_of(accelerator).p2p_level
        return Hosting(
            weights_folder=IN_MEMORY,
            staged_in_memory=True,
            listens_on=VPC_ADDRESS,
            port=SERVER_PORT,
            servers=len(servers_on(accelerator.devices, parallel, shapes)),
            shutdown_s=SHUTDOWN_S,
            memory_gib=accelerator.host_memory_gib,
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
        return is_paused(settings)

    def bad_settings(self, settings: Settings) -> Iterator[Fault]:
        return bad_machine_settings(settings)

    def check_place(self, settings: Settings, accelerator: Accelerator, place: Place) -> Findings:
        return check_zones(zones_of(settings, accelerator), accelerator)

    def findings(self, draft: Draft, deployment: MachinesPlan) -> Findings:
        timeout_s = deployment.gateway.request_timeout_s
        return check_machines(draft, deployment) + check_request_timeout(
            timeout_s, longest_answer_s=draft.longest_answer_s
        )

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

    def most_requests_each(self, replicas: int) -> int:
        return min(MOST_CONCURRENCY, MOST_IN_FLIGHT // replicas)


def _p2p_level(shapes: tuple[str, ...]) -> str:
    """Return the level for all of several machine types; empty where there are none."""
    machines = {one.machine_type: one for one in catalog().accelerators.values() if one.machine_type in shapes}
    levels = {limits_of(one).p2p_level for one in machines.values() if one.compute_engine}
    return levels.pop() if len(levels) == 1 else WIDEST_P2P if levels else ""
