"""Wires the components of a TPU stack: slices in a network of their own, the gateway before them, and what they serve."""

from __future__ import annotations

from infra.components.shared.foundation import Foundation, FoundationArgs, Secrets
from infra.components.shared.gateway import Gateway, GatewayArgs
from infra.components.shared.images import Images, ImagesArgs
from infra.components.shared.machine_access import MachineAccess, MachineAccessArgs
from infra.components.shared.machine_metadata import machine_metadata
from infra.components.shared.machine_network import MachineNetwork, MachineNetworkArgs
from infra.components.shared.member_zone import MemberZone, MemberZoneArgs
from infra.components.shared.network import Network, NetworkArgs
from infra.components.shared.rollout import Rollout, RolloutArgs
from infra.components.shared.stack_outputs import Outputs, stack_outputs
from infra.components.shared.weights import Weights, WeightsArgs
from infra.components.tpu.tpu_slice import TpuSlice, TpuSliceArgs
from infra.planning.gateway.members import READY_PORT
from infra.planning.plan import Plan
from infra.planning.platforms.behind_gateway import GATEWAY
from infra.planning.platforms.tpu.slices import SLICES, SlicesPlan
from infra.planning.server.command import PORT


def deploy(plan: Plan, secrets: Secrets) -> Outputs:
    """Build the resources of a plan with TPU slices and return the stack's outputs."""
    slices = plan.deployment
    assert isinstance(slices, SlicesPlan)  # noqa: S101 this platform's own
    foundation = Foundation("foundation", FoundationArgs(plan, secrets.hf_token))
    images = Images("images", ImagesArgs(plan, foundation))
    network = Network("network", NetworkArgs(plan, foundation.apis))
    zone = MemberZone("members", MemberZoneArgs(plan, foundation, network, slices.gateway.members))
    slice_network = MachineNetwork(
        "slice-network",
        MachineNetworkArgs(
            plan=plan,
            network=network,
            tag=plan.names.part(SLICES),
            region=slices.region,
            cidr=slices.subnet_cidr,
            ports=(PORT, READY_PORT),
            iap_ssh=plan.settings.tpu.iap_ssh,
        ),
    )
    access = MachineAccess("slice-access", MachineAccessArgs(plan, foundation, images))
    from_hub = plan.settings.weights.from_hub
    weights = None if from_hub else Weights("weights", WeightsArgs(plan, foundation))
    metadata = machine_metadata(plan, images.serving, foundation.token_secret if from_hub else None)
    ready = [*images.ready, *zone.ready, *slice_network.ready, *access.ready, *(weights.ready if weights else [])]
    gateway = Gateway(
        "gateway",
        GatewayArgs(
            plan=plan,
            gateway=slices.gateway,
            account=foundation.account("gateway", plan.names.part(GATEWAY), "forwards requests; has no role"),
            invoker=foundation.invoker,
            network=network,
            ready=[images.repository, zone.records, *network.ready],
        ),
    )
    running = {
        name: TpuSlice(
            f"slice-{name}",
            TpuSliceArgs(
                plan=plan,
                slices=slices,
                slice=name,
                network=network.network.id,
                subnetwork=slice_network.subnet.id,
                tag=slice_network.tag,
                account=foundation.runtime.email,
                metadata=metadata,
                dns_zone=zone.name,
                ready=[*ready, gateway.service],
            ),
        )
        for name in slices.names
        if not slices.paused
    }
    Rollout("rollout", RolloutArgs(plan, foundation.invoker, foundation.deployers, gateway, running, ready))
    return stack_outputs(plan, foundation, gateway.service.uri, weights)
