"""Wires the components of a stack on Compute Engine: machines in a network of their own, the gateway before them, and what
they serve."""

from __future__ import annotations

from infra.components.compute_engine.machine_attributes import HEALTH_CHECK_RANGES, gpu_metadata, own_metadata
from infra.components.compute_engine.machine_template import MachineTemplate, MachineTemplateArgs
from infra.components.compute_engine.managed_machine import ManagedMachine, ManagedMachineArgs
from infra.components.shared.foundation import Foundation, FoundationArgs, Secrets
from infra.components.shared.gateway import Gateway, GatewayArgs
from infra.components.shared.images import Images, ImagesArgs
from infra.components.shared.machine_access import MachineAccess, MachineAccessArgs
from infra.components.shared.machine_network import Door, MachineNetwork, MachineNetworkArgs
from infra.components.shared.member_zone import MemberZone, MemberZoneArgs
from infra.components.shared.network import Network, NetworkArgs
from infra.components.shared.rollout import Rollout, RolloutArgs
from infra.components.shared.stack_outputs import Outputs, stack_outputs
from infra.components.shared.weights import Weights, WeightsArgs
from infra.planning.gateway.members import READY_PORT
from infra.planning.plan import Plan
from infra.planning.platforms.behind_gateway import GATEWAY
from infra.planning.platforms.compute_engine.machines import MACHINES, MachinesPlan


def deploy(plan: Plan, secrets: Secrets) -> Outputs:
    """Build the resources of a plan with machines of Compute Engine and return the stack's outputs."""
    machines = plan.deployment
    assert isinstance(machines, MachinesPlan)  # noqa: S101 this platform's own
    foundation = Foundation("foundation", FoundationArgs(plan, secrets.hf_token))
    images = Images("images", ImagesArgs(plan, foundation))
    network = Network("network", NetworkArgs(plan, foundation.apis))
    zone = MemberZone("members", MemberZoneArgs(plan, foundation, network, machines.members()))
    machine_network = _machine_network(plan, machines, network)
    access = MachineAccess("machine-access", MachineAccessArgs(plan, foundation, images))
    from_hub = plan.settings.weights.from_hub
    weights = None if from_hub else Weights("weights", WeightsArgs(plan, foundation))
    gateway = Gateway(
        "gateway",
        GatewayArgs(
            plan=plan,
            gateway=machines.gateway,
            account=foundation.account("gateway", plan.names.part(GATEWAY), "forwards requests; has no role"),
            invoker=foundation.invoker,
            network=network,
            ready=[images.repository, zone.records, *network.ready],
        ),
    )
    ready = [*images.ready, *zone.ready, *machine_network.ready, *access.ready, *(weights.ready if weights else [])]
    metadata = gpu_metadata(plan, machines, images.serving, foundation.token_secret if from_hub else None)
    subnetwork = machine_network.subnet.id
    template = MachineTemplate(
        "machines",
        MachineTemplateArgs(plan, machines, subnetwork, machine_network.tag, foundation.runtime.email),
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
                ready=[*ready, gateway.service],
            ),
        )
        for name in machines.names
    }
    running = {} if machines.paused else managed
    Rollout("rollout", RolloutArgs(plan, foundation.invoker, foundation.deployers, gateway, running, ready))
    return stack_outputs(plan, foundation, gateway.service.uri, weights)


def _machine_network(plan: Plan, machines: MachinesPlan, network: Network) -> MachineNetwork:
    """Return the machines' subnet: the gateway may call the servers and their supervisor, Google's checks the latter alone."""
    checks = Door("health", "Google's health checks may ask the supervisors", HEALTH_CHECK_RANGES, (READY_PORT,))
    return MachineNetwork(
        "machine-network",
        MachineNetworkArgs(
            plan=plan,
            network=network,
            tag=plan.names.part(MACHINES),
            region=machines.region,
            cidr=machines.subnet_cidr,
            ports=(*machines.ports, READY_PORT),
            iap_ssh=plan.settings.machine.iap_ssh,
            doors=(checks,),
        ),
    )
