"""Wires the components of a stack on Compute Engine: machines, and what stands around them."""

from __future__ import annotations

from infra.components.compute_engine.machine_attributes import HEALTH_CHECK_RANGES, gpu_metadata, own_metadata
from infra.components.compute_engine.machine_template import MachineTemplate, MachineTemplateArgs
from infra.components.compute_engine.managed_machine import ManagedMachine, ManagedMachineArgs
from infra.components.shared.foundation import Secrets
from infra.components.shared.machine_network import Door, MachineSubnet
from infra.components.shared.stack_outputs import Outputs
from infra.components.shared.surroundings import Surroundings, SurroundingsArgs
from infra.planning.gateway.members import READY_PORT
from infra.planning.plan import Plan
from infra.planning.platforms.compute_engine.machines import MACHINES, MachinesPlan


def deploy(plan: Plan, secrets: Secrets) -> Outputs:
    """Build the resources of a plan with machines of Compute Engine and return the stack's outputs."""
    machines = plan.deployment
    assert isinstance(machines, MachinesPlan)  # noqa: S101 this platform's own
    # The gateway may call the servers and their supervisor, Google's checks the latter alone.
    checks = Door("health", "Google's health checks may ask the supervisors", HEALTH_CHECK_RANGES, (READY_PORT,))
    subnet = MachineSubnet(
        tag=plan.names.part(MACHINES),
        region=machines.region,
        cidr=machines.subnet_cidr,
        ports=(*machines.ports, READY_PORT),
        iap_ssh=plan.settings.machine.iap_ssh,
        doors=(checks,),
    )
    around = Surroundings(SurroundingsArgs(plan, secrets, machines.gateway, subnet, noun="machine"))
    metadata = gpu_metadata(plan, machines, around.images.serving, around.token_secret)
    subnetwork, account = around.machines.subnet.id, around.foundation.runtime.email
    template = MachineTemplate(
        "machines", MachineTemplateArgs(plan, machines, subnetwork, around.machines.tag, account)
    )
    managed = {
        name: ManagedMachine(
            f"machine-{name}",
            ManagedMachineArgs(
                plan=plan,
                machines=machines,
                name=name,
                subnetwork=subnetwork,
                template=template,
                metadata=own_metadata(metadata, plan, machines, name),
                ready=around.ready,
            ),
        )
        for name in machines.names
    }
    return around.serve({} if machines.paused else managed)
