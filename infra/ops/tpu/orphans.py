"""Orphans: queued resources with a stack's labels that its file no longer names, or that its state does not know. They are paid
for, and no `up` sees them."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from infra.catalog import catalog
from infra.errors import CatalogError, GoogleError
from infra.google.session import GoogleSession
from infra.google.slice_records import delete_command
from infra.google.tpu_chips import chips_of, family_of
from infra.google.tpu_types import QueuedResource
from infra.ops.tpu.queue_listing import list_queued_resources
from infra.ops.tpu.read_slices import slice_ids
from infra.ops.tpu.request_owner import is_in_no_state, is_of_program
from infra.planning.cost.price_lines import price_line
from infra.planning.names import region_of
from infra.planning.plan import Plan
from infra.planning.platforms.tpu.slices import SlicesPlan


@dataclass(frozen=True)
class Orphan:
    """`why` it should be looked at, and what to do `next`."""

    id: str
    zone: str
    queue: str
    why: str
    usd_per_hour: float | None
    """At list price once it is granted; None where that is not known."""
    next: str


@dataclass(frozen=True)
class Orphans:
    """`gaps` names the zones that could not be asked."""

    found: tuple[Orphan, ...]
    gaps: tuple[str, ...]


def find_orphans(
    session: GoogleSession, plan: Plan, slices: SlicesPlan, zones: Iterable[str], tickets: Set[str] | None = None
) -> Orphans:
    """Return the queued resources of all zones that carry the stack's labels and are not planned, or not in its state, whose
    `tickets` these are: None where it was not read.

    `zones` are asked beside the stack's own where Google does not list all at once.
    """
    try:
        found, gaps = list_queued_resources(session, lambda: dict.fromkeys((slices.zone, *zones)))
    except GoogleError as error:
        return Orphans((), (f"all zones: {error}",))
    planned = {one for name in slices.names for one in slice_ids(plan, name)}
    owned = [one for one in found if is_of_program(one, plan.stack)]
    orphans = []
    for one in owned:
        is_planned = one.id in planned and one.zone == slices.zone
        lost = is_in_no_state(one, tickets, session.clock())
        if lost or not is_planned:
            orphans.append(_orphan(one, slices, session.project, lost=is_planned))
    return Orphans(tuple(orphans), gaps)


def _orphan(one: QueuedResource, slices: SlicesPlan, project: str, *, lost: bool) -> Orphan:
    """Return why it is one and what to do; `lost`: the file plans it, and no state knows it."""
    away, delete = one.zone != slices.zone, delete_command(one, project)
    paid = "holds quota" if one.state.over else "paid once it is granted" if one.state.waits else "paid"
    why = "in another zone than tpu.zone" if away else "in no state" if lost else "not in tpu.slices"
    keep = f"set tpu.zone: {one.zone}" if away else "name it in tpu.slices"
    give_back = f"to give it back: pulumi up, or where its state has lost it: {delete}"
    then = f"{keep} to keep it; {give_back}"
    if one.state.over:
        then = give_back if one.state.ended else "nothing: it is being deleted"
    if lost:
        then = f"no pulumi up goes on with it or deletes it; this does, and ends what it answers: {delete}"
    return Orphan(one.id, one.zone, one.state.value, f"{paid}, and {why}", _usd_per_hour(one), then)


def _usd_per_hour(one: QueuedResource) -> float | None:
    sku = f"{family_of(one.accelerator_type)}-{one.provisioning.value}"
    try:
        return price_line(catalog(), "chips", chips_of(one), sku, region_of(one.zone)).usd
    except CatalogError:
        return None
