"""Waiting for capacity: bounded, visible, and in steps so small that an interruption is noticed."""

from __future__ import annotations

from dataclasses import dataclass

from infra.errors import GoogleError
from infra.google.api_errors import is_transient
from infra.google.slice_records import is_expired
from infra.google.tpu_types import Node, QueuedResource, QueueState
from infra.google.tpu_zone import TpuZone
from infra.planning.units import read_duration
from infra.providers.base import Progress

ACTIVE = "ACTIVE"
WAITING = "WAITING"
_FIRST_POLL_S, _POLL_S = 1.0, 5.0


@dataclass(frozen=True)
class Wait:
    """What to wait for, and for how long; `behind` as in `TpuNodeArgs`."""

    queued_id: str
    accelerator_type: str
    limit_s: float
    behind: str


@dataclass(frozen=True)
class _Look:
    queued: QueuedResource | None = None
    node: Node | None = None
    trouble: GoogleError | None = None

    @property
    def spoken(self) -> str:
        if self.trouble:
            return f"no answer from Google: {self.trouble}"
        state = self.queued.state.value if self.queued else "not recorded yet"
        machine = f"is {self.node.state}" if self.node else "is not there yet"
        return f"{state}, its machine {machine}" if state == ACTIVE else state


def wait_for_node(zone: TpuZone, wait: Wait, *, progress: Progress, warn: Progress) -> Node | None:
    """The machine with an address. None for a further slice that has none: it is not worth holding the first one up.

    Raises GoogleError for the first slice when capacity does not come in time or never will.
    """
    began = zone.session.clock()
    poll_s = _FIRST_POLL_S
    while True:
        waited = zone.session.clock() - began
        try:
            look = _look(zone, wait.queued_id)
            if look.node is not None and look.node.ready and look.node.address:
                return look.node
            trouble = _trouble(zone, wait, look, may_wait=waited + poll_s <= wait.limit_s)
        except GoogleError as error:
            trouble = str(error)
        if trouble and not wait.behind:
            raise GoogleError(trouble, reason="NO_SLICE") from None
        if trouble:
            warn(f"{trouble} Until then the gateway leaves this slice out.")
            return None
        progress(f"{look.spoken}; waiting for {read_duration(waited)} of at most {read_duration(wait.limit_s)}")
        zone.session.sleep(poll_s)
        poll_s = min(2 * poll_s, _POLL_S)


def _trouble(zone: TpuZone, wait: Wait, look: _Look, *, may_wait: bool) -> str:
    """Why there is nothing to wait for any more; empty while there is."""
    if look.queued is not None and look.queued.state.over:
        return _over(zone, wait, look.queued, look.queued.state.value)
    if look.queued is not None and is_expired(look.queued, zone.session.clock()):
        return _over(zone, wait, look.queued, f"{look.queued.state.value} still, though its time in the queue is over")
    if not may_wait:
        return _in_vain(zone, wait, look, f"within {read_duration(wait.limit_s)}")
    if wait.behind and not _waits(zone, wait.behind):
        return _in_vain(zone, wait, look, "yet")
    return ""


def _look(zone: TpuZone, queued_id: str) -> _Look:
    """What there is to see; Google's own trouble is part of the picture, a refusal ends the wait."""
    try:
        queued = zone.get(queued_id)
        node = zone.node(queued_id) if queued is not None and queued.state is QueueState.ACTIVE else None
    except GoogleError as error:
        if is_transient(error):
            return _Look(trouble=error)
        raise GoogleError(
            f"{error} Nothing is lost: {queued_id} keeps its place in the queue (or goes on running), and the next "
            "`pulumi up` goes on waiting.",
            status=error.status,
            reason=error.reason,
        ) from None
    return _Look(queued, node)


def _waits(zone: TpuZone, queued_id: str) -> bool:
    try:
        look = _look(zone, queued_id)
    except GoogleError:
        return False  # whoever waits for that one will say so
    queued = look.queued
    if queued is None or is_expired(queued, zone.session.clock()):
        return False
    return queued.state.waits or queued.state is QueueState.PROVISIONING


def _over(zone: TpuZone, wait: Wait, queued: QueuedResource, state: str) -> str:
    why = f": {queued.error.rstrip('.')}" if queued.error else ""
    place = zone.hint(queued.refusal.kind) or "`gemma4 zones` shows where else to ask (tpu.zone)."
    return (
        f"The request {wait.queued_id} for {wait.accelerator_type} in {zone.zone} is {state}{why}. It serves "
        f"nothing and holds quota. Run `pulumi up` again: it removes this one and asks anew. {place}"
    )


def _in_vain(zone: TpuZone, wait: Wait, look: _Look, when: str) -> str:
    if look.queued is None and look.trouble is None:
        return f"{wait.queued_id} is not in the queue of {zone.zone}; run `pulumi up` again to ask for it anew."
    if look.queued is not None and look.queued.state is QueueState.ACTIVE:
        machine = (
            f"is {look.node.state}" if look.node and not look.node.ready else "has no address, or was deleted by hand"
        )
        return (
            f"{wait.queued_id} in {zone.zone} is ACTIVE, but its machine {machine}. Run "
            "`pulumi up` again; if that does not help, give the slice back: gcloud compute tpus queued-resources delete "
            f"{wait.queued_id} --zone {zone.zone} --force, then `pulumi up`."
        )
    return (
        f"No capacity for {wait.accelerator_type} in {zone.zone} {when} ({look.spoken}). "
        f"{wait.queued_id} keeps its place in the queue and serves by itself once it is granted: run `pulumi up` again "
        "to go on waiting, `gemma4 tpu status` to look, `gemma4 zones` for other zones (tpu.zone, and write out region, or "
        "the weights move along); `pulumi destroy` "
        "gives the place up."
    )
