"""Where a stack's machines live: a subnet of their own beside the gateway's, which only the gateway may reach.

There is no way out but to Google's APIs, unless the weights come from Hugging Face: then there is a NAT. There is no way
in to a shell, unless a setting asks for one: then Google's proxy, which knows who comes, may reach the port of ssh.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from infra.components.shared.compute_resource import ComputeResource
from infra.components.shared.network import Network, SubnetPlace, subnetwork
from infra.planning.plan import Plan

IAP_RANGES, SSH_PORT = ("35.235.240.0/20",), 22
"""From where Identity-Aware Proxy forwards TCP, as its documentation says, and to where."""


@dataclass(frozen=True)
class Door:
    """A way into the machines: from `ranges`, to TCP `ports`."""

    name: str
    purpose: str
    ranges: Sequence[str]
    ports: Sequence[int]


@dataclass(frozen=True)
class MachineSubnet:
    """The machines' own: `tag` names it, and marks them for the firewall."""

    tag: str
    region: str
    cidr: str
    ports: Sequence[int]
    """To which the gateway is let in."""
    iap_ssh: bool = False
    doors: Sequence[Door] = ()
    """Further ones."""


@dataclass(frozen=True)
class MachineNetworkArgs:
    """`network` holds the VPC and the gateway's subnet."""

    plan: Plan
    network: Network
    machines: MachineSubnet


class MachineNetwork(pulumi.ComponentResource):
    """`tag` marks the machines that the firewall lets the gateway reach; `ready` is what they need to start well."""

    subnet: ComputeResource
    tag: str
    ready: list[pulumi.Resource]

    def __init__(self, name: str, args: MachineNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:MachineNetwork", name, {}, opts)
        machines = args.machines
        self._name, self._plan, self._region = name, args.plan, machines.region
        self._vpc = args.network.network
        self.tag = machines.tag
        place = SubnetPlace(self.tag, self._region, machines.cidr)
        # After the gateway's: a range that cannot change is refused there, before a machine would be given up for it.
        self.subnet, cleanup = subnetwork(self, name, args.plan, self._vpc, place, after=args.network.ready)
        # Network tags of Cloud Run instances do not work in ingress rules: the gateway is known by its range.
        cidr = args.plan.settings.network.subnet_cidr
        gateway = Door("gateway", "the gateway may call the machines", (cidr,), machines.ports)
        self.ready = [*cleanup, *(self._firewall(door) for door in (gateway, *machines.doors))]
        if machines.iap_ssh:
            purpose = "ssh to the machines through Identity-Aware Proxy"
            self._firewall(Door("iap-ssh", purpose, IAP_RANGES, (SSH_PORT,)))
        if args.plan.settings.weights.from_hub:
            self.ready.append(self._nat(cleanup))
        self.register_outputs({"subnet": self.subnet.id})

    def _firewall(self, door: Door) -> ComputeResource:
        inputs = {
            "name": f"{self.tag}-{door.name}",
            "description": f"gemma4 stack {self._plan.stack}: {door.purpose}",
            "network": self._vpc.id,
            "direction": "INGRESS",
            "sourceRanges": list(door.ranges),
            "targetTags": [self.tag],
            "allows": [{"protocol": "tcp", "ports": [str(port) for port in door.ports]}],
        }
        return ComputeResource("firewall", f"{self._name}-{door.name}-in", inputs, pulumi.ResourceOptions(parent=self))

    def _nat(self, cleanup: list[pulumi.Resource]) -> ComputeResource:
        """Return Cloud NAT with addresses of Google's choice for the one subnet: a way out, none in."""
        router = ComputeResource(
            "router",
            f"{self._name}-router",
            {"name": self.tag, "region": self._region, "network": self._vpc.id},
            pulumi.ResourceOptions(parent=self),
        )
        inputs = {
            "name": self.tag,
            "router": self.tag,
            "region": self._region,
            "natIpAllocateOption": "AUTO_ONLY",
            "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS",
            "subnetworks": [{"name": self.subnet.id, "sourceIpRangesToNats": ["ALL_IP_RANGES"]}],
        }
        return ComputeResource(
            "routerNat",
            f"{self._name}-nat",
            inputs,
            pulumi.ResourceOptions(parent=self, depends_on=[router, *cleanup]),
        )
