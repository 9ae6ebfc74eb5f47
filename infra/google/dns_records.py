"""Address records of one managed zone of Cloud DNS: read them, and exchange some for others in one atomic change.

Several write to the zone: the program, and the supervisor of each machine. A change names what it takes away as it was read,
so Google refuses one that somebody else has overtaken; then the records are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from infra.errors import GoogleError
from infra.google.gcp_settings import Api
from infra.google.session import GoogleSession

_ATTEMPTS = 5  # machines that start write once each, so a change is not overtaken five times in a row
_PAUSE_S = 1.0
_OVERTAKEN = (404, 409, 412)  # not there (any longer), there already, there with another content


@dataclass(frozen=True)
class AddressRecord:
    """The record of type A of one full name, which ends in a dot."""

    name: str
    ttl_s: int
    addresses: tuple[str, ...]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """Return what the API describes as a resource record set."""
        return cls(str(raw["name"]), int(raw["ttl"]), tuple(raw["rrdatas"]))

    @property
    def body(self) -> dict[str, Any]:
        """As the API takes it."""
        return {"name": self.name, "type": "A", "ttl": self.ttl_s, "rrdatas": list(self.addresses)}


@dataclass(frozen=True)
class RecordChange:
    """`deletions` as they were read, and `additions`."""

    deletions: Sequence[AddressRecord] = ()
    additions: Sequence[AddressRecord] = ()


class DnsRecords:
    """The address records of a managed zone."""

    def __init__(self, session: GoogleSession, project: str, zone: str) -> None:
        self._session = session
        self._path = f"projects/{project}/managedZones/{zone}"

    def all(self) -> Mapping[str, AddressRecord] | None:
        """Return them by name; None where there is no such zone."""
        try:
            pages = list(self._session.pages(Api.DNS, f"{self._path}/rrsets"))
        except GoogleError as error:
            if error.status == 404:
                return None
            raise
        raw = [one for page in pages for one in page.get("rrsets", ()) if one["type"] == "A"]
        return {one["name"]: AddressRecord.of(one) for one in raw}

    def change(
        self, wanted: Callable[[Mapping[str, AddressRecord]], RecordChange]
    ) -> Mapping[str, AddressRecord] | None:
        """Make the change that `wanted` returns for the records as they are, and return the records after it.

        None where there is no such zone. Raises GoogleError, also where it was overtaken again and again.
        """
        refusal: GoogleError | None = None
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._session.sleep(_PAUSE_S)
            there = self.all()
            if there is None:
                return None
            change = wanted(there)
            if not change.additions and not change.deletions:
                return there
            body = {
                "deletions": [one.body for one in change.deletions],
                "additions": [one.body for one in change.additions],
            }
            try:
                self._session.post(Api.DNS, f"{self._path}/changes", body)
            except GoogleError as error:
                if error.status not in _OVERTAKEN:
                    raise
                refusal = error
                continue
            gone = {one.name for one in change.deletions}
            kept = {name: one for name, one in there.items() if name not in gone}
            return kept | {one.name: one for one in change.additions}
        raise GoogleError(
            f"The records of {self._path} changed at each of {_ATTEMPTS} attempts to change them; run the command again. The "
            f"last answer: {refusal}",
            status=refusal.status if refusal else 0,
            reason="CONTENDED",
        )
