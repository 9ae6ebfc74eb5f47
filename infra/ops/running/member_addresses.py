"""Which machines a stack's gateway is sent to: the address that the record of each name has in the stack's private zone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field

from infra.errors import GoogleError
from infra.google.dns_records import DnsRecords
from infra.google.session import GoogleSession
from infra.planning.gateway.members import PLACEHOLDER
from infra.planning.plan import Plan


@dataclass(frozen=True)
class MemberAddresses:
    """`by_host` has the first label of each name, without those whose record has the placeholder; `planned` are the hosts of
    which the stack file names a machine. `zone` is False where the stack has no such zone. `gap` says why nothing is known."""

    by_host: Mapping[str, str] = field(default_factory=dict)
    planned: Set[str] = frozenset()
    zone: bool = True
    gap: str = ""

    def why_not_routed(self, host: str, address: str) -> str:
        """Return why requests do not reach the machine of that name at `address`, as the end of a sentence; empty where they
        do, or where it is not known."""
        if self.gap or not address or self.by_host.get(host) == address:
            return ""
        if not self.zone:
            return "the stack has no private zone in which its gateway would find it"
        there = self.by_host.get(host)
        return f"its record names {there}, another machine" if there else "its record names no machine"

    def of_nobody(self, addresses: Set[str]) -> Iterator[str]:
        """Yield a sentence for each record that names none of the planned machines. `addresses` are those of all of them that
        are there. Of a host that is not planned any more, the machine may still be there and serve."""
        for host, address in sorted(self.by_host.items()):
            if address not in addresses and host not in self.planned:
                yield (
                    f"the record {host} names {address}, and no {host} is planned: requests go there as long as a machine "
                    f"answers as {host}; the next pulumi up deletes one that was planned before"
                )
            elif address not in addresses:
                yield (
                    f"the record {host} names {address}, where no machine of the stack is: nothing is sent there, since nobody "
                    f"answers as {host}; the next {host} writes its own address"
                )


def member_addresses(session: GoogleSession, plan: Plan) -> MemberAddresses:
    """Return the addresses as they are now. What cannot be asked is a gap, never an error."""
    names = plan.names
    try:
        records = DnsRecords(session, names.project, names.prefix).all()
    except GoogleError as error:
        return MemberAddresses(gap=f"which machines the gateway finds: {error}")
    if records is None:
        return MemberAddresses(zone=False)
    end, deployed = f".{names.domain}.", plan.deployment
    return MemberAddresses(
        planned={host for member in deployed.member_paths() for host in deployed.hosts(member)},
        by_host={
            name.removesuffix(end): address
            for name, record in records.items()
            for address in record.addresses[:1]
            if name.endswith(end) and address != PLACEHOLDER
        },
    )
