"""Address ranges of a stack's own network: the one that is written, and the one beside it that TPU slices get."""

from __future__ import annotations

from ipaddress import IPv4Network

PRIVATE = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
"""RFC 1918 and RFC 6598: everything else is somebody's on the internet, or nobody's anywhere."""
DOCKER = IPv4Network("172.17.0.0/16")
"""What Docker gives its bridge on a machine, by default: addresses in it lead no further."""

_LONGEST, _SHORTEST = 26, 16  # Cloud Run's Direct VPC egress needs a /26 at least


def check_range(text: str) -> str:
    """`text` itself. Raises ValueError with what is wrong, in words that follow the value."""
    try:
        network = IPv4Network(text, strict=False)
    except ValueError:
        network = IPv4Network("0.0.0.0/0")
    if not _SHORTEST <= network.prefixlen <= _LONGEST:
        raise ValueError("is no IPv4 range of /16 to /26; write it like 10.8.0.0/26")
    if str(network) != text:
        raise ValueError(f"begins in the middle of a range; write {network}")
    if not is_private(network):
        *others, last = (str(known) for known in PRIVATE)
        raise ValueError(
            f"is not private, that is in none of {', '.join(others)} and {last}; write it like 10.8.0.0/26"
        )
    return text


def is_private(network: IPv4Network) -> bool:
    """Whether the whole of it may be anybody's."""
    return any(network.subnet_of(known) for known in PRIVATE)


def neighbour(cidr: str) -> str:
    """The range of the same size beside `cidr`."""
    network = IPv4Network(cidr, strict=False)
    step = network.num_addresses
    start = int(network.network_address) ^ step  # the other half of the range twice as large: never out of bounds
    return str(IPv4Network((start, network.prefixlen)))
