"""Submits a queued resource exactly once for a ticket, in a turn that is free; never touches a foreign one, nor one that may
serve."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Any, Self

from infra.errors import GoogleError
from infra.google.api_errors import is_ambiguous
from infra.google.logs import MACHINE_LOG, LogSource
from infra.google.slice_records import IDENTITY_LABELS, TICKET, Ticket, delete_command, is_expired, remove_slice
from infra.google.system_attributes import AT_CREATION
from infra.google.tpu_types import (
    Operation,
    Provisioning,
    QueuedResource,
    QueueState,
    SliceRequest,
    queued_resource_body,
)
from infra.google.tpu_zone import TpuZone
from infra.planning.gateway.members import MEMBER, TURNS, member_attribute
from infra.providers.base import Progress

_ATTEMPTS = 3  # one that has ended, or that vanished between two requests, is submitted again
_APPEAR_S = 20.0
_OPERATION_S = 60.0  # what Google does not offer it refuses in the operation, seen after 12 to 14 s
_CREATING_S = 120.0
_POLL_S = 2.0
_FIRST_S = 60.0
_WAITING = BoundedSemaphore(3)
"""How many further slices wait for the first one at a time. Pulumi's provider runs four operations at a time: with a fourth
one waiting, none would be left for the first slice."""


@dataclass(frozen=True)
class Turns:
    """What stands in the turns of a slice, in one zone."""

    own: QueuedResource | None
    """Carries the ticket, and waits or serves."""
    leftovers: tuple[QueuedResource, ...]
    """Of this slice, by whichever ticket, that serve nothing: ended, expired, or waiting by another ticket."""
    others: tuple[QueuedResource, ...]
    """Of this slice by another ticket, that may serve."""
    foreign: tuple[QueuedResource, ...]
    free: tuple[str, ...]
    """Names where nothing stands."""

    @classmethod
    def look(cls, zone: TpuZone, ticket: Ticket, valid_until_duration_s: float) -> Self:
        """Ask Google. Raises GoogleError."""
        now, own = zone.session.clock(), None
        sorted_: dict[str, list[QueuedResource]] = {"leftovers": [], "others": [], "foreign": []}
        free = []
        for name in ticket.names:
            found = zone.get(name)
            if found is None:
                free.append(name)
            elif not ticket.owns(zone, found):
                sorted_["foreign"].append(found)
            elif found.state.over or is_expired(found, now, valid_until_duration_s):
                sorted_["leftovers"].append(found)
            elif ticket.is_on(zone, found):
                own = found
            else:
                sorted_["leftovers" if found.state.waits else "others"].append(found)
        return cls(own, free=tuple(free), **{key: tuple(some) for key, some in sorted_.items()})


def submit(
    zone: TpuZone, props: Mapping[str, Any], *, serving: str, progress: Progress, warn: Progress
) -> QueuedResource:
    """Return the queued resource that carries the ticket of `props`, new or found again.

    `serving` is another machine of the slice that the caller knows of. Raises GoogleError: with `maybe_done` where a request
    was sent and Google does not say what became of it. The next call finds it by the ticket.
    """
    ticket = Ticket.of(props)
    refusal: GoogleError | None = None
    for _ in range(_ATTEMPTS):
        turns = Turns.look(zone, ticket, float(props["valid_until_duration_s"]))
        if turns.own:
            progress(f"{turns.own.id} is in the queue already ({turns.own.state.value}): going on with it")
            return turns.own
        if turns.foreign:
            raise _foreign(turns.foreign[0], props["project"])
        for found in turns.leftovers:
            progress(f"removing what is left of {found.id} ({found.state.value}): it holds the name and the quota")
            remove_slice(zone, found, progress)
        free = [*turns.free, *(found.id for found in turns.leftovers)]
        if not free:
            raise _both_taken(turns.others, props["project"])
        for other in turns.others:
            if other.id != serving:
                warn(_another(other, props["project"]))
        request = slice_request(props, free[0])
        try:
            operation = zone.create(free[0], queued_resource_body(request))
        except GoogleError as error:
            lost = is_ambiguous(error)
            if (not lost and error.status != 409) or (lost and _settled(zone, free[0]) is None):
                raise
            refusal = error
            continue  # it is there, and the ticket says whose it is
        return _recorded(zone, free[0], operation)
    raise refusal or GoogleError(f"{ticket.queued_id} could not be queued in {zone.zone}; run the command again.")


def slice_request(props: Mapping[str, Any], node_id: str) -> SliceRequest:
    """Return the request that a `TpuNode`'s properties describe, for a machine of that name."""
    run = props.get("max_run_duration_s")  # the engine drops inputs without a value
    labels, ticket = props["labels"], Ticket.of(props)
    member, log = ticket.member(node_id), LogSource.machine(node_id, props["zone"])
    own = {
        MACHINE_LOG: log.attribute(props["project"], labels["stack"], labels["slice"]),
        MEMBER: member_attribute(
            member, project=props["project"], zone=props["dns_zone"], host=member, domain=props["domain"]
        ),
        **AT_CREATION,  # taken at creation only, as the two above never change
    }
    return SliceRequest(
        project=props["project"],
        zone=props["zone"],
        node_id=node_id,
        accelerator_type=props["accelerator_type"],
        runtime_version=props["runtime_version"],
        network=props["network"],
        subnetwork=props["subnetwork"],
        service_account=props["service_account"],
        provisioning=Provisioning(props["provisioning"]),
        valid_until_duration_s=int(props["valid_until_duration_s"]),
        max_run_duration_s=int(run) if run else None,
        metadata={**props["metadata"], **own},
        labels={**labels, TICKET: ticket.number},
        tags=props["tags"],
    )


