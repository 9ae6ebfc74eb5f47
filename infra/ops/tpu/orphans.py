"""Queued resources of a stack that its file no longer speaks of: nobody looks at them, and they are paid for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from infra.errors import GoogleError
from infra.google.session import GoogleSession
from infra.google.tpu_types import QueuedResource, QueueState
from infra.ops.tpu.ended_requests import is_of_gemma4
from infra.ops.tpu.zone_listings import queued_everywhere
from infra.planning.plan import Plan
from infra.planning.platforms.tpu.slices import SlicesPlan


@dataclass(frozen=True)
class Stray:
    """`why` it should be looked at, and what to do `next`."""

    id: str
    zone: str
    queue: str
    why: str
    next: str


@dataclass(frozen=True)
class Strays:
    """`gaps` names the zones that could not be asked, so that nobody takes silence for none."""

    found: tuple[Stray, ...]
    gaps: tuple[str, ...]


def find_strays(session: GoogleSession, plan: Plan, slices: SlicesPlan, zones: Iterable[str]) -> Strays:
    """What carries the stack's labels in any zone and is none of the planned slices.

    `zones` are asked beside the stack's own where Google does not list all at once.
    """
    try:
        found, gaps = queued_everywhere(session, lambda: dict.fromkeys((slices.zone, *zones)))
    except GoogleError as error:
        return Strays((), (f"all zones: {error}",))
    planned = {plan.names.slice(name) for name in slices.names}
    ours = [one for one in found if is_of_gemma4(one, plan.stack)]
    strays = [one for one in ours if one.zone != slices.zone or one.id not in planned]
    return Strays(tuple(_stray(one, session, slices) for one in strays), gaps)


def _stray(one: QueuedResource, session: GoogleSession, slices: SlicesPlan) -> Stray:
    away = one.zone != slices.zone
    why = f"{_cost(one.state)}, and {'in another zone than tpu.zone' if away else 'not in tpu.slices'}"
    delete = (
        f"gcloud compute tpus queued-resources delete {one.id} --zone {one.zone} --project {session.project} --force"
    )
    keep = f"set tpu.zone: {one.zone}" if away else "name it in tpu.slices"
    give_back = f"to give it back: pulumi up, or where its state has lost it: {delete}"
    then = f"{keep} to keep it; {give_back}"
    if one.state.over:
        then = give_back if one.state.ended else "nothing: it is going"
    return Stray(one.id, one.zone, one.state.value, why, then)


def _cost(state: QueueState) -> str:
    if state.over:
        return "holds quota"
    return "paid once it is granted" if state.waits else "paid"
