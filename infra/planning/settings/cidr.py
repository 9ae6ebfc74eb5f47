"""Address ranges of a stack's network: the one in the settings, and the one beside it that TPU slices get."""

from __future__ import annotations

from ipaddress import IPv4Network

PRIVATE = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
"""Private address space (RFC 1918 and RFC 6598)."""
DOCKER = IPv4Network("172.17.0.0/16")
"""The default range of Docker's bridge on a machine: an address in it is not reached over the network."""

_LONGEST, _SHORTEST = 26, 16  # Cloud Run's Direct VPC egress needs a /26 at least


def check_range(text: str) -> str:
    """Return `text`. Raises ValueError with what is wrong, in words that follow the value in a message."""
    try:
        network = IPv4Network(text, strict=False)
    except ValueError:
        network = IPv4Network("0.0.0.0/0")
    if not _SHORTEST <= network.prefixlen <= _LONGEST:
        raise ValueError("is not an IPv4 range of /16 to /26; write it like 10.8.0.0/26")
    if str(network) != text:
        raise ValueError(f"begins in the middle of a range; write {network}")
    if not is_private(network):
        *others, last = (str(known) for known in PRIVATE)
        raise ValueError(f"is not private: it is in none of {', '.join(others)} and {last}; write it like 10.8.0.0/26")
    return text


def is_private(network: IPv4Network) -> bool:
    """Return True if the whole network is private address space."""
    return any(network.subnet_of(known) for known in PRIVATE)


def neighbour(cidr: str) -> str:
    """Return the range of the same size beside `cidr`: the other half of the range twice as large."""
    network = IPv4Network(cidr, strict=False)
    step = network.num_addresses
    start = int(network.network_address) ^ step
    return str(IPv4Network((start, network.prefixlen)))
