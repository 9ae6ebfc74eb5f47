"""Cloud TPU v2alpha1: queued resources, which only this version can start with flex-start, and their nodes.

A queued resource cannot be changed, only replaced; a node's metadata can. "Operation done" means that a request was
written down, never that a slice was granted: that is the queued resource's own state.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from infra.errors import GoogleError
from infra.google.api_errors import FAILED, Asked, failed, is_ambiguous, is_transient
from infra.google.provider_settings import Api
from infra.google.refusals import Refusal
from infra.google.session import GoogleSession
from infra.google.tpu_types import Node, Operation, QueuedListing, QueuedResource, QueueState
from infra.planning.units import read_duration

POLL_S = 5.0
SLOW_POLL_S = 20.0  # between looks at what may take hours
PATCH_ATTEMPTS = 8  # somebody else's ssh key may arrive between our reading and our writing, not eight times in a row

_SPOKEN = {"create": "the creation", "delete": "the deletion"}


class TpuZone:
    """One project's TPUs in one zone. `project` is the session's unless it is given. `known_zones` are named where Google
    refuses this one."""

    def __init__(
        self, session: GoogleSession, zone: str, *, project: str = "", known_zones: Sequence[str] = ()
    ) -> None:
        self.session = session
        self.zone = zone
        self._known_zones = tuple(place for place in known_zones if place != zone)
        self._parent = f"projects/{project or session.project}/locations/{zone}"

    @classmethod
    def at(cls, session: GoogleSession, place: Mapping[str, Any], known_zones: Sequence[str] = ()) -> Self:
        """Where something was made, by its `project` and `zone`: it has to be looked for there, whatever is set now."""
        return cls(session, place["zone"], project=place["project"], known_zones=known_zones)

    def create(self, queued_id: str, body: Mapping[str, Any]) -> Operation:
        """Ask for a slice. Repeating after a lost answer is safe: all attempts carry one request id.

        GoogleError with status 409 when the name is taken, or with a `Refusal` as its reason. The operation may hold the
        same refusals, seconds later: see `refusal`.
        """
        path = f"{self._parent}/queuedResources"
        try:
            raw = self.session.post(Api.TPU, path, body, request_id=str(uuid.uuid4()), queuedResourceId=queued_id)
        except GoogleError as error:
            raise self._with_place(error) from None
        return Operation.of(raw)

    def get(self, queued_id: str) -> QueuedResource | None:
        """None only where Google says 404."""
        raw = self._found(f"{self._parent}/queuedResources/{queued_id}")
        return QueuedResource.of(raw) if raw is not None else None

    def list(self) -> QueuedListing:
        """All queued resources of the zone, and the places that could not be asked."""
        found: list[QueuedResource] = []
        unreachable: set[str] = set()
        for page in self.session.pages(Api.TPU, f"{self._parent}/queuedResources"):
            found += [QueuedResource.of(raw) for raw in page.get("queuedResources", ())]
            unreachable.update(page.get("unreachable", ()))
        return QueuedListing(tuple(found), tuple(sorted(unreachable)))

    def delete(self, queued_id: str) -> Operation | None:
        """Ask once for a deletion that takes running nodes along; None where there is nothing to delete."""
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
        """Delete with force and wait for the 404; a refusal while PROVISIONING, in the answer or in the operation, is
        asked again, ever more slowly.

        `created` names the generation that is meant: another one under the same id is somebody's, and is let be.
        `progress` gets what still stands there, for how many seconds it was waited for, and why it was last refused.
        GoogleError when it is still there after `timeout_s`: it holds quota, and may cost money, until it is gone.
        """
        began = self.session.clock()
        asked: Operation | None = None
        refusal, state = "", ""
        while True:
            try:
                found = self.get(queued_id)
                if found is None or (created and found.create_time != created):
                    return
                state = f" ({found.state.value})"
                progress(found, self.session.clock() - began, refusal)
                asked = self.operation(asked.name) if asked and not asked.done else asked
                if asked and asked.failure:
                    refusal, asked = str(self.refusal(asked)), None
                elif found.state is not QueueState.DELETING and (asked is None or asked.done):
                    asked = self.delete(queued_id)
            except GoogleError as error:
                if error.status not in (400, 404, 409) and not is_transient(error):
                    raise
                refusal, asked = str(error), None
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
        """`name` is an operation's full name."""
        return Operation.of(self.session.get(Api.TPU, name))

    def followed(self, operation: Operation, *, limit_s: float, poll_s: float = POLL_S) -> Operation:
        """The operation as it is once it is done, or after `limit_s`."""
        deadline = self.session.clock() + limit_s
        while not operation.done and self.session.clock() + poll_s <= deadline:
            self.session.sleep(poll_s)
            operation = self.operation(operation.name)
        return operation

    def wait(self, operation: Operation, *, timeout_s: float, poll_s: float = POLL_S) -> Operation:
        """Follow an operation until it is done; GoogleError when it failed or outlasts `timeout_s`."""
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
        """The error for a failed operation, of the kinds that `create` raises."""
        what = f"{_SPOKEN.get(operation.verb, 'a change')} of {operation.target}"
        error = failed(operation.failure, Asked(what, Api.TPU.service, self._parent.split("/")[1]))
        if error.reason == FAILED and operation.verb == "create":
            fix = "Run the command again; if it stays so, try another zone (`gemma4 zones`, setting tpu.zone)."
            return GoogleError(f"{error} {fix}", reason=FAILED)
        return self._with_place(error)

    def hint(self, kind: Refusal) -> str:
        """Where else to ask after a refusal of that kind, as a sentence; empty where another place does not help."""
        if kind not in (Refusal.UNSUPPORTED, Refusal.CAPACITY):
            return ""
        others = ", ".join(self._known_zones)
        known = f"Zones where it is known to be offered: {others} (setting tpu.zone)." if others else ""
        return known or "`gemma4 zones` shows other zones (setting tpu.zone)."

    def node(self, node_id: str) -> Node | None:
        """None where there is none (any more)."""
        raw = self._found(f"{self._parent}/nodes/{node_id}")
        return Node.of(raw) if raw is not None else None

    def set_metadata(self, node_id: str, changes: Mapping[str, str | None], *, timeout_s: float = 300) -> Node:
        """Change some keys of a node's metadata (None removes one) and leave everybody else's alone.

        The API replaces the whole map, so this reads, merges and writes, and starts over when a write was refused as
        concurrent or its answer was lost. It ends by seeing the values on the node.
        """
        refusal: GoogleError | None = None
        for attempt in range(PATCH_ATTEMPTS):
            if attempt:
                self.session.sleep(min(2.0**attempt, 30.0))
            node = self.node(node_id)
            if node is None:
                raise GoogleError(
                    f"The TPU node {node_id} in {self.zone} is gone, so its settings cannot change; "
                    "`pulumi up` asks for a new slice.",
                    status=404,
                    reason="NOT_FOUND",
                )
            merged = _merged(node.metadata, changes)
            if merged == node.metadata:
                return node
            try:
                self._patch(node_id, merged, timeout_s)
            except GoogleError as error:
                if error.status != 409 and not is_ambiguous(error) and not is_transient(error):
                    raise
                refusal = error
        raise GoogleError(
            f"The metadata of TPU node {node_id} could not be changed in {PATCH_ATTEMPTS} attempts; run the command "
            f"again. The last answer: {refusal}",
            status=refusal.status if refusal else 0,
            reason="CONTENDED",
        )

    def guest_attributes(self, node_id: str, namespace: str) -> Mapping[str, str]:
        """What worker 0 of a node published below a namespace, by key; empty where it published nothing (yet)."""
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
        """What the zone lists. Listed is neither offered with flex-start nor in stock."""
        pages = self.session.pages(Api.TPU, f"{self._parent}/acceleratorTypes")
        return tuple(sorted({kind["type"] for page in pages for kind in page.get("acceleratorTypes", ())}))

    def _found(self, path: str) -> dict[str, Any] | None:
        try:
            return self.session.get(Api.TPU, path)
        except GoogleError as error:
            if error.status == 404:
                return None
            raise

    def _patch(self, node_id: str, metadata: Mapping[str, str], timeout_s: float) -> None:
        path = f"{self._parent}/nodes/{node_id}"
        raw = self.session.patch(Api.TPU, path, {"metadata": metadata}, updateMask="metadata")
        self.wait(Operation.of(raw), timeout_s=timeout_s)

    def _with_place(self, error: GoogleError) -> GoogleError:
        """A refusal with the zone, where Google leaves it out, and with others, where it is the zone that is wrong."""
        extra = self.hint(Refusal(error.reason)) if error.reason in list(Refusal) else ""
        if error.reason == Refusal.QUOTA and self.zone not in str(error):
            extra = f"The slice was asked for in {self.zone}."
        if not extra:
            return error
        return GoogleError(f"{error} {extra}", status=error.status, reason=error.reason, maybe_done=error.maybe_done)


def zones(session: GoogleSession) -> tuple[str, ...]:
    """Every zone that the TPU API knows for this project."""
    pages = session.pages(Api.TPU, f"projects/{session.project}/locations")
    return tuple(sorted({place["locationId"] for page in pages for place in page.get("locations", ())}))


def _merged(metadata: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    merged = {**metadata, **{key: value for key, value in changes.items() if value is not None}}
    return {key: value for key, value in merged.items() if changes.get(key, value) is not None}
