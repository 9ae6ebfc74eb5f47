"""The stack's own VPC: one regional subnet with Private Google Access and no way in.

It carries no firewall rule that allows ingress: a component whose machines must be reached adds its own rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from infra.components.shared.compute_resource import ComputeResource
from infra.planning.plan import Plan
from infra.providers.subnet_cleanup import SubnetCleanup, SubnetCleanupArgs


@dataclass(frozen=True)
class NetworkArgs:
    """`apis`: what must be enabled first."""

    plan: Plan
    apis: list[pulumi.Resource]


class Network(pulumi.ComponentResource):
    """A VPC with one subnet in the plan's region. What uses the subnet depends on `ready`."""

    network: ComputeResource
    subnet: ComputeResource
    ready: list[pulumi.Resource]

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:Network", name, {}, opts)
        self.network = ComputeResource(
            "network",
            f"{name}-vpc",
            {
                "name": args.plan.names.prefix,
                "description": f"gemma4 stack {args.plan.stack}",
                "autoCreateSubnetworks": False,
            },
            pulumi.ResourceOptions(parent=self, depends_on=args.apis),
        )
        cidr = args.plan.settings.network.subnet_cidr
        place = SubnetPlace(args.plan.names.prefix, args.plan.region, cidr, service=args.plan.names.prefix)
        self.subnet, self.ready = subnetwork(self, name, args.plan, self.network, place)
        self.register_outputs({"network": self.network.id, "subnet": self.subnet.id})


@dataclass(frozen=True)
class SubnetPlace:
    """Cloud name, region and range of a subnet, and the Cloud Run service in it."""

    name: str
    region: str
    cidr: str
    service: str = ""


def subnetwork(
    parent: pulumi.Resource,
    prefix: str,
    plan: Plan,
    network: ComputeResource,
    place: SubnetPlace,
    after: Sequence[pulumi.Resource] = (),
) -> tuple[ComputeResource, list[pulumi.Resource]]:
    """Return a subnet from which Google's APIs can be reached without an external address, and what its users depend on."""
    subnet = ComputeResource(
        "subnetwork",
        f"{prefix}-subnet",
        {
            "name": place.name,
            "description": f"gemma4 stack {plan.stack}",
            "network": network.id,
            "region": place.region,
            "ipCidrRange": place.cidr,
            "privateIpGoogleAccess": True,
        },
        pulumi.ResourceOptions(parent=parent, depends_on=list(after)),
    )
    cleanup = SubnetCleanup(
        f"{prefix}-subnet-cleanup",
        SubnetCleanupArgs(project=plan.names.project, **vars(place)),
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[subnet]),
    )
    return subnet, [cleanup]
