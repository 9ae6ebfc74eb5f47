"""Cloud TPU v2alpha1 in one zone: queued resources and their nodes. Only this API version offers flex-start.

A queued resource cannot be changed, only replaced; a node's metadata can be changed. A finished operation means that a
request was recorded, never that a slice was granted: the state of the queued resource tells that.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from infra.errors import GoogleError
from infra.google.api_errors import FAILED, ApiCall, error_from_operation, is_transient
from infra.google.gcp_settings import Api
from infra.google.metadata_change import change_metadata
from infra.google.refusals import RefusalKind
from infra.google.session import GoogleSession
from infra.google.tpu_types import Node, Operation, QueuedListing, QueuedResource, QueueState
from infra.planning.units import read_duration

POLL_S = 5.0
SLOW_POLL_S = 20.0  # between polls of what may take hours

_VERBS = {"create": "the creation", "delete": "the deletion"}


class TpuZone:
    """One project's TPUs in one zone. `project` is the session's unless it is given.

    `known_zones` are zones to suggest where Google refuses this one.
    """

    def __init__(
        self, session: GoogleSession, zone: str, *, project: str = "", known_zones: Sequence[str] = ()
    ) -> None:
        self.session = session
        self.zone = zone
        self._known_zones = tuple(place for place in known_zones if place != zone)
        self._parent = f"projects/{project or session.project}/locations/{zone}"

    @classmethod
    def at(cls, session: GoogleSession, place: Mapping[str, Any], known_zones: Sequence[str] = ()) -> Self:
        """Return the zone where something was made, by its own `project` and `zone` and not by the present settings."""
        return cls(session, place["zone"], project=place["project"], known_zones=known_zones)

    def create(self, queued_id: str, body: Mapping[str, Any]) -> Operation:
        """Ask for a slice. Repeating after a lost answer is safe: all attempts carry one request id.

        Raises GoogleError: with status 409 when the name is taken, with a `RefusalKind` as its reason when Google refuses.
        The operation may end with the same refusals seconds later: see `refusal`.
        """
        path = f"{self._parent}/queuedResources"
        try:
            raw = self.session.post(Api.TPU, path, body, request_id=str(uuid.uuid4()), queuedResourceId=queued_id)
        except GoogleError as error:
            raise self._with_place(error) from None
        return Operation.of(raw)

    def get(self, queued_id: str) -> QueuedResource | None:
        """Return a queued resource; None only where Google answers 404."""
        raw = self._found(f"{self._parent}/queuedResources/{queued_id}")
        return QueuedResource.of(raw) if raw is not None else None

    def list(self) -> QueuedListing:
        """Return all queued resources of the zone, and the places that could not be read."""
        found: list[QueuedResource] = []
        unreachable: set[str] = set()
        for page in self.session.pages(Api.TPU, f"{self._parent}/queuedResources"):
            found += [QueuedResource.of(raw) for raw in page.get("queuedResources", ())]
            unreachable.update(page.get("unreachable", ()))
        return QueuedListing(tuple(found), tuple(sorted(unreachable)))

    def delete(self, queued_id: str) -> Operation | None:
        """Ask once for the deletion of a queued resource and its node; None where there is none."""
        path = f"{self._parent}/queuedResources/{queued_id}"
        try:
            return Operation.of(self.session.delete(Api.TPU, path, force="true", requestId=str(uuid.uuid4())))
        except GoogleError as error:
            if error.status == 404:
                return None
            raise

    def delete_until_gone(
        self,
        queued_id: str,
        *,
        timeout_s: float,
        poll_s: float = POLL_S,
        created: str = "",
        progress: Callable[[QueuedResource, float, str], object] = lambda found, waited_s, refusal: None,
    ) -> None:
        """Delete a queued resource with force and wait until Google answers 404.

        Google refuses while the state is PROVISIONING, in the answer or in the operation; then this asks again, at growing
        intervals. `created` is the generation to delete: another one under the same id is foreign and is left alone.
        `progress` gets the queued resource, the seconds waited so far, and the last refusal. Raises GoogleError when it is
        still there after `timeout_s`: until it is gone it holds quota and may cost money.
        """
        began = self.session.clock()
        deletion: Operation | None = None
        refusal, state = "", ""
        while True:
            try:
                found = self.get(queued_id)
                if found is None or (created and found.create_time != created):
                    return
                state = f" ({found.state.value})"
                progress(found, self.session.clock() - began, refusal)
                deletion = self.operation(deletion.name) if deletion and not deletion.done else deletion
                if deletion and deletion.failure:
                    refusal, deletion = str(self.refusal(deletion)), None
                elif found.state is not QueueState.DELETING and (deletion is None or deletion.done):
                    deletion = self.delete(queued_id)
            except GoogleError as error:
                if error.status not in (400, 404, 409) and not is_transient(error):
                    raise
                refusal, deletion = str(error), None
            if self.session.clock() + poll_s > began + timeout_s:
                raise GoogleError(
                    f"The queued resource {queued_id} in {self.zone} is still there{state} after "
                    f"{read_duration(timeout_s)}, so it goes on holding quota and may cost money; run the command again. "
                    f"{refusal}".rstrip(),
                    reason="STILL_THERE",
                )
            self.session.sleep(poll_s)
            poll_s = min(2 * poll_s, max(poll_s, SLOW_POLL_S))

    def operation(self, name: str) -> Operation:
        """Return an operation by its full name."""
        return Operation.of(self.session.get(Api.TPU, name))

    def followed(self, operation: Operation, *, limit_s: float, poll_s: float = POLL_S) -> Operation:
        """Return the operation once it is done, or as it is after `limit_s`."""
        deadline = self.session.clock() + limit_s
        while not operation.done and self.session.clock() + poll_s <= deadline:
            self.session.sleep(poll_s)
            operation = self.operation(operation.name)
        return operation

    def wait(self, operation: Operation, *, timeout_s: float, poll_s: float = POLL_S) -> Operation:
        """Wait until an operation is done. Raises GoogleError when it failed or takes longer than `timeout_s`."""
        operation = self.followed(operation, limit_s=timeout_s, poll_s=poll_s)
        if not operation.done:
            raise GoogleError(
                f"{operation.verb} of {operation.target} has not ended within {timeout_s:.0f} s; "
                "run the command again to go on waiting.",
                reason="STILL_RUNNING",
            )
        if operation.failure:
            raise self.refusal(operation)
        return operation

    def refusal(self, operation: Operation) -> GoogleError:
        """Return the error for a failed operation, of the same kinds as `create` raises."""
        what = f"{_VERBS.get(operation.verb, 'a change')} of {operation.target}"
        error = error_from_operation(operation.failure, ApiCall(what, Api.TPU.service, self._parent.split("/")[1]))
        if error.reason == FAILED and operation.verb == "create":
            fix = "Run the command again; if it stays so, try another zone (`gemma4 zones`, setting tpu.zone)."
            return GoogleError(f"{error} {fix}", reason=FAILED)
        return self._with_place(error)

    def hint(self, kind: RefusalKind) -> str:
        """Return a sentence about other zones to try after such a refusal; empty where another zone does not help."""
        if kind not in (RefusalKind.UNSUPPORTED, RefusalKind.CAPACITY):
            return ""
        others = ", ".join(self._known_zones)
        known = f"Zones where it is known to be offered: {others} (setting tpu.zone)." if others else ""
        return known or "`gemma4 zones` shows other zones (setting tpu.zone)."

    def node(self, node_id: str) -> Node | None:
        """Return a node; None where there is none, or no longer."""
        raw = self._found(f"{self._parent}/nodes/{node_id}")
        return Node.of(raw) if raw is not None else None

    def is_up(self, node_id: str) -> bool:
        """Return whether a node is there and ready."""
        found = self.node(node_id)
        return found is not None and found.ready

    def metadata_of(self, node_id: str) -> Mapping[str, str] | None:
        """Return the attributes of a node by name; None where there is no node."""
        found = self.node(node_id)
        return None if found is None else found.metadata

    def set_metadata(self, node_id: str, changes: Mapping[str, str | None], *, timeout_s: float = 300) -> Node:
        """Change some keys of a node's metadata (None removes one), leave all other keys alone, and return the node."""

        def read() -> Node:
            node = self.node(node_id)
            if node is None:
                raise GoogleError(
                    f"The TPU node {node_id} in {self.zone} is gone, so its settings cannot change; "
                    "`pulumi up` asks for a new slice.",
                    status=404,
                    reason="NOT_FOUND",
                )
            return node

        def write(_node: Node, merged: Mapping[str, str]) -> None:
            path = f"{self._parent}/nodes/{node_id}"
            raw = self.session.patch(Api.TPU, path, {"metadata": merged}, updateMask="metadata")
            self.wait(Operation.of(raw), timeout_s=timeout_s)

        return change_metadata(self.session, changes, read=read, write=write, whose=f"TPU node {node_id}")

    def guest_attributes(self, node_id: str, namespace: str) -> Mapping[str, str]:
        """Return what worker 0 of a node has published below a namespace, by key; empty where it has published nothing."""
        path = f"{self._parent}/nodes/{node_id}:getGuestAttributes"
        body = {"queryPath": f"{namespace}/", "workerIds": ["0"]}
        try:
            answer = self.session.post(Api.TPU, path, body, repeatable=True)
        except GoogleError as error:
            if error.status == 404:
                return {}
            raise
        entries = [
            item for one in answer.get("guestAttributes", ()) for item in one.get("queryValue", {}).get("items", ())
        ]
        return {entry["key"]: entry["value"] for entry in entries}

    def accelerator_types(self) -> tuple[str, ...]:
        """Return the accelerator types that the zone lists. A listed type may lack flex-start, and capacity."""
        pages = self.session.pages(Api.TPU, f"{self._parent}/acceleratorTypes")
        return tuple(sorted({kind["type"] for page in pages for kind in page.get("acceleratorTypes", ())}))

    def runtime_versions(self) -> tuple[str, ...]:
        """Return the runtime versions, the images of the machines, that the zone lists."""
        pages = self.session.pages(Api.TPU, f"{self._parent}/runtimeVersions")
        return tuple(sorted({one["version"] for page in pages for one in page.get("runtimeVersions", ())}))

    def _found(self, path: str) -> dict[str, Any] | None:
        try:
            return self.session.get(Api.TPU, path)
        except GoogleError as error:
            if error.status == 404:
                return None
            raise

    def _with_place(self, error: GoogleError) -> GoogleError:
        """Return a refusal with the zone added where Google leaves it out, and other zones where this one cannot help."""
        extra = self.hint(RefusalKind(error.reason)) if error.reason in list(RefusalKind) else ""
        if error.reason == RefusalKind.QUOTA and self.zone not in str(error):
            extra = f"The slice was asked for in {self.zone}."
        if not extra:
            return error
        return GoogleError(f"{error} {extra}", status=error.status, reason=error.reason, maybe_done=error.maybe_done)


def zones(session: GoogleSession) -> tuple[str, ...]:
    """Return every zone that the TPU API lists for this project."""
    pages = session.pages(Api.TPU, f"projects/{session.project}/locations")
    return tuple(sorted({place["locationId"] for page in pages for place in page.get("locations", ())}))
