"""A machine of a managed group as it runs: waits for it, for a limited time, and outputs its zone, address and number.

It owns nothing: the machine belongs to its group. So a wait that fails or is interrupted loses nothing, and the next
`pulumi up` goes on waiting. Whatever ends the machine deletes this first, which lets it finish what it answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, UpdateResult

from infra.errors import GoogleError
from infra.google.compute_types import ComputeInstance
from infra.google.session import GoogleSession
from infra.providers.base import DynamicResource, Provider, changed, fail, progress_on, warning_on
from infra.providers.capacity_wait import ACTIVE, WAITING
from infra.providers.machine_drain import UNFOLLOWED_S, drain
from infra.providers.machine_wait import MachineWait, SeenMachine, look, wait_for_machine

_IDENTITY = ("project", "region", "group", "machine", "generation")


@dataclass(frozen=True)
class ComputeMachineArgs:
    """`generation` is new for each managed `group`. `metadata` are the attributes with which the machine starts.

    `behind` is empty for the first machine, whose capacity `pulumi up` waits for. A further one names the first one there:
    `pulumi up` waits for it only while the first one waits too.
    """

    project: pulumi.Input[str]
    region: str
    group: pulumi.Input[str]
    machine: pulumi.Input[str]
    generation: pulumi.Input[str]
    metadata: Mapping[str, pulumi.Input[str]]
    timeout_s: int
    behind: str


class ComputeMachine(DynamicResource):
    """`zone`, `address` (internal IPv4) and `instance` (the machine's number) are blank while it waits.

    It must be deleted before it is replaced: it drains whichever machine has its name.
    """

    state: pulumi.Output[str]
    zone: pulumi.Output[str]
    address: pulumi.Output[str]
    instance: pulumi.Output[str]

    def __init__(self, name: str, args: ComputeMachineArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(ComputeMachineProvider(), name, args, opts)


class ComputeMachineProvider(Provider):
    """Waits for the machine, drains it in the end, and reads it again: a group makes it anew by itself, with another number."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Wait for the machine; an error leaves the request where it is."""
        return CreateResult(props["machine"], self._waited(props))

    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Go on waiting."""
        return UpdateResult(self._waited(news))

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Replace for another request; update while there is no machine. New `metadata` alone are a matter of `ServingSpec`."""
        keys = changed(olds, news, _IDENTITY)
        if keys and olds.get("state") == ACTIVE:
            warning_on(news.get("urn"))(
                f"{olds['machine']} is deleted before another machine is made in its place: an outage until that one serves. "
                "With another name in machine.names in the same change, the new machine serves before this one goes."
            )
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

    def delete(self, _id: str, props: dict[str, Any]) -> None:
        """Let the machine finish what it answers, for a limited time; its group deletes it afterwards."""
        session, wait, progress = self.session(), MachineWait.of(props), progress_on(props.get("urn"))
        try:
            seen = look(session, wait)
        except GoogleError as error:
            seen = SeenMachine(error=error)
        if seen.instance is not None:
            drain(wait.place(session, seen.instance.zone), wait.name, UNFOLLOWED_S, progress)
        elif seen.error:
            progress(f"{wait.name} cannot be asked to finish its requests, and is deleted all the same: {seen.error}")

    def _waited(self, props: dict[str, Any]) -> dict[str, Any]:
        session, wait, urn = self.session(), MachineWait.of(props), props.get("urn")
        try:
            _tell_group(session, wait, props["metadata"])
            found = wait_for_machine(session, wait, progress=progress_on(urn), warn=warning_on(urn))
        except GoogleError as error:
            fail(str(error))
        return {**props, **_shown(found)}


def _tell_group(session: GoogleSession, wait: MachineWait, metadata: Mapping[str, str]) -> None:
    """Let the group make the machine with these attributes: those that it was asked for with may be older."""
    group = wait.managed(session)
    member = group.member(wait.name)
    if member is not None and any(member.metadata.get(key) != value for key, value in metadata.items()):
        group.set_metadata(wait.name, metadata)


def _shown(found: ComputeInstance | None) -> dict[str, str]:
    if found is None:
        return {"state": WAITING, "zone": "", "address": "", "instance": ""}
    return {"state": ACTIVE, "zone": found.zone, "address": found.address, "instance": found.id}
