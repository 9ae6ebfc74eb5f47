"""Machines of `/compute/<any version>`: instances in zones, regional managed groups with a configuration a member, and
what a project is offered. A group makes a machine as soon as a zone has stock, as the real one goes on trying."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.fakes.google.compute import ROOT, Compute, done, relative
from tests.fakes.google.product import route
from tests.fakes.google.tpu_nodes import check_metadata
from tests.fakes.google.wire import ErrorAnswer, Request, already_exists, not_found
from tests.fakes.google.world import World

GROUPS = "projects/{project}/regions/{region}/instanceGroupManagers/{group}"
INSTANCES = "projects/{project}/zones/{zone}/instances"
NO_STOCK = {
    "code": "ZONE_RESOURCE_POOL_EXHAUSTED",
    "message": "The zone does not have enough resources available to fulfill the request.",
}


class ComputeMachines(Compute):
    """`stock` says how many machines each zone still has; a zone that is not named has as many as are asked for.

    `offers` are the machine types that each zone lists, `images` those of all projects; `health` is what checks say.
    """

    controls: ClassVar[tuple[str, ...]] = (*Compute.controls, "restock", "repair", "publish", "take_back")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.stock: dict[str, int] = {}
        self.offers: dict[str, list[str]] = {}
        self.images: set[str] = set()
        self.health = "HEALTHY"
        self.created_members: list[str] = []
        self.guest_attributes: dict[str, dict[str, str]] = {}
        self.members: dict[str, dict[str, dict[str, Any]]] = {}
        """By a group's full name and a member's: its configuration, and the machine that was made by it."""

    # What happens without a request.

    def restock(self, zone: str, machines: int = 1) -> None:
        """Give a zone so many more machines: groups that wait for one make it."""
        self.stock[zone] = self.stock.get(zone, 0) + machines
        for group in list(self.members):
            self._fill(group)

    def repair(self, name: str) -> None:
        """Make a member of a group anew, as after a failed health check or a machine that was taken back."""
        group = next(group for group, members in self.members.items() if name in members)
        zone = self.members[group][name].pop("zone")
        self._remove_instance(f"projects/{group.split('/')[1]}/zones/{zone}/instances/{name}")
        self._fill(group)

    def take_back(self, name: str) -> None:
        """End a machine as Google does at the end of its run duration."""
        full = next(full for full in self.resources if full.endswith(f"/instances/{name}"))
        self._remove_instance(full)

    def publish(self, name: str, attributes: dict[str, str]) -> None:
        """Let a machine publish guest attributes, by `namespace/key`."""
        self.guest_attributes[name] = dict(attributes)

    # Groups.

    @route("POST", "projects/{project}/regions/{region}/instanceGroupManagers")
    def create_group(self, request: Request, project: str, region: str) -> Any:
        answer = self._create(request, f"projects/{project}/regions/{region}", "instanceGroupManagers")
        full = f"projects/{project}/regions/{region}/instanceGroupManagers/{request.json()['name']}"
        found = self.resources[full]
        for empty in [key for key, value in found.items() if value == {}]:
            del found[empty]  # Google shows no part that says nothing, and the provider would take it for a change
        if found.get("updatePolicy", {}).get("instanceRedistributionType") != "NONE":
            del self.resources[full]
            raise ErrorAnswer(400, "Stateful regional groups need updatePolicy.instanceRedistributionType NONE.")
        found |= {
            "targetSize": int(found.get("targetSize", 0)),
            "instanceGroup": f"{ROOT}/{full.replace('instanceGroupManagers', 'instanceGroups')}",
            "region": f"{ROOT}/projects/{project}/regions/{region}",
            "status": {
                "isStable": True,
                "stateful": {"hasStatefulConfig": False},
                "versionTarget": {"isReached": True},
            },
            "currentActions": {"none": 0},
        }
        self.members[full] = {}
        return answer

    @route("DELETE", GROUPS)
    def delete_group(self, request: Request, project: str, region: str, group: str) -> Any:
        full = GROUPS.format(project=project, region=region, group=group)
        self.known(full)
        for name in list(self.members.get(full, {})):
            self._drop_member(full, name)
        self.members.pop(full, None)
        self.remove(full)
        return done(full.rsplit("/", 2)[0], self._operation_id(), "")

    @route("POST", GROUPS + "/{verb}")
    def group_verb(self, request: Request, project: str, region: str, group: str, verb: str) -> Any:
        full = GROUPS.format(project=project, region=region, group=group)
        self.known(full)
        body = request.json()
        if verb == "listManagedInstances":
            members = [self._shown(full, name) for name in self.members[full]]
            return {"managedInstances": members} if members else {}
        if verb == "listPerInstanceConfigs":
            items = [{"name": name, **one["config"]} for name, one in self.members[full].items() if one["config"]]
            return {"items": items} if items else {}
        if verb == "createInstances":
            for asked in body["instances"]:
                if asked["name"] in self.members[full]:
                    raise already_exists(f"{full}/{asked['name']}")
                check_metadata(asked.get("preservedState", {}).get("metadata", {}))
                config = {"preservedState": asked.get("preservedState", {}), "fingerprint": self.world.etag()}
                self.members[full][asked["name"]] = {"config": config}
                self.created_members.append(asked["name"])
            self._fill(full)
        elif verb in ("patchPerInstanceConfigs", "updatePerInstanceConfigs"):
            for asked in body["perInstanceConfigs"]:
                self._configure(full, asked, whole=verb.startswith("update"))
        elif verb == "deletePerInstanceConfigs":
            for name in body["names"]:
                self.members[full][name]["config"] = {}
        elif verb == "deleteInstances":
            for link in body["instances"]:
                self._drop_member(full, link.rsplit("/", 1)[-1])
        elif verb != "applyUpdatesToInstances":
            raise ErrorAnswer(404, f"the fake knows no {verb} of a managed group")
        return done(full.rsplit("/", 2)[0], self._operation_id(), f"{ROOT}/{full}")

    def _configure(self, full: str, asked: dict[str, Any], *, whole: bool) -> None:
        if asked["name"] not in self.members[full]:
            raise not_found(f"{full}/{asked['name']}")
        config = self.members[full][asked["name"]]["config"]
        if asked.get("fingerprint") not in (None, "", config.get("fingerprint")):
            raise ErrorAnswer(412, "Supplied fingerprint does not match current metadata fingerprint.")
        state = config.setdefault("preservedState", {})
        given = asked.get("preservedState", {})
        metadata = given.get("metadata", {}) if whole else {**state.get("metadata", {}), **given.get("metadata", {})}
        check_metadata(metadata)
        config["preservedState"] = {**({} if whole else state), **given, "metadata": metadata}
        config["fingerprint"] = self.world.etag()

    def _fill(self, full: str) -> None:
        """Make the machines that a group has not made yet, each in the first of its zones with stock."""
        group = self.resources[full]
        zones = [one["zone"].rsplit("/", 1)[-1] for one in group.get("distributionPolicy", {}).get("zones", ())]
        for name, member in self.members[full].items():
            if "zone" in member:
                continue
            zone = next((zone for zone in zones if self.stock.get(zone, 1) > 0), None)
            if zone is None:
                continue
            template = self.known(relative(group["versions"][0]["instanceTemplate"]))
            preserved = member["config"].get("preservedState", {})
            ips = preserved.get("internalIPs", {}).get("nic0", {}).get("ipAddress", {}).get("address", "")
            address = self.resources.get(relative(ips), {}).get("address", "") if ips else ""
            project, properties = full.split("/")[1], template["properties"]
            made = self._make_instance(project, zone, name, properties, preserved.get("metadata"), address)
            made["x-reserved"] = ips
            member["zone"] = zone
        group["targetSize"] = len(self.members[full])

    def _shown(self, full: str, name: str) -> dict[str, Any]:
        member, project = self.members[full][name], full.split("/")[1]
        about = {"name": name, "preservedStateFromConfig": member["config"].get("preservedState", {})}
        if "zone" not in member:
            first = self.resources[full]["distributionPolicy"]["zones"][0]["zone"].rsplit("/", 1)[-1]
            link = f"{ROOT}/projects/{project}/zones/{first}/instances/{name}"  # Google names it before it is there
            errors = {"errors": {"errors": [NO_STOCK]}}
            return about | {"instance": link, "currentAction": "CREATING", "lastAttempt": errors}
        path = f"projects/{project}/zones/{member['zone']}/instances/{name}"
        instance = self.resources[path]
        return about | {
            "instance": f"{ROOT}/{path}",
            "id": instance["id"],
            "instanceStatus": instance["status"],
            "currentAction": "NONE",
            "instanceHealth": [{"detailedHealthState": self.health}],
        }

    def _drop_member(self, full: str, name: str) -> None:
        member = self.members[full].pop(name)
        if "zone" in member:
            self._remove_instance(f"projects/{full.split('/')[1]}/zones/{member['zone']}/instances/{name}")
        self.resources[full]["targetSize"] = len(self.members[full])

    # Machines.

    @route("GET", INSTANCES + "/{name}/getGuestAttributes")
    def get_guest_attributes(self, request: Request, project: str, zone: str, name: str) -> Any:
        self.known(f"projects/{project}/zones/{zone}/instances/{name}")
        wanted = request.query.get("queryPath", "")
        items = []
        for path, value in self.guest_attributes.get(name, {}).items():
            namespace, _, key = path.partition("/")
            if path.startswith(wanted):
                items.append({"namespace": namespace, "key": key, "value": value})
        if not items:
            raise not_found(f"{name}: guest attributes below {wanted}")
        return {"queryPath": wanted, "queryValue": {"items": items}}

    @route("POST", INSTANCES + "/{name}/setMetadata")
    def set_metadata(self, request: Request, project: str, zone: str, name: str) -> Any:
        found = self.known(f"projects/{project}/zones/{zone}/instances/{name}")
        body = request.json()
        if body.get("fingerprint") != found["metadata"]["fingerprint"]:
            raise ErrorAnswer(412, "Supplied fingerprint does not match current metadata fingerprint.")
        check_metadata({one["key"]: one["value"] for one in body["items"]})
        found["metadata"] = {"items": body["items"], "fingerprint": self.world.etag()}
        return done(f"projects/{project}/zones/{zone}", self._operation_id(), found["selfLink"])

    @route("GET", "projects/{project}/zones/{zone}/machineTypes/{kind}")
    def machine_type(self, request: Request, project: str, zone: str, kind: str) -> Any:
        if kind not in self.offers.get(zone, [kind]):
            raise not_found(f"projects/{project}/zones/{zone}/machineTypes/{kind}")
        return {"kind": "compute#machineType", "name": kind, "zone": zone}

    @route("GET", "projects/{project}/global/images/{name}")
    @route("GET", "projects/{project}/global/images/family/{name}")
    def image(self, request: Request, project: str, name: str) -> Any:
        if self.images and name not in self.images:
            raise not_found(f"projects/{project}/global/images/{name}")
        link = f"{ROOT}/projects/{project}/global/images/{name}"
        return {"kind": "compute#image", "name": name, "status": "READY", "selfLink": link}

    def _make_instance(
        self,
        project: str,
        zone: str,
        name: str,
        properties: dict[str, Any],
        metadata: dict[str, str] | None,
        address: str,
    ) -> dict[str, Any]:
        full = f"projects/{project}/zones/{zone}/instances/{name}"
        if full in self.resources:
            raise already_exists(full)
        if zone in self.stock:
            self.stock[zone] -= 1
        given = {one["key"]: one["value"] for one in properties.get("metadata", {}).get("items", ())} | (metadata or {})
        check_metadata(given)
        serial = self.world.serial()
        interface = {**properties["networkInterfaces"][0], "networkIP": address or f"10.8.0.{66 + serial % 60}"}
        self.resources[full] = {
            "kind": "compute#instance",
            "name": name,
            "id": str(serial + 10**15),
            "creationTimestamp": self.world.now(),
            "status": "RUNNING",
            "zone": f"{ROOT}/projects/{project}/zones/{zone}",
            "machineType": f"{ROOT}/projects/{project}/zones/{zone}/machineTypes/{properties['machineType']}",
            "scheduling": properties.get("scheduling", {}),
            "labels": properties.get("labels", {}),
            "tags": properties.get("tags", {}),
            "networkInterfaces": [interface],
            "serviceAccounts": properties.get("serviceAccounts", []),
            "metadata": {
                "items": [{"key": key, "value": value} for key, value in given.items()],
                "fingerprint": self.world.etag(),
            },
            "selfLink": f"{ROOT}/{full}",
        }
        return self.resources[full]

    def _remove_instance(self, full: str) -> None:
        zone = full.split("/")[3]
        if zone in self.stock:
            self.stock[zone] += 1
        self.resources.pop(full, None)
        self.guest_attributes.pop(full.rsplit("/", 1)[-1], None)
