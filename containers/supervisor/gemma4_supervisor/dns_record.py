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

from containers.shared.web import Reply, TransientError, backoff, call

from .log import Log
from .machine_status import MachineStatus, ServerStatus
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
        headers = {"Authorization": f"Bearer {self._metadata.token()}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        reply = call(method, url, timeout_s=ANSWER_S, headers=headers, body=data)
        if reply.status == 401:
            self._metadata.forget_token()
        return reply


class DnsRecord(threading.Thread):
    """Keeps the record as it should be, and writes it again where somebody else has changed it."""

    def __init__(
        self, settings: SupervisorSettings, metadata: MetadataServer, log: Log, status: MachineStatus | ServerStatus
    ) -> None:
        super().__init__(name="record", daemon=True)
        self._settings, self._metadata, self._log, self._status = settings, metadata, log, status
        self._zones = DnsZones(settings.dns_url, metadata)
        self._lock = threading.Lock()
        self._place: RecordPlace | None = None
        self._left: list[RecordPlace] = []
        self._is_member = True
        self._written = ""
        self._wake, self._settled = threading.Event(), threading.Event()
        status.set(record=None)

    def move(self, place: RecordPlace | None) -> None:
        """Keep the record at `place` from now on, and leave the one before; None where the machine has none."""
        with self._lock:
            if place != self._place:
                self._left += [self._place] if self._place else []
                self._place = place
            self._change()

    def join_gateways(self) -> None:
        """Have the record hold the machine's own address."""
        with self._lock:
            self._is_member = True
            self._change()

    def leave_gateways(self) -> None:
        """Have the record hold the placeholder, where it holds the machine's own address now."""
        with self._lock:
            self._is_member = False
            self._change()

    def wait_until_written(self, at_most_s: float) -> None:
        """Return once the record is as it should be, or after that time."""
        self._settled.wait(at_most_s)

    def run(self) -> None:
        failures = 0
        while True:
            self._wake.clear()
            try:
                self._write()
                failures = 0
            except TransientError as error:
                failures += 1
                text = f"The machine's record cannot be written: {error}. Gateways do not follow its address."
                self._status.trouble("record", text)
            settings = self._settings
            wait_s = backoff(settings.retry_s, settings.record_retry_cap_s, failures) if failures else settings.record_s
            self._wake.wait(wait_s)

    def _change(self) -> None:
        self._settled.clear()
        self._wake.set()

    def _write(self) -> None:
        with self._lock:
            place, left, is_member = self._place, tuple(self._left), self._is_member
        own = self._metadata.address() if place or left else ""
        for each in left:
            self._zones.exchange(each, PLACEHOLDER, only_from=own)
        address = own if is_member else PLACEHOLDER
        before = self._zones.exchange(place, address, only_from="" if is_member else own) if place else ""
        with self._lock:
            self._left = [each for each in self._left if each not in left]
            if (place, is_member) == (self._place, self._is_member):
                self._settled.set()
        self._status.clear("record")
        if place:
            self._report(place, before, address if is_member or before == own else before)

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
