"""The machine of a queued resource: waits for it, for a limited time, and outputs its address.

It owns nothing: the machine belongs to the queued resource. So a wait that fails or is interrupted loses nothing, and the
next `pulumi up` goes on waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, UpdateResult

from infra.errors import GoogleError
from infra.google.tpu_types import Node
from infra.google.tpu_zone import TpuZone
from infra.providers.base import DynamicResource, Provider, changed, fail, progress_on, warning_on
from infra.providers.slice_wait import ACTIVE, WAITING, NodeWait, wait_for_node

_IDENTITY = ("project", "zone", "queued_id", "generation")


@dataclass(frozen=True)
class TpuNodeArgs:
    """`generation` is the queued resource's `created`: a new queued resource means a new machine.

    `behind` is empty for the first slice, whose capacity `pulumi up` waits for. A further slice names the first one's queued
    resource there: `pulumi up` waits for it only while the first one waits too. `known_zones` are suggested where this zone
    has no capacity.
    """

    project: pulumi.Input[str]
    zone: str
    queued_id: pulumi.Input[str]
    generation: pulumi.Input[str]
    accelerator_type: str
    timeout_s: int
    behind: str
    known_zones: list[str]


class TpuNode(DynamicResource):
    """`address` (internal IPv4) and `instance` (the machine's number) are blank while the slice waits."""

    state: pulumi.Output[str]
    address: pulumi.Output[str]
    instance: pulumi.Output[str]

    def __init__(self, name: str, args: TpuNodeArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(TpuNodeProvider(), name, args, opts)


class TpuNodeProvider(Provider):
    """Waits for the machine, and reads it again."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Wait for the machine; an error leaves the queued resource in the queue."""
        return CreateResult(props["queued_id"], self._waited(props))

    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Go on waiting."""
        return UpdateResult(self._waited(news))

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Replace for another queued resource; update while there is no machine. A new `timeout_s` alone changes nothing."""
        keys = changed(olds, news, _IDENTITY)
        if keys:
            return DiffResult(changes=True, replaces=keys)
        return DiffResult(changes=olds.get("state") != ACTIVE)

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Return the machine's present address: it may have been granted since."""
        try:
            node = self._zone(props).node(id_)
        except GoogleError:
            return ReadResult(id_, props)  # the queued resource gets the same error and reports it
        return ReadResult(id_, {**props, **_seen(node)})

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Do nothing: the machine is deleted with its queued resource."""

    def _waited(self, props: Mapping[str, Any]) -> dict[str, Any]:
        wait = NodeWait(
            queued_id=props["queued_id"],
            accelerator_type=props["accelerator_type"],
            timeout_s=float(props["timeout_s"]),
            behind=props["behind"],
        )
        urn = props.get("urn")
        zone = self._zone(props)
        try:
            node = wait_for_node(zone, wait, progress=progress_on(urn), warn=warning_on(urn))
        except GoogleError as error:
            fail(str(error))
        return {**props, **_seen(node)}

    def _zone(self, props: Mapping[str, Any]) -> TpuZone:
        return TpuZone.at(self.session(), props, known_zones=props.get("known_zones") or ())


def _seen(node: Node | None) -> dict[str, str]:
    if node is None or not node.address:
        return {"state": WAITING, "address": "", "instance": ""}
    return {"state": ACTIVE if node.ready else WAITING, "address": node.address, "instance": node.id}
