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
        self.subnet = gcp.compute.Subnetwork(
            f"{name}-subnet",
            name=args.plan.names.prefix,
            description=f"gemma4 stack {args.plan.stack}",
            network=self.network.id,
            region=args.plan.region,
            ip_cidr_range=args.plan.settings.network.subnet_cidr,
            private_ip_google_access=True,
            # Cloud Run lets go of a subnet an hour or two after the service is gone.
            opts=pulumi.ResourceOptions(parent=self, custom_timeouts=pulumi.CustomTimeouts(delete="2h")),
        )
        self.register_outputs({"network": self.network.id, "subnet": self.subnet.id})
