"""Where TPU slices live: a subnet of their own beside the gateway's, which only the gateway may reach.

There is no way out but to Google's APIs, unless the weights come from Hugging Face: then there is a NAT. There is no way
in to a shell, unless `tpu.iapSsh` asks for one: then Google's proxy, which knows who comes, may reach the port of ssh.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from infra.components.shared.compute_resource import ComputeResource
from infra.components.shared.network import Network, SubnetPlace, subnetwork
from infra.planning.plan import Plan
from infra.planning.platforms.tpu.slices import SLICES, SlicesPlan
from infra.planning.server.command import PORT

IAP_RANGE, SSH_PORT = "35.235.240.0/20", 22
"""From where Identity-Aware Proxy forwards TCP, as its documentation says, and to where."""


@dataclass(frozen=True)
class SliceNetworkArgs:
    """`network` holds the VPC and the gateway's subnet."""

    plan: Plan
    slices: SlicesPlan
    network: Network


class SliceNetwork(pulumi.ComponentResource):
    """`tag` marks the machines that the firewall lets the gateway reach; `ready` is what they need to start well."""

    subnet: ComputeResource
    tag: str
    ready: list[pulumi.Resource]

    def __init__(self, name: str, args: SliceNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:SliceNetwork", name, {}, opts)
        self._name, self._plan, self._region = name, args.plan, args.slices.region
        self._vpc = args.network.network
        self.tag = args.plan.names.part(SLICES)
        place = SubnetPlace(self.tag, self._region, args.slices.subnet_cidr)
        # After the gateway's: a range that cannot change is refused there, before a slice would be given up for it.
        self.subnet, cleanup = subnetwork(self, name, args.plan, self._vpc, place, after=args.network.ready)
        # Network tags of Cloud Run instances do not work in ingress rules: the gateway is known by its range.
        cidr = args.plan.settings.network.subnet_cidr
        self.ready = [*cleanup, self._firewall("gateway", "the gateway may call the slices", cidr, PORT)]
        if args.plan.settings.tpu.iap_ssh:
            self._firewall("iap-ssh", "ssh to the slices through Identity-Aware Proxy", IAP_RANGE, SSH_PORT)
        if args.plan.settings.weights.from_hub:
            self.ready.append(self._nat(cleanup))
        self.register_outputs({"subnet": self.subnet.id})

    def _firewall(self, who: str, what: str, cidr: str, port: int) -> ComputeResource:
        inputs = {
            "name": f"{self.tag}-{who}",
            "description": f"gemma4 stack {self._plan.stack}: {what}",
            "network": self._vpc.id,
            "direction": "INGRESS",
            "sourceRanges": [cidr],
            "targetTags": [self.tag],
            "allows": [{"protocol": "tcp", "ports": [str(port)]}],
        }
        return ComputeResource("firewall", f"{self._name}-{who}-in", inputs, pulumi.ResourceOptions(parent=self))

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
