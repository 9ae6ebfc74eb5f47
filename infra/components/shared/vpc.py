"""The five Compute resources that stacks use, by their type tokens.

The generated module pulumi_gcp.compute describes all of Compute Engine, and loading it takes longer than everything else
that a plan or a preview does (docs/decisions has the figures). These classes send exactly what the generated ones would;
tests/components/test_vpc.py holds their inputs to the generated ones, name by name.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

_VERSION = importlib.metadata.version("pulumi-gcp")


class _Compute(pulumi.CustomResource):
    """A resource of the gcp provider; inputs without a value are left out."""

    KIND: str

    def __init__(self, name: str, inputs: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        given = {key: value for key, value in inputs.items() if value is not None}
        # The version decides which provider serves it: the same as for all other resources.
        own = pulumi.ResourceOptions(version=_VERSION)
        super().__init__(self.KIND, name, given, pulumi.ResourceOptions.merge(own, opts))


class Network(_Compute):
    """A VPC without subnets of its own."""

    KIND = "gcp:compute/network:Network"

    def __init__(self, resource: str, *, name: str, description: str, opts: pulumi.ResourceOptions) -> None:
        super().__init__(resource, {"name": name, "description": description, "autoCreateSubnetworks": False}, opts)


class Subnetwork(_Compute):
    """A regional subnet from which Google's APIs can be reached without an external address."""

    KIND = "gcp:compute/subnetwork:Subnetwork"

    def __init__(
        self,
        resource: str,
        *,
        name: str,
        description: str,
        network: pulumi.Input[str],
        region: str,
        cidr: str,
        opts: pulumi.ResourceOptions,
    ) -> None:
        inputs = {
            "name": name,
            "description": description,
            "network": network,
            "region": region,
            "ipCidrRange": cidr,
            "privateIpGoogleAccess": True,
        }
        super().__init__(resource, inputs, opts)


class Firewall(_Compute):
    """Lets TCP connections in from source ranges to machines with a tag."""

    KIND = "gcp:compute/firewall:Firewall"

    def __init__(
        self,
        resource: str,
        *,
        name: str,
        description: str,
        network: pulumi.Input[str],
        source_ranges: Sequence[pulumi.Input[str]],
        target_tag: str,
        port: int,
        opts: pulumi.ResourceOptions,
    ) -> None:
        inputs = {
            "name": name,
            "description": description,
            "network": network,
            "direction": "INGRESS",
            "sourceRanges": list(source_ranges),
            "targetTags": [target_tag],
            "allows": [{"protocol": "tcp", "ports": [str(port)]}],
        }
        super().__init__(resource, inputs, opts)


class Router(_Compute):
    """The router that Cloud NAT needs."""

    KIND = "gcp:compute/router:Router"

    def __init__(
        self, resource: str, *, name: str, region: str, network: pulumi.Input[str], opts: pulumi.ResourceOptions
    ) -> None:
        super().__init__(resource, {"name": name, "region": region, "network": network}, opts)


class RouterNat(_Compute):
    """Cloud NAT with addresses of Google's choice for one subnet: a way out, none in."""

    KIND = "gcp:compute/routerNat:RouterNat"

    def __init__(
        self,
        resource: str,
        *,
        name: str,
        router: str,
        region: str,
        subnet: pulumi.Input[str],
        opts: pulumi.ResourceOptions,
    ) -> None:
        inputs = {
            "name": name,
            "router": router,
            "region": region,
            "natIpAllocateOption": "AUTO_ONLY",
            "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS",
            "subnetworks": [{"name": subnet, "sourceIpRangesToNats": ["ALL_IP_RANGES"]}],
        }
        super().__init__(resource, inputs, opts)
