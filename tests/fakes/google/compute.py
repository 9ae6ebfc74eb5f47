"""`/compute/<any version>`: networks, subnetworks, firewalls, routers, addresses. Every operation is done at once."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.fakes.google.product import Product, apply_changes, page, required, route
from tests.fakes.google.wire import Request, already_exists, resource_in_use
from tests.fakes.google.world import World

ROOT = "https://www.googleapis.com/compute/v1"
# What the API fills in when the caller leaves it out, because the provider reads it back.
DEFAULTS: dict[str, dict[str, Any]] = {
    "networks": {"routingConfig": {"routingMode": "REGIONAL", "bgpBestPathSelectionMode": "LEGACY"}, "mtu": 1460},
    "subnetworks": {
        "purpose": "PRIVATE",
        "stackType": "IPV4_ONLY",
        "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS",
        "privateIpGoogleAccess": False,
    },
    "firewalls": {"direction": "INGRESS", "priority": 1000, "disabled": False},
    "routers": {},
    "addresses": {"address": "34.1.2.3", "addressType": "EXTERNAL", "networkTier": "PREMIUM", "status": "RESERVED"},
}


class Compute(Product):
    """One store for all collections, by `projects/P/<scope>/<collection>/<name>` with scope `global` or a region's.

    A project says that it may have `most_networks`, and gets more all the same.
    """

    prefix: ClassVar[str] = "compute"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.most_networks = 5

    @route("GET", "projects/{project}")
    def project(self, request: Request, project: str) -> Any:
        used = sum("/global/networks/" in name for name in self.resources)
        quotas = [{"metric": "NETWORKS", "limit": float(self.most_networks), "usage": float(used)}]
        about = {"kind": "compute#project", "name": project, "selfLink": f"{ROOT}/projects/{project}"}
        return {**about, "quotas": quotas}

    @route("GET", "projects/{project}/regions/{region}")
    def region(self, request: Request, project: str, region: str) -> Any:
        return {"kind": "compute#region", "name": region, "status": "UP"}

    @route("POST", "projects/{project}/global/{collection}")
    def create_global(self, request: Request, project: str, collection: str) -> Any:
        return self._create(request, f"projects/{project}/global", collection)

    @route("POST", "projects/{project}/regions/{region}/{collection}")
    def create_regional(self, request: Request, project: str, region: str, collection: str) -> Any:
        return self._create(request, f"projects/{project}/regions/{region}", collection)

    @route("GET", "{scope*}/operations/{operation}")
    def get_operation(self, request: Request, scope: str, operation: str) -> Any:
        return done(scope, operation, "")

    @route("POST", "{scope*}/operations/{operation}/wait")
    def wait(self, request: Request, scope: str, operation: str) -> Any:
        return done(scope, operation, "")

    @route("GET", "{scope*}/{collection}/{name}")
    def get(self, request: Request, scope: str, collection: str, name: str) -> Any:
        return self.known(f"{scope}/{collection}/{name}")

    @route("GET", "{scope*}/{collection}")
    def index(self, request: Request, scope: str, collection: str) -> Any:
        start = f"{scope}/{collection}/"
        return page([one for name, one in sorted(self.resources.items()) if name.startswith(start)], request, "items")

    @route("PATCH", "{scope*}/{collection}/{name}")
    @route("PUT", "{scope*}/{collection}/{name}")
    def change(self, request: Request, scope: str, collection: str, name: str) -> Any:
        found = self.known(f"{scope}/{collection}/{name}")
        apply_changes(found, request)
        for empty in [key for key, value in found.items() if without_nulls(value) == {}]:
            del found[empty]
        found["fingerprint"] = self.world.etag()
        return done(scope, self._operation_id(), found["selfLink"])

    @route("POST", "{scope*}/{collection}/{name}/{verb}")
    def set_field(self, request: Request, scope: str, collection: str, name: str, verb: str) -> Any:
        """`setPrivateIpGoogleAccess`, `setLabels`, `expandIpCidrRange`: the body holds the fields to change."""
        if verb == "setPrivateIpGoogleAccess":  # the provider leaves a false one out
            self.known(f"{scope}/{collection}/{name}")["privateIpGoogleAccess"] = False
        return self.change(request, scope, collection, name)

    @route("DELETE", "{scope*}/{collection}/{name}")
    def delete(self, request: Request, scope: str, collection: str, name: str) -> Any:
        full = f"{scope}/{collection}/{name}"
        self.known(full)
        users = [other for other, one in self.resources.items() if full in _references(one)]
        users += [other for users_of in self.world.users for other in users_of(full)]
        if users:
            raise resource_in_use(full, users[0])
        link = self.remove(full)["selfLink"]
        return done(scope, self._operation_id(), link)

    def _create(self, request: Request, scope: str, collection: str) -> Any:
        body = request.json()
        full = f"{scope}/{collection}/{required(body.get('name'), 'name')}"
        if full in self.resources:
            raise already_exists(full)
        self.resources[full] = {
            **DEFAULTS.get(collection, {}),
            **without_nulls(body),
            "kind": f"compute#{collection.removesuffix('es' if collection.endswith('sses') else 's')}",
            "id": str(self.world.serial() + 10**15),
            "creationTimestamp": self.world.now(),
            "selfLink": f"{ROOT}/{full}",
            "fingerprint": self.world.etag(),
        }
        if body.get("addressType") == "INTERNAL":
            self.resources[full] |= {"address": body.get("address") or f"10.8.0.{70 + self.world.serial() % 50}"}
        for key in ("network", "subnetwork", "region"):
            if key in body:
                self.resources[full][key] = f"{ROOT}/{relative(body[key])}"
        return done(scope, self._operation_id(), f"{ROOT}/{full}")

    def _operation_id(self) -> str:
        return f"operation-{self.world.serial()}"


def without_nulls(value: Any) -> Any:
    """As Google's JSON reads it: a field or an item without a value is not there. The provider sends such lists."""
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value if one is not None] if isinstance(value, list) else value


def done(scope: str, operation: str, target: str) -> dict[str, Any]:
    place = next((kind for kind in ("region", "zone") if f"/{kind}s/" in f"/{scope}"), "")
    return ({place: f"{ROOT}/{scope}"} if place else {}) | {
        "kind": "compute#operation",
        "id": operation.rsplit("-", 1)[-1],
        "name": operation,
        "status": "DONE",
        "progress": 100,
        "targetLink": target,
        "selfLink": f"{ROOT}/{scope}/operations/{operation}",
    }


def _references(resource: dict[str, Any]) -> set[str]:
    nats = [subnet.get("name", "") for nat in resource.get("nats", []) for subnet in nat.get("subnetworks", [])]
    interfaces = [
        link for one in resource.get("networkInterfaces", []) for link in one.values() if isinstance(link, str)
    ]
    used = [one.get("instanceTemplate", "") for one in resource.get("versions", [])]
    used += [one.get("healthCheck", "") for one in resource.get("autoHealingPolicies", [])]
    used += [resource.get("network", ""), resource.get("subnetwork", ""), resource.get("x-reserved", "")]
    return {relative(link) for link in (*used, *nats, *interfaces)}


def relative(link: str) -> str:
    """`projects/…` of a link, whatever host and version stand before it."""
    at = link.find("projects/")
    return link[at:] if at >= 0 else link
