"""`/dns/v1`: managed zones and their record sets. A change is atomic, and refused where the records are not as it says.

Wordings and reasons of refusals are those that users of Google's Cloud DNS quote in public issues of external-dns (412 and
404 of deletions), bridgy-fed (409 of additions), terraform-provider-google (409 of a record set, 400 of a zone that is not
empty). How it refuses a caller without a permission is not among them: that is in the form of the other products.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, ClassVar

from tests.fakes.google.product import Product, apply_changes, page, required, route
from tests.fakes.google.wire import ErrorAnswer, Request, permission_denied
from tests.fakes.google.world import World

ZONES = "projects/{project}/managedZones"
ZONE = f"{ZONES}/{{zone}}"
RECORD = f"{ZONE}/rrsets/{{name}}/{{kind}}"
SOA = "ns-gcp-private.googledomains.com. cloud-dns-hostmaster.google.com. 1 21600 3600 259200 300"

Key = tuple[str, str]
"""Name and type of a record set."""
Records = dict[Key, dict[str, Any]]


class Dns(Product):
    """`denied` holds permissions that no caller has; with `granted`, callers have these and no others.

    A change is pending for `change_polls` GETs. Its records are there at once.
    """

    prefix: ClassVar[str] = "dns"
    controls: ClassVar[tuple[str, ...]] = (*Product.controls, "deny", "allow", "write", "addresses")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.records: dict[str, Records] = {}
        self.changes: dict[str, list[dict[str, Any]]] = {}
        self.change_polls = 0
        self.denied: set[str] = set()
        self.granted: set[str] | None = None
        world.users.append(self.users_of)

    # What a test does and sees.

    def deny(self, *permissions: str) -> None:
        self.denied |= {*permissions}

    def allow(self, *permissions: str) -> None:
        self.denied -= {*permissions}

    def write(self, zone: str, name: str, *addresses: str, ttl: int = 5) -> None:
        """Replace an address record whoever wrote it, as somebody else's change would; remove it without addresses."""
        with self.world.lock:
            records = self.records[self._name(self.world.project, zone)]
            records.pop((name, "A"), None)
            if addresses:
                records[name, "A"] = _record({"name": name, "type": "A", "ttl": ttl, "rrdatas": [*addresses]})

    def addresses(self, zone: str) -> dict[str, str]:
        """The first address of each name in a zone, as a resolver answers them."""
        with self.world.lock:
            records = self.records.get(self._name(self.world.project, zone), {})
            return {name: one["rrdatas"][0] for (name, kind), one in records.items() if kind == "A"}

    def users_of(self, resource: str) -> list[str]:
        """The zones that can be seen in a network."""
        return [
            name
            for name, zone in self.resources.items()
            for network in zone.get("privateVisibilityConfig", {}).get("networks", [])
            if str(network.get("networkUrl", "")).endswith(resource)
        ]

    # Zones.

    @route("POST", ZONES)
    def create_zone(self, request: Request, project: str) -> Any:
        self._check("dns.managedZones.create", f"projects/{project}")
        body = request.json()
        name = self._name(project, required(body.get("name"), "entity.managedZone.name"))
        apex = required(body.get("dnsName"), "entity.managedZone.dnsName")
        if not apex.endswith("."):
            raise _refused(400, "invalid", f"Invalid value for 'entity.managedZone.dnsName': '{apex}'")
        if name in self.resources:
            raise _refused(
                409, "alreadyExists", f"The resource 'entity.managedZone' named '{body['name']}' already exists"
            )
        self.resources[name] = {
            "visibility": "public",
            **{key: value for key, value in body.items() if value is not None},
            "kind": "dns#managedZone",
            "id": str(self.world.serial() + 10**18),
            "nameServers": ["ns-gcp-private.googledomains.com."],
            "creationTime": self.world.now(),
        }
        own = {"NS": "ns-gcp-private.googledomains.com.", "SOA": SOA}
        self.records[name] = {
            (apex, kind): _record({"name": apex, "type": kind, "ttl": 21600, "rrdatas": [data]})
            for kind, data in own.items()
        }
        self.changes[name] = []
        return self.resources[name]

    @route("GET", ZONES)
    def zones(self, request: Request, project: str) -> Any:
        self._check("dns.managedZones.list", f"projects/{project}")
        start, apex = f"projects/{project}/", request.query.get("dnsName")
        found = [one for name, one in self.resources.items() if name.startswith(start)]
        return page([one for one in found if apex in (None, one["dnsName"])], request, "managedZones")

    @route("GET", ZONE)
    def get_zone(self, request: Request, project: str, zone: str) -> Any:
        return self._zone(project, zone, "dns.managedZones.get")

    @route("PATCH", ZONE)
    @route("PUT", ZONE)
    def change_zone(self, request: Request, project: str, zone: str) -> Any:
        found = self._zone(project, zone, "dns.managedZones.update")
        apply_changes(found, request)
        return {"kind": "dns#operation", "id": str(self.world.serial()), "status": "done", "type": "update"}

    @route("DELETE", ZONE)
    def delete_zone(self, request: Request, project: str, zone: str) -> Any:
        apex = self._zone(project, zone, "dns.managedZones.delete")["dnsName"]
        name = self._name(project, zone)
        if any(key not in ((apex, "NS"), (apex, "SOA")) for key in self.records[name]):
            text = f"The resource named '{zone}' cannot be deleted because it contains one or more 'resource records'."
            raise _refused(400, "containerNotEmpty", text)
        self.remove(name)
        del self.records[name], self.changes[name]
        return {}

    # Record sets.

    @route("GET", f"{ZONE}/rrsets")
    def index(self, request: Request, project: str, zone: str) -> Any:
        self._zone(project, zone, "dns.resourceRecordSets.list")
        name, kind = request.query.get("name"), request.query.get("type")
        found = [
            one
            for key, one in sorted(self.records[self._name(project, zone)].items())
            if name in (None, key[0]) and kind in (None, key[1])
        ]
        return {"kind": "dns#resourceRecordSetsListResponse", "rrsets": [], **page(found, request, "rrsets")}

    @route("GET", RECORD)
    def get(self, request: Request, project: str, zone: str, name: str, kind: str) -> Any:
        self._zone(project, zone, "dns.resourceRecordSets.get")
        return self._found(project, zone, name, kind)

    @route("POST", f"{ZONE}/rrsets")
    def create(self, request: Request, project: str, zone: str) -> Any:
        return self._replace(project, zone, "entity.rrset", [], [request.json()])[1][0]

    @route("PATCH", RECORD)
    def patch(self, request: Request, project: str, zone: str, name: str, kind: str) -> Any:
        there = self._found(project, zone, name, kind)
        return self._replace(project, zone, "entity.rrset", [there], [{**there, **request.json()}])[1][0]

    @route("DELETE", RECORD)
    def delete(self, request: Request, project: str, zone: str, name: str, kind: str) -> Any:
        self._replace(project, zone, "entity.rrset", [self._found(project, zone, name, kind)], [])
        return {}

    # Changes.

    @route("POST", f"{ZONE}/changes")
    def create_change(self, request: Request, project: str, zone: str) -> Any:
        self._zone(project, zone, "dns.changes.create")
        body = request.json()
        if not body.get("additions") and not body.get("deletions"):
            raise _refused(400, "required", "The 'entity.change' parameter is required but was missing.")
        gone, come = self._replace(project, zone, "entity.change", body.get("deletions", []), body.get("additions", []))
        changes = self.changes[self._name(project, zone)]
        changes.append({"kind": "dns#change", "id": str(len(changes)), "startTime": self.world.now()})
        changes[-1] |= {"deletions": gone, "additions": come, "polls": self.change_polls}
        return _shown(changes[-1])

    @route("GET", f"{ZONE}/changes/{{change}}")
    def get_change(self, request: Request, project: str, zone: str, change: str) -> Any:
        self._zone(project, zone, "dns.changes.get")
        for one in self.changes[self._name(project, zone)]:
            if one["id"] == change:
                one["polls"] = max(0, one["polls"] - 1)
                return _shown(one)
        raise _missing("parameters.changeId", change)

    def check_policy_target(self, resource: str) -> None:
        _, project, _, zone = resource.split("/")
        self._zone(project, zone, "dns.managedZones.getIamPolicy")

    def _replace(
        self, project: str, zone: str, where: str, deletions: list[dict[str, Any]], additions: list[dict[str, Any]]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Take record sets away and add others, all or none; returns both as stored."""
        apex = self._zone(project, zone, "dns.managedZones.get")["dnsName"]
        name = self._name(project, zone)
        gone, come = {_key(one) for one in deletions}, {_key(one) for one in additions}
        for verb, keys in (("update", gone & come), ("delete", gone - come), ("create", come - gone)):
            if keys:
                self._check(f"dns.resourceRecordSets.{verb}", name)
        after = dict(self.records[name])
        for number, one in enumerate(deletions):
            place = f"{where}.deletions[{number}]"
            there = after.pop(_key(one), None)
            if there is None:
                raise _missing(place, "{} ({})".format(*_key(one)))
            if {**_record(one), "rrdatas": sorted(one["rrdatas"])} != {**there, "rrdatas": sorted(there["rrdatas"])}:
                raise _refused(412, "conditionNotMet", f"Precondition not met for '{place}'")
        for number, one in enumerate(additions):
            place = where if where == "entity.rrset" else "{}.additions[{}][{}]".format(where, *_key(one))
            _check_record(one, apex, f"{where}.additions[{number}]")
            if _key(one) in after:
                text = "The resource '{}' named '{} ({})' already exists".format(place, *_key(one))
                raise _refused(409, "alreadyExists", text)
            after[_key(one)] = _record(one)
        if {(apex, "NS"), (apex, "SOA")} - after.keys():
            raise _refused(400, "invalid", f"The zone '{zone}' needs an SOA and an NS record set at its apex.")
        self.records[name] = after
        return [_record(one) for one in deletions], [_record(one) for one in additions]

    def _found(self, project: str, zone: str, name: str, kind: str) -> dict[str, Any]:
        self._zone(project, zone, "dns.resourceRecordSets.get")
        try:
            return self.records[self._name(project, zone)][name, kind]
        except KeyError:
            raise _missing("parameters.name", f"{name} ({kind})") from None

    def _zone(self, project: str, zone: str, permission: str) -> dict[str, Any]:
        name = self._name(project, zone)
        self._check(permission, name)
        if name not in self.resources:
            raise _missing("parameters.managedZone", zone)
        return self.resources[name]

    def _check(self, permission: str, resource: str) -> None:
        if permission in self.denied or (self.granted is not None and permission not in self.granted):
            raise permission_denied(permission, f"//dns.googleapis.com/{resource}")

    def _name(self, project: str, zone: str) -> str:
        return f"projects/{project}/managedZones/{zone}"


def _key(record: Mapping[str, Any]) -> Key:
    return str(record.get("name", "")), str(record.get("type", ""))


def _record(given: Mapping[str, Any]) -> dict[str, Any]:
    """A record set as the API shows it."""
    ttl, data = int(given.get("ttl", 300)), list(given.get("rrdatas", []))
    name, kind = _key(given)
    return {"kind": "dns#resourceRecordSet", "name": name, "type": kind, "ttl": ttl, "rrdatas": data}


def _check_record(given: Mapping[str, Any], apex: str, place: str) -> None:
    name, kind = _key(given)
    if name != apex and not name.endswith(f".{apex}"):
        raise _refused(400, "invalid", f"Invalid value for '{place}.name': '{name}'")
    if not given.get("rrdatas"):
        raise _refused(400, "required", f"The '{place}.rrdatas' parameter is required but was missing.")
    for value in given["rrdatas"] if kind == "A" else ():
        try:
            ipaddress.IPv4Address(value)
        except ValueError:
            raise _refused(400, "invalid", f"Invalid value for '{place}.rrdata': '{value}'") from None


def _shown(change: Mapping[str, Any]) -> dict[str, Any]:
    shown = {key: value for key, value in change.items() if key != "polls"}
    return {**shown, "status": "pending" if change["polls"] else "done"}


def _missing(place: str, name: str) -> ErrorAnswer:
    return _refused(404, "notFound", f"The '{place}' resource named '{name}' does not exist.")


def _refused(status: int, reason: str, text: str) -> ErrorAnswer:
    """An error in this API's older form, which has no canonical status."""
    refusal = ErrorAnswer(status, text)
    errors = [{"message": text, "domain": "global", "reason": reason}]
    refusal.body = {"error": {"code": status, "message": text, "errors": errors}}
    return refusal
