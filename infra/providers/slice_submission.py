"""Submitting a slice exactly once, whatever happens to the answer: ours is taken back, a stranger's never touched."""

from __future__ import annotations

from contextlib import suppress
from threading import BoundedSemaphore

from infra.errors import GoogleError
from infra.google.api_errors import is_ambiguous
from infra.google.slice_records import IDENTITY_LABELS, differences, is_expired, is_owned, remove_slice
from infra.google.tpu_types import Operation, QueuedResource, QueueState, SliceRequest, queued_resource_body
from infra.google.tpu_zone import TpuZone
from infra.providers.base import Progress

_ATTEMPTS = 3  # a husk of ours, or one that vanished between two questions, is asked for again
_APPEAR_S = 20.0
_DECIDED_S = 60.0  # what Google does not offer it refuses in the operation, seen 12 to 14 s after it took the request
_RECORD_S = 120.0
_POLL_S = 2.0
_FIRST_S = 60.0
_WAITING = BoundedSemaphore(3)
"""Further slices that wait for the first one at a time. Pulumi runs four of our resources at a time: a fourth would leave
no worker to the first slice."""


def submit(
    zone: TpuZone, queued_id: str, request: SliceRequest, *, may_replace: bool, progress: Progress
) -> QueuedResource | None:
    """The entry, new or adopted. None: the request went out, and whether it was taken could not be found out.

    Raises GoogleError only where no entry came into being, or one that is not to be touched stands under the name.
    """
    body = queued_resource_body(request)
    refusal: GoogleError | None = None
    for _ in range(_ATTEMPTS):
        try:
            operation = zone.create(queued_id, body)
        except GoogleError as error:
            refusal = error
            if is_ambiguous(error):
                try:
                    found = _look(zone, queued_id)
                except GoogleError:
                    return None
                if found is None:
                    raise
            elif error.status == 409:
                found = zone.get(queued_id)
            else:
                raise
            if found is not None and _is_wanted(zone, found, request, may_replace=may_replace, progress=progress):
                return found
            continue
        return _recorded(zone, queued_id, operation)
    raise refusal or GoogleError(f"{queued_id} could not be queued in {zone.zone}; run the command again.")


def let_first(zone: TpuZone, queued_id: str, progress: Progress) -> None:
    """Wait until the first slice's entry stands, for a minute at most: where the quota covers one, it is that one's.

    Pulumi creates both at once. A dependency would order them, and on `destroy` keep the first one waiting, and paid for,
    as long as the further one is PROVISIONING. Returns at once where three wait already, see `_WAITING`.
    """
    if not _WAITING.acquire(blocking=False):
        return
    try:
        began = zone.session.clock()
        while zone.session.clock() + _POLL_S <= began + _FIRST_S:
            with suppress(GoogleError):
                first = zone.get(queued_id)
                if first is not None and not first.state.over:
                    return
            progress(f"waiting until {queued_id}, the first slice, has been asked for")
            zone.session.sleep(_POLL_S)
    finally:
        _WAITING.release()


def _is_wanted(
    zone: TpuZone, found: QueuedResource, request: SliceRequest, *, may_replace: bool, progress: Progress
) -> bool:
    """Whether what stands under our name is the slice that we want; False once the name is free. Raises GoogleError."""
    if not is_owned(found, request.labels):
        raise _strangers(found, request)
    expired = is_expired(found, zone.session.clock(), request.valid_until_duration_s)
    if not found.state.over and not expired:
        wrong = differences(found, request)
        if not wrong:
            progress(f"{found.id} is in the queue already ({found.state.value}): going on with it")
            return True
        if not found.state.waits and not may_replace:
            raise GoogleError(
                f"{found.id} in {zone.zone} is a slice of this stack that may be serving ({found.state.value}) and was "
                f"asked for differently: {'; '.join(wrong)}. Undo the change to take it back, or let it be deleted: "
                "pulumi config set --path gemma4:tpu.replaceActive true",
                status=409,
                reason="MAY_BE_SERVING",
            )
    state = f"{found.state.value}, expired" if expired else found.state.value
    progress(f"removing what is left of {found.id} ({state}): it holds the name and the quota")
    remove_slice(zone, found.id, request.labels, progress, created=found.create_time)
    return False


def _strangers(found: QueuedResource, request: SliceRequest) -> GoogleError:
    owner = (
        ", ".join(f"{key}={found.labels[key]}" for key in IDENTITY_LABELS if key in found.labels) or "nothing of ours"
    )
    return GoogleError(
        f"A queued resource {found.id} exists in {found.zone} and is not this stack's (its labels say {owner}), so it "
        "was left alone and none was created. Rename the stack or the slice (tpu.slices), or delete it if nobody needs "
        f"it: gcloud compute tpus queued-resources delete {found.id} --zone {found.zone} --project {request.project} "
        "--force",
        status=409,
        reason="NOT_OURS",
    )


def _recorded(zone: TpuZone, queued_id: str, operation: Operation) -> QueuedResource | None:
    """The entry once Google has made up its mind; None where neither operation nor entry can be read.

    Raises GoogleError where the operation failed: then there is no entry, or one that ended before it began.
    """
    with suppress(GoogleError):  # the entry tells as well, if it can be read
        operation = zone.followed(operation, limit_s=_DECIDED_S, poll_s=_POLL_S)
    found: QueuedResource | None = None
    if not operation.failure:
        with suppress(GoogleError):
            found = _look(zone, queued_id)
            operation = operation if found else zone.operation(operation.name)  # what ended it may have come later
    if operation.failure:
        raise zone.refusal(operation)
    return found


def _look(zone: TpuZone, queued_id: str) -> QueuedResource | None:
    """The entry as soon as its state is another than CREATING; after a while as it is, or None where there is none."""
    began = zone.session.clock()
    while True:
        found = zone.get(queued_id)
        if found is not None and found.state is not QueueState.CREATING:
            return found
        patience = _APPEAR_S if found is None else _RECORD_S
        if zone.session.clock() + _POLL_S > began + patience:
            return found
        zone.session.sleep(_POLL_S)
