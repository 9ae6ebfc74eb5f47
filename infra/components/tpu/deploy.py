"""Wires the components of a TPU stack: slices, and what stands around them."""

from __future__ import annotations

from infra.components.shared.foundation import Secrets
from infra.components.shared.machine_metadata import machine_metadata
from infra.components.shared.machine_network import MachineSubnet
from infra.components.shared.stack_outputs import Outputs
from infra.components.shared.surroundings import Surroundings, SurroundingsArgs
from infra.components.tpu.tpu_slice import TpuSlice, TpuSliceArgs
from infra.planning.gateway.members import READY_PORT
from infra.planning.plan import Plan
from infra.planning.platforms.tpu.slices import SLICES, SlicesPlan
from infra.planning.server.command import PORT


def deploy(plan: Plan, secrets: Secrets) -> Outputs:
    """Build the resources of a plan with TPU slices and return the stack's outputs."""
    slices = plan.deployment
    assert isinstance(slices, SlicesPlan)  # noqa: S101 this platform's own
    subnet = MachineSubnet(
        tag=plan.names.part(SLICES),
        region=slices.region,
        cidr=slices.subnet_cidr,
        ports=(PORT, READY_PORT),
        iap_ssh=plan.settings.tpu.iap_ssh,
    )
    around = Surroundings(SurroundingsArgs(plan, secrets, slices.gateway, subnet, noun="slice"))
    metadata = machine_metadata(plan, around.images.serving, around.token_secret)
    running = {
        name: TpuSlice(
            f"slice-{name}",
            TpuSliceArgs(
                plan=plan,
                slices=slices,
                slice=name,
                network=around.network.network.id,
                subnetwork=around.machines.subnet.id,
                tag=around.machines.tag,
                account=around.foundation.runtime.email,
                metadata=metadata,
                dns_zone=around.zone.name,
                ready=around.ready,
            ),
        )
        for name in slices.names
        if not slices.paused
    }
    return around.serve(running)
