"""The machine's record in its stack's private zone: its own address while it is a member, else a placeholder.

The record is there before any machine, and several may write it: Pulumi, which makes it, and each machine of that name in
turn. So a change names what it takes away as it was read, and Google refuses one that somebody else has overtaken. An
address that a machine left behind is overwritten by whoever comes next; nobody takes away another's.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from containers.shared.web import Reply, TransientError, backoff

from .log import Log
from .machine_status import MachineStatus
from .metadata_server import MetadataServer
from .supervisor_settings import SupervisorSettings

PLACEHOLDER = "127.0.0.1"
"""The gateway's own address, where nothing listens on these ports."""
TTL_S = 5
ANSWER_S = 10.0
TRIES = 5
"""Changes that others overtake, one after the other, before it is left for later."""
OVERTAKEN = (404, 409, 412)
"""Answers where the record was removed, added, or changed since it was read."""

Record = Mapping[str, Any]


@dataclass(frozen=True)
class RecordPlace:
    """Where the record is: a project, a managed zone's name, and a full name that ends with a dot."""

    project: str
    zone: str
    name: str


class DnsZones:
    """Address records of managed zones. Methods raise TransientError, whatever Google says: a grant or a zone may come."""

    def __init__(self, url: str, metadata: MetadataServer) -> None:
        self._url, self._metadata = url, metadata

    def exchange(self, place: RecordPlace, address: str, only_from: str = "") -> str:
        """Put an address into the record, where `only_from` is given only in place of that one.

        Returns the address that was there before, blank where there was none.
        """
        wanted: Record = {"name": place.name, "type": "A", "ttl": TTL_S, "rrdatas": [address]}
        for _ in range(TRIES):
            there = self._read(place)
            before = str(there["rrdatas"][0]) if there else ""
            if there == wanted or (only_from and before != only_from):
                return before
            change = {"deletions": [there] if there else [], "additions": [wanted]}
            reply = self._ask("POST", place, "changes", change)
            if reply.status == 200:
                return before
            if reply.status not in OVERTAKEN or (reply.status == 404 and not there):
                raise _refusal(reply, place)
        raise TransientError(f"{place.name} is changed by others at this moment")

    def _read(self, place: RecordPlace) -> Record | None:
        reply = self._ask("GET", place, f"rrsets/{quote(place.name)}/A")
        if reply.status == 404:
            return None  # the record, or the zone, which the change will say
        if reply.status != 200:
            raise _refusal(reply, place)
        try:
            record = json.loads(reply.body)
            kept = {"name": record["name"], "type": record["type"], "ttl": record["ttl"], "rrdatas": record["rrdatas"]}
            return kept if kept["rrdatas"] else None
        except (ValueError, KeyError, TypeError):
            raise TransientError("Cloud DNS answers what is no record") from None

    def _ask(self, method: str, place: RecordPlace, path: str, body: Any = None) -> Reply:
        url = f"{self._url}/dns/v1/projects/{quote(place.project)}/managedZones/{quote(place.zone)}/{path}"
        return self._metadata.ask_google(method, url, timeout_s=ANSWER_S, body=body)


class DnsRecord(threading.Thread):
    """Keeps the record as it should be, and writes it again where somebody else has changed it."""

    def __init__(self, settings: SupervisorSettings, metadata: MetadataServer, log: Log, status: MachineStatus) -> None:
        super().__init__(name="record", daemon=True)
        self._settings, self._metadata, self._log, self._status = settings, metadata, log, status
        self._zones = DnsZones(settings.dns_url, metadata)
        self._wanted: tuple[RecordPlace | None, bool] = (None, True)
        """Where the record is, if the machine has one, and whether it is to hold the machine's address."""
        self._written = ""
        self._wake, self._settled = threading.Event(), threading.Event()
        status.set(record=None)

    def keep(self, place: RecordPlace | None, *, is_member: bool) -> None:
        """Have the record hold the machine's address while it `is_member`, else the placeholder where it holds that address."""
        if place != self._wanted[0]:
            self._written = ""
        self._wanted = (place, is_member)
        self._settled.clear()
        self._wake.set()

    def wait_until_written(self, at_most_s: float) -> None:
        """Return once the record is as it should be, or after that time."""
        self._settled.wait(at_most_s)

    def run(self) -> None:
        failures, settings = 0, self._settings
        while True:
            self._wake.clear()
            try:
                self._write(*self._wanted)
                failures = 0
            except TransientError as error:
                failures += 1
                text = f"The machine's record cannot be written: {error}. Gateways do not follow its address."
                self._status.trouble("record", text)
            wait_s = backoff(settings.retry_s, settings.record_retry_cap_s, failures) if failures else settings.record_s
            self._wake.wait(wait_s)

    def _write(self, place: RecordPlace | None, is_member: bool) -> None:
        if place:
            own = self._metadata.address()
            if is_member:
                before, after = self._zones.exchange(place, own), own
            else:
                before = self._zones.exchange(place, PLACEHOLDER, only_from=own)
                after = PLACEHOLDER if before == own else before
            self._report(place, before, after)
        if self._wanted == (place, is_member):
            self._settled.set()
        self._status.clear("record")

    def _report(self, place: RecordPlace, before: str, after: str) -> None:
        self._status.set(record=after)
        text = f"{place.name} is {after} now; it was {before or 'not there'}."
        if before != after == self._written:
            self._log.warning("record", f"Somebody else has changed it: {text}", before=before, after=after)
        elif before != after:
            self._log.info("record", text, before=before, after=after)
        self._written = after


def _refusal(reply: Reply, place: RecordPlace) -> TransientError:
    zone = f"zone {place.zone} of project {place.project}"
    remedies = {
        403: f"; grant the machine's service account the stack's role for records on the {zone}",
        404: f"; there is no {zone}",
    }
    said = " ".join(reply.text.split())[:300]
    return TransientError(f"Cloud DNS answers HTTP {reply.status} ({said}){remedies.get(reply.status, '')}")
