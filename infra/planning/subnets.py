"""Address ranges of a stack's subnets, decided from the one that its settings name."""

from __future__ import annotations

from ipaddress import IPv4Network


def neighbour(cidr: str) -> str:
    """The range of the same size beside `cidr`: gateway and slices live apart, so that one can be let in and no other."""
    network = IPv4Network(cidr, strict=False)
    step = network.num_addresses
    start = int(network.network_address) ^ step  # the other half of the range twice as large: never out of bounds
    return str(IPv4Network((start, network.prefixlen)))
