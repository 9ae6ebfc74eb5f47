"""The records by which a gateway finds the machines of a stack, each with a placeholder until its machine takes it.

A gateway must never hear that a name does not exist: that answer may be remembered for minutes. So all names that it knows
have a record before any machine exists. The gcp provider's own record resource overwrites what it finds, and fails where a
supervisor has changed a record since; this one adds what is missing, never touches a record that is there, and in the end
deletes whatever stands there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, UpdateResult

from infra.errors import GoogleError
from infra.google.dns_records import AddressRecord, DnsRecords, RecordChange
from infra.planning.gateway.members import PLACEHOLDER, RECORD_TTL_S
from infra.providers.base import DynamicResource, Provider, changed, fail

_PLACE = ("project", "zone", "domain")


@dataclass(frozen=True)
class MemberRecordsArgs:
    """`zone` is the managed zone's name, `domain` the DNS name below which it answers, `hosts` the first labels in it."""

    project: str
    zone: pulumi.Input[str]
    domain: str
    hosts: list[str]


class MemberRecords(DynamicResource):
    """Machines must depend on this, so that it is deleted after them. `missing` are hosts whose record somebody has deleted."""

    missing: pulumi.Output[list[str]]

    def __init__(self, name: str, args: MemberRecordsArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(MemberRecordsProvider(), name, args, opts)


class MemberRecordsProvider(Provider):
    """Adds, looks for and deletes records."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Add a placeholder for each host without a record."""
        self._add_missing(props)
        return CreateResult(f"{props['zone']}/members", {**props, "missing": []})

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Return which hosts have no record. Without an answer from Google the state stays as it is."""
        try:
            there = self._records(props).all()
        except GoogleError:
            return ReadResult(id_, props)  # the zone gets the same error and reports it
        if there is None:
            return ReadResult("", {})
        missing = [host for host in props["hosts"] if _name(props, host) not in there]
        return ReadResult(id_, {**props, "missing": missing})

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return an update for other hosts and for missing records, and a replacement for another zone."""
        moved = changed(olds, news, _PLACE)
        if moved:
            return DiffResult(changes=True, replaces=moved)
        return DiffResult(changes=bool(changed(olds, news, ("hosts",)) or olds.get("missing")))

    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Add what is missing, and delete the records of hosts that are no longer named."""
        self._add_missing(news)
        gone = [host for host in olds["hosts"] if host not in news["hosts"]]
        self._delete(news, gone)
        return UpdateResult({**news, "missing": []})

    def delete(self, _id: str, props: dict[str, Any]) -> None:
        """Delete whatever stands there; nothing where the zone is gone."""
        self._delete(props, props["hosts"])

    def _add_missing(self, props: Mapping[str, Any]) -> None:
        names = [_name(props, host) for host in props["hosts"]]

        def missing(there: Mapping[str, AddressRecord]) -> RecordChange:
            absent = [name for name in names if name not in there]
            return RecordChange(additions=[AddressRecord(name, RECORD_TTL_S, (PLACEHOLDER,)) for name in absent])

        try:
            known = self._records(props).change(missing)
        except GoogleError as error:
            fail(str(error))
        if known is None:
            fail(
                f"The DNS zone {props['zone']} is gone, so no machine can be found by its name. Run `pulumi up` again: it "
                "makes the zone anew."
            )

    def _delete(self, props: Mapping[str, Any], hosts: list[str]) -> None:
        names = [_name(props, host) for host in hosts]
        try:
            self._records(props).change(
                lambda there: RecordChange(deletions=[there[name] for name in names if name in there])
            )
        except GoogleError as error:
            fail(str(error))

    def _records(self, props: Mapping[str, Any]) -> DnsRecords:
        return DnsRecords(self.session(), props["project"], props["zone"])


def _name(props: Mapping[str, Any], host: str) -> str:
    return f"{host}.{props['domain']}."