def wait_for_first(zone: TpuZone, queued_id: str, progress: Progress) -> None:
    """Wait, a minute at most, until the first slice's queued resource exists: where the quota covers one, the first gets it.

    Pulumi asks for both at once. A dependency would order them, but on `destroy` the first slice would then stay, and cost
    money, as long as the further one is PROVISIONING. Returns at once where three are waiting already (`_WAITING`).
    """
    if not _WAITING.acquire(blocking=False):
        return
    try:
        began = zone.session.clock()
        while zone.session.clock() + _POLL_S <= began + _FIRST_S:
            with suppress(GoogleError):
                turns = [zone.get(f"{queued_id}-{turn}") for turn in TURNS]
                if any(one is not None and not one.state.over for one in turns):
                    return
            progress(f"waiting until {queued_id}, the first slice, has been asked for")
            zone.session.sleep(_POLL_S)
    finally:
        _WAITING.release()


def _another(found: QueuedResource, project: str) -> str:
    return (
        f"{found.id} in {found.zone} is another machine of this slice ({found.state.value}). If Pulumi still has to delete it, "
        "it goes when a `pulumi up` has succeeded. If it is still there then, no state knows it, and somebody pays for it: "
        f"{delete_command(found, project)}"
    )


def _both_taken(others: tuple[QueuedResource, ...], project: str) -> GoogleError:
    names = " and ".join(f"{one.id} ({one.state.value})" for one in others)
    return GoogleError(
        f"{names} in {others[0].zone} are both machines of this slice, so there is no name for a third one, and none was asked "
        "for. Let a plain `pulumi up` finish what was begun; one that no state knows any more can be deleted: "
        f"{delete_command(others[0], project)}",
        status=409,
        reason="TAKEN",
    )


def _foreign(found: QueuedResource, project: str) -> GoogleError:
    labels = [f"{key}={found.labels[key]}" for key in IDENTITY_LABELS if key in found.labels]
    return GoogleError(
        f"A queued resource {found.id} exists in {found.zone} and is not this stack's (its labels say "
        f"{', '.join(labels) or 'nothing of gemma4'}), so it was left alone and none was created. Rename the stack or the "
        f"slice (tpu.slices), or delete it if nobody needs it: {delete_command(found, project)}",
        status=409,
        reason="FOREIGN",
    )


def _recorded(zone: TpuZone, queued_id: str, operation: Operation) -> QueuedResource:
    """Return the queued resource once Google has decided.

    Raises GoogleError where the operation failed: then there is no queued resource, or one that has ended already; and with
    `maybe_done` where neither it nor the operation can be read.
    """
    with suppress(GoogleError):  # the queued resource tells as well, if it can be read
        operation = zone.followed(operation, limit_s=_OPERATION_S, poll_s=_POLL_S)
    found: QueuedResource | None = None
    if not operation.failure:
        with suppress(GoogleError):
            found = _settled(zone, queued_id)
            operation = operation if found else zone.operation(operation.name)  # it may have failed only now
    if operation.failure:
        raise zone.refusal(operation)
    if found is None:
        raise GoogleError(
            f"{queued_id} was asked for in {zone.zone}, and Google does not say what became of it. Nothing is lost: run "
            "`pulumi up` again, which finds it.",
            reason="UNSEEN",
            maybe_done=True,
        )
    return found


def _settled(zone: TpuZone, queued_id: str) -> QueuedResource | None:
    """Return the queued resource once its state is not CREATING; after a time-out as it is, None where there is none."""
    began = zone.session.clock()
    while True:
        found = zone.get(queued_id)
        if found is not None and found.state is not QueueState.CREATING:
            return found
        patience = _APPEAR_S if found is None else _CREATING_S
        if zone.session.clock() + _POLL_S > began + patience:
            return found
        zone.session.sleep(_POLL_S)
