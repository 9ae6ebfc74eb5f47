"""TPU nodes: read, metadata replaced as a whole, guest attributes; and what a zone offers."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.fakes.google import schemas
from tests.fakes.google.product import Product, page, route
from tests.fakes.google.wire import ErrorAnswer, Request, not_found
from tests.fakes.google.world import World

NODES = "projects/{project}/locations/{zone}/nodes"
V6E = ("v6e-1", "v6e-4", "v6e-8")
TOPOLOGIES = {"v6e-1": "1x1", "v6e-4": "2x2", "v6e-8": "2x4"}
METADATA_VALUE_MAX, METADATA_MAX = 256 * 1024, 512 * 1024  # bytes, limits of the metadata server


class TpuNodes(Product):
    """`addresses`, where a test fills it, are handed out to nodes in order."""

    prefix: ClassVar[str] = "tpu"
    controls: ClassVar[tuple[str, ...]] = (*Product.controls, "set_guest_attributes")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.nodes: dict[str, dict[str, Any]] = {}
        self.guest_attributes: dict[str, dict[str, str]] = {}
        self.addresses: list[str] = []
        self.operation_polls = 0
        world.users.append(self.users_of)
        self.offers: dict[str, tuple[str, ...]] = dict.fromkeys(
            ("us-east5-a", "us-east5-b", "europe-west4-a", "asia-northeast1-b", "us-central1-b", "us-east1-d"), V6E
        )

    def set_guest_attributes(self, node: str, values: dict[str, str]) -> None:
        """`values` by `namespace/key`, as the virtual machine writes them; `node` is the short name."""
        self.guest_attributes[node] = values

    def users_of(self, resource: str) -> list[str]:
        """Machines on a subnetwork, which cannot go before them."""
        return [name for name, node in self.nodes.items() if node["networkConfig"].get("subnetwork") == resource]

    def add_node(self, queued: str, spec: dict[str, Any], state: str) -> None:
        """A machine, which has its address while it is still being made."""
        name = f"{spec['parent']}/nodes/{spec['nodeId']}"
        if name in self.nodes:
            self.nodes[name]["state"] = state
            return
        serial = self.world.serial()
        address = self.addresses.pop(0) if self.addresses else f"10.8.0.{2 + serial % 60}"
        self.nodes[name] = spec["node"] | {
            "name": name,
            "id": str(10**18 + serial),
            "state": state,
            "health": "HEALTHY",
            "createTime": self.world.now(),
            "queuedResource": queued,
            "acceleratorConfig": {"type": "V6E", "topology": TOPOLOGIES[spec["node"]["acceleratorType"]]},
            "networkEndpoints": [{"ipAddress": address, "port": 8470, "accessConfig": {}}],
            "apiVersion": "V2_ALPHA1",
        }

    def remove_nodes_of(self, queued: str) -> None:
        for name in [name for name, node in self.nodes.items() if node["queuedResource"] == queued]:
            del self.nodes[name]

    @route("GET", NODES)
    def index_nodes(self, request: Request, project: str, zone: str) -> Any:
        start = f"projects/{project}/locations/{zone}/nodes/"
        return page([node for name, node in self.nodes.items() if name.startswith(start)], request, "nodes")

    @route("GET", NODES + "/{node}")
    def get_node(self, request: Request, project: str, zone: str, node: str) -> Any:
        return self._node(project, zone, node)

    @route("PATCH", NODES + "/{node}")
    def patch_node(self, request: Request, project: str, zone: str, node: str) -> Any:
        found = self._node(project, zone, node)
        body = request.json()
        schemas.check("tpu.v2alpha1", "Node", body)
        mask = request.query.get("updateMask", "").split(",")
        if not set(mask) <= {"metadata", "labels", "tags", "description"}:
            raise ErrorAnswer(400, f"update_mask {mask} is not supported.")
        check_metadata(body.get("metadata", {}))
        if found["state"] != "READY":
            raise ErrorAnswer(400, f"Node is in state {found['state']}.", canonical="FAILED_PRECONDITION")
        found.update({field: body.get(field, {}) for field in mask})
        parent = f"projects/{project}/locations/{zone}"
        metadata = self.about("update", found["name"])
        return self.operation(parent, metadata=metadata, response=found, polls=self.operation_polls)

    @route("POST", NODES + "/{node}:getGuestAttributes")
    def get_guest_attributes(self, request: Request, project: str, zone: str, node: str) -> Any:
        self._node(project, zone, node)
        wanted = request.json().get("queryPath", "")
        schemas.check("tpu.v2alpha1", "GetGuestAttributesRequest", request.json())
        items = []
        for path, value in self.guest_attributes.get(node, {}).items():
            namespace, _, key = path.partition("/")
            if path.startswith(wanted):
                items.append({"namespace": namespace, "key": key, "value": value})
        return {"guestAttributes": [{"queryPath": wanted, "queryValue": {"items": items}}]}

    @route("GET", "projects/{project}/locations")
    def locations(self, request: Request, project: str) -> Any:
        places = [{"name": f"projects/{project}/locations/{zone}", "locationId": zone} for zone in sorted(self.offers)]
        return page(places, request, "locations")

    @route("GET", "projects/{project}/locations/{zone}/acceleratorTypes")
    def accelerator_types(self, request: Request, project: str, zone: str) -> Any:
        parent = f"projects/{project}/locations/{zone}"
        kinds = [{"name": f"{parent}/acceleratorTypes/{kind}", "type": kind} for kind in self.offers.get(zone, ())]
        return page(kinds, request, "acceleratorTypes")

    @route("GET", "projects/{project}/locations/{zone}/runtimeVersions")
    def runtime_versions(self, request: Request, project: str, zone: str) -> Any:
        name = f"projects/{project}/locations/{zone}/runtimeVersions/v2-alpha-tpuv6e"
        return page([{"name": name, "version": "v2-alpha-tpuv6e"}], request, "runtimeVersions")

    def about(self, verb: str, target: str) -> dict[str, Any]:
        """The metadata of an operation."""
        kind = "type.googleapis.com/google.cloud.tpu.v2alpha1.OperationMetadata"
        now = self.world.now()
        return {"@type": kind, "createTime": now, "target": target, "verb": verb, "apiVersion": "v2alpha1"}

    def _node(self, project: str, zone: str, node: str) -> dict[str, Any]:
        name = f"projects/{project}/locations/{zone}/nodes/{node}"
        if name not in self.nodes:
            raise not_found(name)
        return self.nodes[name]


def check_metadata(metadata: dict[str, str]) -> None:
    sizes = [len(key.encode()) + len(value.encode()) for key, value in metadata.items()]
    if any(len(value.encode()) > METADATA_VALUE_MAX for value in metadata.values()) or sum(sizes) > METADATA_MAX:
        raise ErrorAnswer(400, "Metadata is too large: 256 KiB a value, 512 KiB in all.")
