"""What stands around the machines of a stack, on whichever platform: network, names, weights, and the gateway before them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from infra.components.shared.foundation import Foundation, FoundationArgs, Secrets
from infra.components.shared.gateway import Gateway, GatewayArgs
from infra.components.shared.images import Images, ImagesArgs
from infra.components.shared.machine_access import MachineAccess, MachineAccessArgs
from infra.components.shared.machine_network import MachineNetwork, MachineNetworkArgs, MachineSubnet
from infra.components.shared.member_zone import MemberZone, MemberZoneArgs
from infra.components.shared.network import Network, NetworkArgs
from infra.components.shared.rollout import Rollout, RolloutArgs, ServingMachine
from infra.components.shared.stack_outputs import Outputs, stack_outputs
from infra.components.shared.weights import Weights, WeightsArgs
from infra.planning.gateway.limits import GatewayPlan
from infra.planning.plan import Plan
from infra.planning.platforms.behind_gateway import GATEWAY


@dataclass(frozen=True)
class SurroundingsArgs:
    """`noun` begins the names of what the machines have for themselves: slice or machine."""

    plan: Plan
    secrets: Secrets
    gateway: GatewayPlan
    subnet: MachineSubnet
    noun: str


class Surroundings:
    """Everything of a stack but its machines, which are made between this and `serve`."""

    def __init__(self, args: SurroundingsArgs) -> None:
        plan, noun = args.plan, args.noun
        self._plan = plan
        self.foundation = Foundation("foundation", FoundationArgs(plan, args.secrets.hf_token))
        self.images = Images("images", ImagesArgs(plan, self.foundation))
        self.network = Network("network", NetworkArgs(plan, self.foundation.apis))
        self.zone = MemberZone("members", MemberZoneArgs(plan, self.foundation, self.network, args.gateway.members))
        self.machines = MachineNetwork(f"{noun}-network", MachineNetworkArgs(plan, self.network, args.subnet))
        access = MachineAccess(f"{noun}-access", MachineAccessArgs(plan, self.foundation, self.images))
        from_hub = plan.settings.weights.from_hub
        self._weights = None if from_hub else Weights("weights", WeightsArgs(plan, self.foundation))
        self._gateway = self._gateway_before(args)
        self._served = [
            *self.images.ready,
            *self.zone.ready,
            *self.machines.ready,
            *access.ready,
            *(self._weights.ready if self._weights else []),
        ]
        self.ready: list[pulumi.Resource] = [*self._served, self._gateway.service]
        """What must be there before a machine that costs money can do anything useful."""
        self.token_secret = self.foundation.token_secret if from_hub else None
        """Name of the secret that a machine reads; None where the weights come from the bucket."""

    def serve(self, machines: Mapping[str, ServingMachine]) -> Outputs:
        """Let the machines serve, one after the other in their order, and return the stack's outputs."""
        foundation = self.foundation
        rollout = RolloutArgs(
            self._plan, foundation.invoker, foundation.deployers, self._gateway, machines, self._served
        )
        Rollout("rollout", rollout)
        return stack_outputs(self._plan, foundation, self._gateway.service.uri, self._weights)

    def _gateway_before(self, args: SurroundingsArgs) -> Gateway:
        """Return the gateway, which stands before any machine does."""
        account = self.foundation.account("gateway", args.plan.names.part(GATEWAY), "forwards requests; has no role")
        return Gateway(
            "gateway",
            GatewayArgs(
                plan=args.plan,
                gateway=args.gateway,
                account=account,
                invoker=self.foundation.invoker,
                network=self.network,
                ready=[self.images.repository, self.zone.records, *self.network.ready],
            ),
        )
