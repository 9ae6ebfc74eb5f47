"""Orphans: queued resources with a stack's labels that its file no longer names. They are paid for, and no `up` sees them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from infra.errors import GoogleError
from infra.google.session import GoogleSession
from infra.ops.tpu.ended_requests import is_owned
from infra.ops.tpu.queue_listing import list_queued_resources
from infra.ops.tpu.read_slices import slice_ids
from infra.planning.plan import Plan
from infra.planning.platforms.tpu.slices import SlicesPlan


@dataclass(frozen=True)
class Orphan:
    """`why` it should be looked at, and what to do `next`."""

    id: str
    zone: str
    queue: str
    why: str
    next: str


@dataclass(frozen=True)
class Orphans:
    """`gaps` names the zones that could not be asked."""

    found: tuple[Orphan, ...]
    gaps: tuple[str, ...]


def find_orphans(session: GoogleSession, plan: Plan, slices: SlicesPlan, zones: Iterable[str]) -> Orphans:
    """Return the queued resources of all zones that carry the stack's labels and are not planned.

    `zones` are asked beside the stack's own where Google does not list all at once.
    """
    try:
        found, gaps = list_queued_resources(session, lambda: dict.fromkeys((slices.zone, *zones)))
    except GoogleError as error:
        return Orphans((), (f"all zones: {error}",))
    planned = {one for name in slices.names for one in slice_ids(plan, name)}
    owned = [one for one in found if is_owned(one, plan.stack)]
    orphans = []
    for one in owned:
        away = one.zone != slices.zone
        if one.id in planned and not away:
            continue
        paid = "holds quota" if one.state.over else "paid once it is granted" if one.state.waits else "paid"
        why = f"{paid}, and {'in another zone than tpu.zone' if away else 'not in tpu.slices'}"
        place = f"--zone {one.zone} --project {session.project}"
        delete = f"gcloud compute tpus queued-resources delete {one.id} {place} --force"
        keep = f"set tpu.zone: {one.zone}" if away else "name it in tpu.slices"
        give_back = f"to give it back: pulumi up, or where its state has lost it: {delete}"
        then = f"{keep} to keep it; {give_back}"
        if one.state.over:
            then = give_back if one.state.ended else "nothing: it is being deleted"
        orphans.append(Orphan(one.id, one.zone, one.state.value, why, then))
    return Orphans(tuple(orphans), gaps)
