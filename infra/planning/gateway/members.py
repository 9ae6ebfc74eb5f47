"""The servers behind a gateway, by names that are known before any machine is.

A machine has a name of the settings and, where one is replaced by another while both serve, a *turn*: blue-a is followed by
blue-b, and that one by blue-a again. Each has a record in the stack's private DNS zone, with a placeholder until its
supervisor puts its own address there. So the gateway never changes for a machine that comes, goes, is renewed, or takes
another of the names that it knows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MEMBER_NAMES = ("blue", "green", "red", "amber", "violet", "teal", "pink", "grey")
"""Names for machines that nobody named, as many as the settings take."""
KNOWN_NAMES = MEMBER_NAMES[:4]
"""Names that every gateway knows, whether or not the settings have a machine of that name."""
TURNS = ("a", "b")
"""Of a machine that is followed by another one of its name."""
READY_PORT = 8090
"""Where a supervisor answers GET /ready/MEMBER: 200 while that server takes requests, else 503."""
RECORD_TTL_S = 5
PLACEHOLDER = "127.0.0.1"
"""The address in the record of a machine that is not there: the gateway's own, where nothing listens on these ports."""

MEMBER = "gemma4-member"
"""The attribute of a machine that names it, and its record, to its supervisor."""
DRAIN = "gemma4-drain"
"""The attribute that asks a machine to take no new requests and finish those that it has: "true"."""


@dataclass(frozen=True)
class GatewayMember:
    """One server."""

    name: str
    """Its own: blue-a, or blue-a-2 where its machine runs several."""
    group: str
    """The name in the settings, under which whichever of them serves is asked: blue."""
    host: str
    """Its machine's label in the stack's zone: blue-a."""
    port: int


def gateway_members(
    names: Iterable[str], *, ports: Sequence[int], turns: Sequence[str] = TURNS
) -> tuple[GatewayMember, ...]:
    """Return every server that there may be: of the known names first, then of others in `names`, in their order.

    `ports` are those of the servers on one machine; `turns` is empty for machines that nothing follows.
    """
    return tuple(
        GatewayMember(f"{host}-{number}" if len(ports) > 1 else host, name, host, port)
        for name in dict.fromkeys((*KNOWN_NAMES, *names))
        for host in ([f"{name}-{turn}" for turn in turns] or [name])
        for number, port in enumerate(ports)
    )


def by_path_name(members: Iterable[GatewayMember]) -> dict[str, tuple[GatewayMember, ...]]:
    """Return the servers behind each name of a path: those of a group behind the group's, and each behind its own.

    Raises:
        ValueError: two servers, or a server and another one's group, share a name.
    """
    members = tuple(members)
    groups: dict[str, tuple[GatewayMember, ...]] = {}
    for member in members:
        groups[member.group] = (*groups.get(member.group, ()), member)
    named = dict(groups)
    for member in members:
        if named.get(member.name, (member,)) != (member,):
            raise ValueError(f"two servers or groups behind the gateway are called {member.name}")
        named[member.name] = (member,)
    return named


def member_attribute(name: str, *, project: str, zone: str, host: str, domain: str) -> str:
    """Return the attribute of a machine called `name`: its record is that of `host` below `domain`, in the managed zone."""
    return json.dumps({"name": name, "project": project, "zone": zone, "record": f"{host}.{domain}."})
