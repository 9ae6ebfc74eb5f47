"""`/tpu/v2alpha1`: queued resources that wait, are granted, fail, are suspended; their nodes live in `tpu_nodes`.

A queued resource moves on by being looked at: `pace` GETs a state, up to `stop_at`. With `pace=None` only `advance`
moves it. Ended ones (FAILED, SUSPENDED) keep their name and their quota until they are deleted, as in the field.

It refuses in the words and at the moment that were seen: an unknown zone or accelerator with an HTTP 400, a provisioning
model that is not offered in the operation, after the request was taken.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from tests.fakes.google import schemas
from tests.fakes.google.product import page, required, route
from tests.fakes.google.tpu_nodes import TpuNodes, check_metadata
from tests.fakes.google.wire import ErrorAnswer, Request, already_exists, not_found, quota_exceeded
from tests.fakes.google.world import World

QUEUED = "projects/{project}/locations/{zone}/queuedResources"
NEXT = {
    "CREATING": "WAITING_FOR_RESOURCES",
    "WAITING_FOR_RESOURCES": "PROVISIONING",
    "ACCEPTED": "PROVISIONING",
    "PROVISIONING": "ACTIVE",
    "SUSPENDING": "SUSPENDED",
}
DELETABLE_WITHOUT_FORCE = ("ACCEPTED", "WAITING_FOR_RESOURCES", "FAILED", "SUSPENDED")
TIERS = ("bestEffort", "spot", "guaranteed")
QUOTA = "TPUV6EPreemptiblePerProjectPerZoneForTPUAPI"
LATE_LOOKS = 6  # at an operation or its queued resource until a late refusal: 12 s with a client that looks every 2 s


class Tpu(TpuNodes):
    """`created` counts every queued resource there ever was."""

    controls: ClassVar[tuple[str, ...]] = (*TpuNodes.controls, "advance", "set_limit", "state")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.created = 0
        self.pace: int | None = 1
        self.stop_at = ""
        self.waiting_name = "WAITING_FOR_RESOURCES"  # or ACCEPTED, as older servers say
        self.deletion_looks = 1  # GETs that still find a deleted one in DELETING
        self.tells_end = True  # of a machine with a run duration, as Google does in its schedulingConfig
        self.refuses_deletion_late = False  # in the operation instead of the answer, while PROVISIONING
        self.unreachable: list[str] = []
        self.flex_zones = {"us-east5-a", "us-east5-b", "europe-west4-a", "asia-northeast1-b"}
        self.limits: dict[str, int] = {}
        self.late_refusal: dict[str, Any] = {}
        """Where set, the google.rpc.Status in which every creation ends after Google has taken the request."""
        self._doomed: dict[str, tuple[int, str]] = {}  # by queued resource: looks that are left, and its operation
        self._looks: dict[str, int] = {}
        self._answered: dict[str, dict[str, Any]] = {}  # by requestId: the operation it began
        self._deletions: dict[str, str] = {}  # operation to the queued resource that it deletes

    def set_limit(self, zone: str, chips: int) -> None:
        """How many chips all queued resources of a zone may hold together, ended ones included."""
        self.limits[zone] = chips

    def state(self, queued: str) -> str:
        return str(self.known(self._full(queued))["state"]["state"])

    def advance(self, queued: str, to: str = "", error: str = "", initiator: str = "SERVICE") -> None:
        """Move one queued resource, by id or full name, to a state (default: the next one)."""
        name = self._full(queued)
        record = self.known(name)
        target = to or NEXT[record["state"]["state"]]
        if target == "WAITING_FOR_RESOURCES":
            target = self.waiting_name
        record["state"] = {"state": target, "stateInitiator": initiator}
        self._looks[name] = 0
        if target == "FAILED":
            failure = {"code": 8, "message": error or no_capacity(name.split("/")[3])}
            record["state"]["failedData"] = {"error": failure}
        if target in ("PROVISIONING", "ACTIVE"):
            spec = record["tpu"]["nodeSpec"][0]
            self.add_node(name, spec, "READY" if target == "ACTIVE" else "CREATING")
            run = record.get("runDuration", {}).get("maxRunDuration", "")
            if target == "ACTIVE" and run and self.tells_end:
                end = self.world.at(float(run.removesuffix("s")))
                self.nodes[f"{spec['parent']}/nodes/{spec['nodeId']}"]["schedulingConfig"] = {
                    "terminationTimestamp": end
                }
        if target in ("FAILED", "SUSPENDED"):
            self.remove_nodes_of(name)

    @route("POST", QUEUED)
    def create(self, request: Request, project: str, zone: str) -> Any:
        repeated = self._answered.get(request.query.get("requestId", ""))
        if repeated:
            return repeated
        parent = f"projects/{project}/locations/{zone}"
        queued_id = required(request.query.get("queuedResourceId"), "queuedResourceId")
        name = f"{parent}/queuedResources/{queued_id}"
        if name in self.resources:
            raise already_exists(name)
        body = request.json()
        self._check(body, parent, zone)
        self.resources[name] = {**body, "name": name, "createTime": self.world.now()}
        self.resources[name]["state"] = {"state": "CREATING", "stateInitiator": "USER"}
        self._looks[name] = 0
        late = self._late(body, zone)
        if late:
            operation = self._answer(request, parent, "create", name, polls=1_000_000)
            self.world.operations[operation["name"]].error = late
            self._doomed[name] = (LATE_LOOKS, operation["name"])
            return operation
        self.created += 1
        return self._answer(request, parent, "create", name)

    @route("GET", QUEUED)
    def index(self, request: Request, project: str, zone: str) -> Any:
        zones = re.escape(zone) if zone != "-" else "[^/]+"
        pattern = re.compile(f"projects/{re.escape(project)}/locations/{zones}/queuedResources/.+")
        found = [one for name, one in sorted(self.resources.items()) if pattern.fullmatch(name)]
        reachable = [one for one in found if one["name"].split("/")[3] not in self.unreachable]
        missing = {"unreachable": self.unreachable} if self.unreachable else {}
        return page(reachable, request, "queuedResources") | missing

    @route("GET", QUEUED + "/{queued}")
    def get(self, request: Request, project: str, zone: str, queued: str) -> Any:
        name = f"projects/{project}/locations/{zone}/queuedResources/{queued}"
        self._look(name)
        return self.known(name)

    @route("DELETE", QUEUED + "/{queued}")
    def delete(self, request: Request, project: str, zone: str, queued: str) -> Any:
        repeated = self._answered.get(request.query.get("requestId", ""))
        if repeated:
            return repeated
        parent = f"projects/{project}/locations/{zone}"
        name = f"{parent}/queuedResources/{queued}"
        refusal = self._undeletable(name, request.query.get("force") == "true")
        if refusal and not self.refuses_deletion_late:
            raise refusal
        if refusal:
            operation = self._answer(request, parent, "delete", name, polls=2)
            self.world.operations[operation["name"]].error = {"code": 9, "message": str(refusal)}
            return operation
        self.known(name)["state"] = {"state": "DELETING", "stateInitiator": "USER"}
        self._looks[name] = 0
        operation = self._answer(request, parent, "delete", name)
        self._deletions[operation["name"]] = name
        if self.deletion_looks == 0:
            self._vanish(name)
        return operation

    @route("POST", QUEUED + "/{queued}:reset")
    def reset(self, request: Request, project: str, zone: str, queued: str) -> Any:
        parent = f"projects/{project}/locations/{zone}"
        if self.known(f"{parent}/queuedResources/{queued}")["state"]["state"] != "SUSPENDED":
            raise ErrorAnswer(400, "Only a SUSPENDED queued resource can be reset.", canonical="FAILED_PRECONDITION")
        self.advance(f"{parent}/queuedResources/{queued}", "WAITING_FOR_RESOURCES")
        return self._answer(request, parent, "reset", f"{parent}/queuedResources/{queued}")

    @route("GET", "{parent*}/operations/{operation}")
    def get_operation(self, request: Request, parent: str, operation: str) -> Any:
        name = f"{parent}/operations/{operation}"
        for queued in [queued for queued, (_, own) in self._doomed.items() if own == name]:
            self._look(queued)
        deleted = self._deletions.get(name, "")
        if deleted in self.resources:
            self._look(deleted)
        return self.world.poll(name)

    def leftovers(self) -> list[str]:
        return super().leftovers() + [f"tpu/{name}" for name in sorted(self.nodes)]

    def _look(self, name: str) -> None:
        """Count one look at a queued resource, and move it on when it has been looked at enough."""
        state = self.known(name)["state"]["state"]
        self._looks[name] += 1
        if name in self._doomed:
            self._look_at_doomed(name)
        elif state == "DELETING":
            if self._looks[name] > self.deletion_looks:
                self._vanish(name)
        elif state in NEXT and state != self.stop_at and self.pace is not None and self._looks[name] >= self.pace:
            self.advance(name)

    def _look_at_doomed(self, name: str) -> None:
        looks, operation = self._doomed[name]
        self._doomed[name] = (looks - 1, operation)
        if looks <= 1:
            self.world.operations[operation].polls = 0
            self._vanish(name)

    def _vanish(self, name: str) -> None:
        self._doomed.pop(name, None)
        self.remove_nodes_of(name)
        self.remove(name)

    def _check(self, body: dict[str, Any], parent: str, zone: str) -> None:
        schemas.check("tpu.v2alpha1", "QueuedResource", body)
        specs = body.get("tpu", {}).get("nodeSpec", [])
        if len(specs) != 1 or specs[0].get("parent") != parent or not specs[0].get("nodeId"):
            raise ErrorAnswer(400, "tpu.node_spec must hold one node with this request's parent and a node_id.")
        node = specs[0].get("node", {})
        if not node.get("runtimeVersion"):
            raise ErrorAnswer(400, "tpu.node_spec.node.runtime_version must be set.")
        accelerator = node.get("acceleratorType", "")
        if zone not in self.offers:
            raise ErrorAnswer(400, _bad_request(f'The requested zone "{zone}" is not supported.'))
        if accelerator not in self.offers[zone]:
            why = (
                f'The requested accelerator configuration for accelerator type, "{accelerator}", could not be found in '
                f'the zonal accelerator configurations for "{zone}".; the accelerator {accelerator} was not found in '
                f"zone {zone}"
            )
            raise ErrorAnswer(400, _bad_request(why))
        self._check_model(body)
        check_metadata(node.get("metadata", {}))
        self._check_quota(parent, accelerator, zone)

    def _check_model(self, body: dict[str, Any]) -> None:
        """Whether tier and model go together. What no model beside a tier means is not known: here it is STANDARD."""
        model = body.get("provisioningModel", "STANDARD")
        if "spot" in body and model == "STANDARD":
            raise ErrorAnswer(400, f"{model} provisioning model is incompatible with spot requests")
        if model == "FLEX_START" and (any(tier in body for tier in TIERS) or "runDuration" not in body):
            raise ErrorAnswer(400, "FLEX_START takes a run_duration and no tier.")

    def _late(self, body: dict[str, Any], zone: str) -> dict[str, Any]:
        """The error that the operation will end with; empty where the request stands."""
        if body.get("provisioningModel") == "FLEX_START" and zone not in self.flex_zones:
            accelerator = body["tpu"]["nodeSpec"][0]["node"]["acceleratorType"]
            what = f'accelerator type "{accelerator}" in location "{zone}"'
            return {"code": 3, "message": f"FLEX_START provisioning model is not supported for {what}"}
        return self.late_refusal

    def _check_quota(self, parent: str, accelerator: str, zone: str) -> None:
        held = [one for name, one in self.resources.items() if name.startswith(f"{parent}/")]
        chips = sum(_chips(one["tpu"]["nodeSpec"][0]["node"]["acceleratorType"]) for one in held)
        if zone in self.limits and chips + _chips(accelerator) > self.limits[zone]:
            raise quota_exceeded(QUOTA, zone, self.limits[zone])

    def _undeletable(self, name: str, force: bool) -> ErrorAnswer | None:
        state = self.known(name)["state"]["state"]
        if state == "DELETING":
            raise ErrorAnswer(409, f"Resource '{name}' is being deleted.", canonical="ABORTED")
        if state == "PROVISIONING":
            self._look(name)
        elif force or state in DELETABLE_WITHOUT_FORCE:
            return None
        allowed = "must be one of [ACCEPTED WAITING_FOR_RESOURCES SUSPENDED FAILED]"
        why = f"DeleteQueuedResource is not supported when state is {state} ({allowed})"
        return ErrorAnswer(400, why, canonical="FAILED_PRECONDITION")

    def _answer(
        self, request: Request, parent: str, verb: str, target: str, *, polls: int | None = None
    ) -> dict[str, Any]:
        if polls is None:
            polls = self.deletion_looks if verb == "delete" else self.operation_polls
        operation = self.operation(parent, metadata=self.about(verb, target), polls=polls)
        if request.query.get("requestId"):
            self._answered[request.query["requestId"]] = operation
        return operation

    def _full(self, queued: str) -> str:
        matches = [name for name in self.resources if name == queued or name.endswith(f"/{queued}")]
        if len(matches) != 1:
            raise not_found(queued)
        return matches[0]


def no_capacity(zone: str) -> str:
    """Google's sentence for a zone that has sold out."""
    return (
        f'There is no more capacity in the zone "{zone}"; you can try in another zone where Cloud TPU Nodes are offered '
        "(see https://cloud.google.com/tpu/docs/regions) [EID: 0x1bc8f9d790be9142]"
    )


def _bad_request(why: str) -> str:
    return f"Cloud TPU received a bad request. {why} [EID: 0x2565fdf9d68af622]"


def _chips(accelerator: str) -> int:
    return int(accelerator.rsplit("-", 1)[-1])
