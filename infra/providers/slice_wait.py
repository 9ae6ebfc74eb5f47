"""Waits for the machine of a queued resource."""

from __future__ import annotations

from dataclasses import dataclass

from infra.errors import GoogleError
from infra.google.api_errors import is_transient
from infra.google.slice_records import is_expired, request_end
from infra.google.tpu_types import Node, QueuedResource, QueueState
from infra.google.tpu_zone import TpuZone
from infra.planning.gateway.members import TURNS
from infra.planning.units import read_duration
from infra.providers.base import Progress
from infra.providers.capacity_wait import Look, wait_for_capacity

_LEAVES_S = 60.0  # a request that ends within this is as good as over when `up` stops waiting


@dataclass(frozen=True)
class NodeWait:
    """Which queued resource to wait for, and for how long. `behind` is empty where it must come; else the first slice, by
    name: the wait ends with that one's."""

    queued_id: str
    accelerator_type: str
    timeout_s: float
    behind: str


@dataclass(frozen=True)
class _Poll:
    """What Google answered: the queued resource, its machine, or a transient error."""

    queued: QueuedResource | None = None
    node: Node | None = None
    error: GoogleError | None = None

    @property
    def in_words(self) -> str:
        """The state of request and machine, for a line of progress."""
        if self.error:
            return f"no answer from Google: {self.error}"
        state = self.queued.state.value if self.queued else "not recorded yet"
        machine = f"is {self.node.state}" if self.node else "is not there yet"
        return f"{state}, its machine {machine}" if state == QueueState.ACTIVE else state


def wait_for_node(zone: TpuZone, wait: NodeWait, *, progress: Progress, warn: Progress) -> Node | None:
    """Return the machine once it has an address. None for a further slice without one: the first one must not wait for it.

    Raises GoogleError for the first slice when there is no capacity in time, or never will be.
    """

    def look(_waited_s: float, may_wait: bool) -> Look[Node]:
        try:
            poll = _read(zone, wait.queued_id)
            if poll.node is not None and poll.node.ready and poll.node.address:
                return Look(poll.node, poll.in_words)
            return Look(None, poll.in_words, _why_stop(zone, wait, poll, may_wait=may_wait))
        except GoogleError as error:
            return Look(None, "", str(error))

    seen = wait_for_capacity(zone.session, look, timeout_s=wait.timeout_s, progress=progress)
    if seen.trouble and not wait.behind:
        raise GoogleError(seen.trouble, reason="NO_SLICE")
    if seen.trouble:
        warn(f"{seen.trouble} Until then the gateway leaves this slice out.")
    return seen.machine


def _why_stop(zone: TpuZone, wait: NodeWait, poll: _Poll, *, may_wait: bool) -> str:
    """Return why waiting ends without a machine; empty while it goes on."""
    if poll.queued is not None and poll.queued.state.over:
        return _why_over(zone, wait, poll.queued, poll.queued.state.value)
    if poll.queued is not None and is_expired(poll.queued, zone.session.clock()):
        return _why_over(
            zone, wait, poll.queued, f"{poll.queued.state.value} still, though its time in the queue is over"
        )
    if not may_wait:
        return _why_no_machine(zone, wait, poll, f"within {read_duration(wait.timeout_s)}")
    if wait.behind and not _is_waiting(zone, wait.behind):
        return _why_no_machine(zone, wait, poll, "yet")
    return ""


def _read(zone: TpuZone, queued_id: str) -> _Poll:
    """Read request and machine. A transient error is part of the answer; any other raises GoogleError."""
    try:
        queued = zone.get(queued_id)
        node = zone.node(queued_id) if queued is not None and queued.state is QueueState.ACTIVE else None
    except GoogleError as error:
        if is_transient(error):
            return _Poll(error=error)
        raise GoogleError(
            f"{error} Nothing is lost: {queued_id} keeps its place in the queue (or goes on running), and the next "
            "`pulumi up` goes on waiting.",
            status=error.status,
            reason=error.reason,
        ) from None
    return _Poll(queued, node)


def _is_waiting(zone: TpuZone, queued_id: str) -> bool:
    """Return whether the slice of that name waits, and no machine of it serves meanwhile."""
    try:
        polls = [_read(zone, f"{queued_id}-{turn}") for turn in TURNS]
    except GoogleError:
        return False  # the wait for that slice reports it
    there = [poll.queued for poll in polls if poll.queued is not None]
    if any(one.state is QueueState.ACTIVE for one in there):
        return False
    now = zone.session.clock()
    waits = [one for one in there if one.state.waits or one.state is QueueState.PROVISIONING]
    return any(not is_expired(one, now) for one in waits)


def _why_over(zone: TpuZone, wait: NodeWait, queued: QueuedResource, state: str) -> str:
    why = f": {queued.error.rstrip('.')}" if queued.error else ""
    place = zone.hint(queued.refusal.kind) or "`gemma4 zones` shows other zones (setting tpu.zone)."
    return (
        f"The request {wait.queued_id} for {wait.accelerator_type} in {zone.zone} is {state}{why}. It serves "
        f"nothing and holds quota. Run `pulumi up` again: it removes this request and makes a new one. {place}"
    )


def _why_no_machine(zone: TpuZone, wait: NodeWait, poll: _Poll, when: str) -> str:
    if poll.queued is None and poll.error is None:
        return f"{wait.queued_id} is not in the queue of {zone.zone}; run `pulumi up` again to ask for it again."
    if poll.queued is not None and poll.queued.state is QueueState.ACTIVE:
        machine = (
            f"is {poll.node.state}" if poll.node and not poll.node.ready else "has no address, or was deleted by hand"
        )
        return (
            f"{wait.queued_id} in {zone.zone} is ACTIVE, but its machine {machine}. Run "
            "`pulumi up` again; if that does not help, give the slice back: gcloud compute tpus queued-resources delete "
            f"{wait.queued_id} --zone {zone.zone} --force, then `pulumi up`."
        )
    end = request_end(poll.queued, None) if poll.queued else None
    stays = end is None or end.at > zone.session.clock() + _LEAVES_S
    then = (
        "keeps its place in the queue and serves by itself once it is granted: run `pulumi up` again to go on waiting"
        if stays
        else "leaves the queue now: run `pulumi up` again to ask anew (with tpu.validUntilDuration it stays for longer)"
    )
    return (
        f"No capacity for {wait.accelerator_type} in {zone.zone} {when} ({poll.in_words}). {wait.queued_id} {then}, "
        "`gemma4 tpu status` to look, `gemma4 zones` for other zones (tpu.zone, and write out region, or the weights move "
        "along); `pulumi destroy` gives the place up."
    )
