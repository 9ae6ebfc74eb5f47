"""A machine of Compute Engine as it runs: waits for it, for a limited time, and outputs its zone, address and number.

It owns nothing: the machine belongs to its managed group, or to its own resource. So a wait that fails or is interrupted
loses nothing, and the next `pulumi up` goes on waiting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, UpdateResult

from infra.errors import GoogleError
from infra.google.compute_types import ComputeInstance
from infra.providers.base import DynamicResource, Provider, changed, fail, progress_on, warning_on
from infra.providers.machine_wait import MachineWait, look, wait_for_machine

ACTIVE, WAITING = "ACTIVE", "WAITING"
_IDENTITY = ("project", "region", "group", "machine", "generation")


@dataclass(frozen=True)
class ComputeMachineArgs:
    """`generation` is new for each machine that was asked for. `group` is the managed group, blank where there is none, and
    then `place` is the zone.

    `behind` is empty for the first machine, whose capacity `pulumi up` waits for. A further one names the first one there:
    `pulumi up` waits for it only while the first one waits too.
    """

    project: pulumi.Input[str]
    region: str
    group: pulumi.Input[str]
    place: str
    machine: pulumi.Input[str]
    generation: pulumi.Input[str]
    timeout_s: int
    behind: str


class ComputeMachine(DynamicResource):
    """`zone`, `address` (internal IPv4) and `instance` (the machine's number) are blank while it waits."""

    state: pulumi.Output[str]
    zone: pulumi.Output[str]
    address: pulumi.Output[str]
    instance: pulumi.Output[str]

    def __init__(self, name: str, args: ComputeMachineArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(ComputeMachineProvider(), name, args, opts)


class ComputeMachineProvider(Provider):
    """Waits for the machine, and reads it again: a group makes it anew by itself, with another number."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Wait for the machine; an error leaves the request where it is."""
        return CreateResult(props["machine"], self._waited(props))

    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Go on waiting."""
        return UpdateResult(self._waited(news))

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Replace for another request; update while there is no machine. A new `timeout_s` alone changes nothing."""
        keys = changed(olds, news, _IDENTITY)
        if keys:
            return DiffResult(changes=True, replaces=keys)
        return DiffResult(changes=olds.get("state") != ACTIVE)

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Return the present machine: it may have come, or been made anew, since."""
        try:
            seen = look(self.session(), MachineWait.of(props))
        except GoogleError:
            return ReadResult(id_, props)  # the group gets the same error and reports it
        if seen.error:
            return ReadResult(id_, props)
        return ReadResult(id_, {**props, **_shown(seen.instance if seen.there else None)})

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Do nothing: the machine is deleted with its group, or by its own resource."""

    def _waited(self, props: dict[str, Any]) -> dict[str, Any]:
        urn = props.get("urn")
        try:
            found = wait_for_machine(
                self.session(), MachineWait.of(props), progress=progress_on(urn), warn=warning_on(urn)
            )
        except GoogleError as error:
            fail(str(error))
        return {**props, **_shown(found)}


def _shown(found: ComputeInstance | None) -> dict[str, str]:
    if found is None:
        return {"state": WAITING, "zone": "", "address": "", "instance": ""}
    return {"state": ACTIVE, "zone": found.zone, "address": found.address, "instance": found.id}
