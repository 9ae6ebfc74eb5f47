"""Asks Google for the status of a stack's TPU slices, by their names alone: a slice is found though the stack's state has
lost it."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from infra.google.session import GoogleSession
from infra.google.slice_records import is_expired, is_owned, request_end, run_end
from infra.google.supervisor_report import NAMESPACE, SERVING, age_s, hear
from infra.google.times import duration_s, moment
from infra.google.tpu_types import Provisioning, QueuedResource, QueueState
from infra.google.tpu_zone import TpuZone
from infra.ops.running.member_addresses import MemberAddresses
from infra.ops.running.supervised_machine import why_unrouted
from infra.ops.tpu.next_step import with_next_step
from infra.ops.tpu.request_owner import is_in_no_state
from infra.ops.tpu.slice_status import SliceStatus
from infra.planning.plan import Plan
from infra.planning.platforms.tpu.slices import SlicesPlan
from infra.planning.units import read_duration


def slice_statuses(
    session: GoogleSession,
    plan: Plan,
    slices: SlicesPlan,
    addresses: MemberAddresses | None = None,
    tickets: Set[str] | None = None,
) -> list[SliceStatus]:
    """Return the status of each planned slice, in the order of `tpu.slices`; of one that is being renewed both, the older one
    first. With `addresses` one that serves and that the gateway does not find does not count as serving, and with `tickets`,
    those in the stack's state, one that has another. Raises GoogleError."""
    zone = TpuZone(session, slices.zone)
    found: list[SliceStatus] = []
    for name in slices.names:
        there = filter(None, (zone.get(one) for one in slice_ids(plan, name)))
        in_order = sorted(there, key=lambda one: one.create_time)
        seen = [
            replace(_read_slice(zone, plan, slices, name, one), orphan=is_in_no_state(one, tickets, session.clock()))
            for one in in_order
        ]
        in_turns = _in_turns(seen or [_missing(plan, name)])
        found += [with_next_step(replace(one, unrouted=_unrouted(one, addresses)), plan) for one in in_turns]
    return found


def slice_ids(plan: Plan, name: str) -> tuple[str, ...]:
    """Return the ids that a slice of that name may have, one a turn."""
    return tuple(plan.names.member(host) for host in plan.deployment.hosts(name))


def _missing(plan: Plan, name: str) -> SliceStatus:
    return SliceStatus(name, plan.names.member(name), name)


def _unrouted(one: SliceStatus, addresses: MemberAddresses | None) -> str:
    if one.supervisor.stage != SERVING:
        return ""
    return why_unrouted(one.supervisor, one.host, one.address, (one.host,), addresses)


def _in_turns(seen: Sequence[SliceStatus]) -> list[SliceStatus]:
    """Return the slices of one name, the oldest first, each with what is before and after it."""
    living = (
        [one for one in seen if one.owned and not one.orphan and not QueueState(one.queue).over]
        if len(seen) > 1
        else []
    )
    if len(living) < 2:
        return [*seen]
    oldest, newest = living[0], living[-1]
    served = newest.supervisor.stage == SERVING
    changed = {oldest.id: replace(oldest, followed=served), newest.id: replace(newest, follows=oldest.host)}
    return [changed.get(one.id, one) for one in seen]


def _read_slice(zone: TpuZone, plan: Plan, slices: SlicesPlan, name: str, queued: QueuedResource) -> SliceStatus:
    """Return the status of one slice without what to do next: of its queued resource, and of its machine."""
    slice_id = queued.id
    now = zone.session.clock()
    request = request_end(queued, slices.valid_until_duration_s) if queued.state.waits else None
    seen = SliceStatus(
        name,
        slice_id,
        slice_id.removeprefix(plan.names.member("")),
        owned=is_owned(queued, {**plan.labels, "slice": name}),
        queue=queued.state.value,
        why=queued.error,
        waited_s=age_s(queued.create_time, now),
        expired=is_expired(queued, now, slices.valid_until_duration_s),
        expires_at="" if request is None else moment(request.at),
        expires_guessed=request is not None and request.guessed,
        granted=_granted(queued, slices),
    )
    node = zone.node(slice_id)
    if node is None:
        return seen
    report, _ = hear(lambda: zone.guest_attributes(slice_id, NAMESPACE), zone.session.clock)
    end = run_end(node, _run_s(queued, slices))
    return replace(
        seen,
        node=node.state,
        address=node.address,
        health=node.health,
        problem=node.problem,
        maintenance=node.maintenance,
        supervisor=report,
        age_s=age_s(node.create_time, now),
        left_s=None if end is None else max(0.0, end.at - now),
        ends_at="" if end is None else moment(end.at),
        ends_guessed=end is not None and end.guessed,
    )


def _run_s(queued: QueuedResource, slices: SlicesPlan) -> int | None:
    """Return the run duration that was granted, or the file's where Google's record leaves it out."""
    granted_s = duration_s(queued.max_run_duration)
    if granted_s is not None:
        return round(granted_s)
    return slices.max_run_duration_s if queued.provisioning is Provisioning.FLEX_START else None


def _granted(queued: QueuedResource, slices: SlicesPlan) -> str:
    """Return how the terms that were granted differ from the file, or an empty text."""
    was, run_s = queued.provisioning.value, _run_s(queued, slices)
    if (was, run_s) == (slices.provisioning, slices.max_run_duration_s):
        return ""
    return f"granted as {_terms(was, run_s)}, the file says {_terms(slices.provisioning, slices.max_run_duration_s)}"


def _terms(provisioning: str, run_s: int | None) -> str:
    return provisioning if run_s is None else f"{provisioning} for {read_duration(run_s)}"
