"""Submits a queued resource exactly once, even if an answer is lost: adopts an owned one, never touches a foreign one."""

from __future__ import annotations

from contextlib import suppress
from threading import BoundedSemaphore

from infra.errors import GoogleError
from infra.google.api_errors import is_ambiguous
from infra.google.slice_records import IDENTITY_LABELS, differences, is_expired, is_owned, remove_slice
from infra.google.tpu_types import Operation, QueuedResource, QueueState, SliceRequest, queued_resource_body
from infra.google.tpu_zone import TpuZone
from infra.providers.base import Progress

_ATTEMPTS = 3  # an owned request that has ended, or vanished between two requests, is submitted again
_APPEAR_S = 20.0
_OPERATION_S = 60.0  # what Google does not offer it refuses in the operation, seen after 12 to 14 s
_CREATING_S = 120.0
_POLL_S = 2.0
_FIRST_S = 60.0
_WAITING = BoundedSemaphore(3)
"""How many further slices wait for the first one at a time. Pulumi's provider runs four operations at a time: with a fourth
one waiting, none would be left for the first slice."""


def submit(
    zone: TpuZone, queued_id: str, request: SliceRequest, *, may_replace: bool, progress: Progress
) -> QueuedResource | None:
    """Return the queued resource, new or adopted; None where the request was sent and Google does not say what became of it.

    Raises GoogleError only where no queued resource was made, or where the name belongs to one that must not be touched.
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
                    found = _settled(zone, queued_id)
                except GoogleError:
                    return None
                if found is None:
                    raise
            elif error.status == 409:
                found = zone.get(queued_id)
            else:
                raise
            if found is not None and _adopted(zone, found, request, may_replace=may_replace, progress=progress):
                return found
            continue
        return _recorded(zone, queued_id, operation)
    raise refusal or GoogleError(f"{queued_id} could not be queued in {zone.zone}; run the command again.")


def wait_for_first(zone: TpuZone, queued_id: str, progress: Progress) -> None:
    """Wait, a minute at most, until the first slice's queued resource exists: where the quota covers one, the first gets it.

    Pulumi creates both at once. A dependency would order them, but on `destroy` the first slice would then stay, and cost
    money, as long as the further one is PROVISIONING. Returns at once where three are waiting already (`_WAITING`).
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


def _adopted(
    zone: TpuZone, found: QueuedResource, request: SliceRequest, *, may_replace: bool, progress: Progress
) -> bool:
    """Adopt `found` and return True, or remove it as a leftover and return False.

    Raises GoogleError where it is foreign, or may be serving and was asked for differently.
    """
    if not is_owned(found, request.labels):
        raise _foreign(found, request)
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


def _foreign(found: QueuedResource, request: SliceRequest) -> GoogleError:
    labels = [f"{key}={found.labels[key]}" for key in IDENTITY_LABELS if key in found.labels]
    return GoogleError(
        f"A queued resource {found.id} exists in {found.zone} and is not this stack's (its labels say "
        f"{', '.join(labels) or 'nothing of gemma4'}), so it was left alone and none was created. Rename the stack or the "
        "slice (tpu.slices), or delete it if nobody needs it: gcloud compute tpus queued-resources delete "
        f"{found.id} --zone {found.zone} --project {request.project} "
        "--force",
        status=409,
        reason="FOREIGN",
    )


def _recorded(zone: TpuZone, queued_id: str, operation: Operation) -> QueuedResource | None:
    """Return the queued resource once Google has decided; None where neither it nor the operation can be read.

    Raises GoogleError where the operation failed: then there is no queued resource, or one that has ended already.
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
