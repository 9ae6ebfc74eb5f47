"""The machine of a TPU slice: asks for it, waits for it for a limited time, and outputs its name.

It owns nothing: what it asks for carries the ticket of its `TpuQueuedResource`, and goes with that. So a wait that fails or
is interrupted loses nothing: the next `pulumi up` finds the request by the ticket and goes on waiting.

For another ticket it is updated in place, never replaced: so it knows which machine served before. While that one serves, a
wait in vain is an error even for a further slice. The `up` then ends before it would delete the old machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, UpdateResult

from infra.errors import GoogleError
from infra.google.refusals import RefusalKind
from infra.google.slice_records import Ticket
from infra.google.tpu_types import Node, QueuedResource
from infra.google.tpu_zone import TpuZone
from infra.providers.base import DynamicResource, Provider, changed, fail, progress_on, warning_on
from infra.providers.capacity_wait import ACTIVE, WAITING
from infra.providers.slice_submission import Turns, submit, wait_for_first
from infra.providers.slice_wait import NodeWait, wait_for_node

_NOTHING_TAKEN = (RefusalKind.QUOTA, RefusalKind.UNSUPPORTED, RefusalKind.CAPACITY)


@dataclass(frozen=True)
class TpuNodeArgs:
    """A `SliceRequest` whose outputs are not known yet, and how long to wait. The terms are those of the ticket's resource.

    `queued_id` is the slice's name, to which the turn is added; `dns_zone` and `domain` are where its supervisor writes its
    address. `known_zones` are named where Google refuses this one. `behind` is empty for the first slice, whose capacity
    `pulumi up` waits for. A further slice names the first one there: it is asked for after it, and waited for only while the
    first one waits too. That it cannot be had is a warning, since the first one must not wait for its quota.
    """

    project: pulumi.Input[str]
    zone: str
    queued_id: str
    ticket: pulumi.Input[str]
    accelerator_type: str
    runtime_version: str
    network: pulumi.Input[str]
    subnetwork: pulumi.Input[str]
    service_account: pulumi.Input[str]
    provisioning: str
    valid_until_duration_s: int
    max_run_duration_s: int | None
    metadata: Mapping[str, pulumi.Input[str]]
    labels: Mapping[str, str]
    tags: list[str]
    dns_zone: pulumi.Input[str]
    domain: str
    timeout_s: int
    behind: str
    known_zones: list[str]


class TpuNode(DynamicResource):
    """`node_id` is the machine's name and that of its queued resource, `member` its name at the gateway; both are blank where
    nothing could be asked for. `address` (internal IPv4) and `instance` (the machine's number) are blank while it waits."""

    state: pulumi.Output[str]
    node_id: pulumi.Output[str]
    member: pulumi.Output[str]
    address: pulumi.Output[str]
    instance: pulumi.Output[str]

    def __init__(self, name: str, args: TpuNodeArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(TpuNodeProvider(), name, args, opts)


class TpuNodeProvider(Provider):
    """Asks for the machine, waits for it, and reads it again."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Ask and wait; an error leaves the request in the queue."""
        return CreateResult(props["queued_id"], self._waited(props, serving=""))

    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Ask by another ticket, ask anew for one that has ended, or go on waiting."""
        older = olds.get("ticket") != news["ticket"] and olds.get("state") == ACTIVE
        return UpdateResult(self._waited(news, serving=olds["node_id"] if older else ""))

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return an update for another ticket, and while there is no machine. Nothing else that changes counts."""
        return DiffResult(changes=bool(changed(olds, news, ("ticket",))) or olds.get("state") != ACTIVE)

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Return the machine as it is now: it may have been granted since, or have ended."""
        try:
            zone = self._zone(props)
            turns = Turns.look(zone, Ticket.of(props), float(props["valid_until_duration_s"]))
            node = zone.node(turns.own.id) if turns.own else None
        except GoogleError as error:
            fail(str(error))
        return ReadResult(id_, {**props, **_seen(turns.own, node, props)})

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Do nothing: the machine is deleted with its ticket."""

    def _waited(self, props: Mapping[str, Any], *, serving: str) -> dict[str, Any]:
        """Ask, wait, and return the outputs. `serving` is the machine that serves until then, if there is one."""
        urn = props.get("urn")
        progress, warn = progress_on(urn), warning_on(urn)
        zone, needed = self._zone(props), bool(serving) or not props["behind"]
        try:
            if props["behind"]:
                wait_for_first(zone, props["behind"], progress)
            own = submit(zone, props, serving=serving, progress=progress, warn=warn)
        except GoogleError as error:
            if needed or error.reason not in _NOTHING_TAKEN or error.maybe_done:
                fail(f"{error}{_meanwhile(serving)}")
            warn(f"{error} Until then the stack goes on without this slice.")
            return {**props, **_seen(None, None, props)}
        wait = NodeWait(
            queued_id=own.id,
            accelerator_type=props["accelerator_type"],
            timeout_s=float(props["timeout_s"]),
            behind="" if needed else props["behind"],
        )
        try:
            node = wait_for_node(zone, wait, progress=progress, warn=warn)
        except GoogleError as error:
            fail(f"{error}{_meanwhile(serving)}")
        return {**props, **_seen(own, node, props)}

    def _zone(self, props: Mapping[str, Any]) -> TpuZone:
        return TpuZone.at(self.session(), props, known_zones=props.get("known_zones") or ())


def _meanwhile(serving: str) -> str:
    return f" Until then {serving} goes on serving, and nothing is given back." if serving else ""


def _seen(own: QueuedResource | None, node: Node | None, props: Mapping[str, Any]) -> dict[str, str]:
    if own is None:
        return {"state": WAITING, "node_id": "", "member": "", "address": "", "instance": ""}
    named = {"node_id": own.id, "member": Ticket.of(props).member(own.id)}
    if node is None or not node.address:
        return {**named, "state": WAITING, "address": "", "instance": ""}
    return {**named, "state": ACTIVE if node.ready else WAITING, "address": node.address, "instance": node.id}
