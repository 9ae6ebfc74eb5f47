"""The attributes of a machine with GPUs on Container-Optimized OS. None is secret; containers/supervisor/README.md says what
each means there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pulumi

from infra.components.shared.machine_metadata import machine_metadata
from infra.google.logs import MACHINE_LOG, LogSource
from infra.google.system_attributes import AT_CREATION
from infra.planning.gateway.members import MEMBER, READY_PORT, member_attribute
from infra.planning.plan import Plan
from infra.planning.platforms.compute_engine.machines import MachinesPlan

HEALTH_CHECK_RANGES = ("35.191.0.0/16", "130.211.0.0/22")
"""From where Google's health checks come, as its documentation of load balancing says."""
GPU_AT_CREATION: Mapping[str, str] = {
    **AT_CREATION,
    "google-logging-enabled": "true",  # the system's own agent: what the startup script prints
}
"""Attributes that a machine has from its creation on and that never change."""
DRIVER = "latest"
"""Of the drivers that the system's build offers for the card: the serving images are built for CUDA 13."""


def gpu_metadata(
    plan: Plan, machines: MachinesPlan, image: pulumi.Output[str], token_secret: pulumi.Output[str] | None
) -> Mapping[str, pulumi.Input[str]]:
    """Return the attributes that all machines of a stack have alike, by name."""
    servers = [{"suffix": one.suffix, "port": one.port, "devices": list(one.devices)} for one in machines.servers]
    return {
        **machine_metadata(plan, image, token_secret, accelerator="gpu", servers=servers),
        "gemma4-supervisor-image": image,
        "gemma4-reach": " ".join(_reach(plan, machines)),
        "gemma4-driver": DRIVER,
    }


def own_metadata(
    metadata: Mapping[str, pulumi.Input[str]], plan: Plan, machines: MachinesPlan, name: str
) -> Mapping[str, pulumi.Input[str]]:
    """Return the attributes of one machine: those of all, where it logs, and as which member gateways know it."""
    names = plan.names
    log = LogSource.machine(names.member(name), machines.region)
    member = member_attribute(name, project=names.project, zone=names.prefix, host=name, domain=names.domain)
    return {**metadata, MACHINE_LOG: log.attribute(names.project, plan.stack, name), MEMBER: member}


def _reach(plan: Plan, machines: MachinesPlan) -> Iterator[str]:
    """Yield who gets through the system's own firewall, which lets nobody but ssh in by default: the same as the VPC's."""
    gateway, first, last = plan.settings.network.subnet_cidr, machines.ports[0], machines.ports[-1]
    yield f"{gateway}={first}:{last}" if first != last else f"{gateway}={first}"
    yield f"{gateway}={READY_PORT}"
    yield from (f"{cidr}={READY_PORT}" for cidr in HEALTH_CHECK_RANGES)
