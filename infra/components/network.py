"""The stack's own VPC: one regional subnet with Private Google Access and no way in.

A network of ours carries no firewall rule that allows ingress; what must be reachable says so itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra.planning.plan import Plan


@dataclass(frozen=True)
class NetworkArgs:
    """`apis`: what must be enabled first."""

    plan: Plan
    apis: list[pulumi.Resource]


class Network(pulumi.ComponentResource):
    """A VPC with one subnet in the plan's region."""

    network: gcp.compute.Network
    subnet: gcp.compute.Subnetwork

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:Network", name, {}, opts)
        self.network = gcp.compute.Network(
            f"{name}-vpc",
            name=args.plan.names.prefix,
            description=f"gemma4 stack {args.plan.stack}",
            auto_create_subnetworks=False,
            opts=pulumi.ResourceOptions(parent=self, depends_on=args.apis),
        )
        self.subnet = subnetwork(
            self,
            f"{name}-subnet",
            args.plan,
            self.network,
            name=args.plan.names.prefix,
            region=args.plan.region,
            cidr=args.plan.settings.network.subnet_cidr,
        )
        self.register_outputs({"network": self.network.id, "subnet": self.subnet.id})


def subnetwork(
    parent: pulumi.Resource,
    resource: str,
    plan: Plan,
    network: gcp.compute.Network,
    *,
    name: str,
    region: str,
    cidr: str,
) -> gcp.compute.Subnetwork:
    """A subnet from which Google's APIs can be reached without an external address."""
    return gcp.compute.Subnetwork(
        resource,
        name=name,
        description=f"gemma4 stack {plan.stack}",
        network=network.id,
        region=region,
        ip_cidr_range=cidr,
        private_ip_google_access=True,
        # Cloud Run lets go of a subnet an hour or two after the service is gone.
        opts=pulumi.ResourceOptions(parent=parent, custom_timeouts=pulumi.CustomTimeouts(delete="2h")),
    )
