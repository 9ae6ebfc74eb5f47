"""Queued resources of a stack that its file no longer speaks of: nobody looks at them, and they are paid for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from infra.errors import GoogleError
from infra.google.session import GoogleSession
from infra.google.tpu import TpuZone
from infra.google.tpu_types import QueuedResource, QueueState
from infra.ops.husks import is_of_gemma4
from infra.planning.plan import Plan
from infra.planning.slices import SlicesPlan


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
    """What carries the stack's labels in its own zone or in `zones` and is none of the planned slices."""
    found: list[Stray] = []
    gaps: list[str] = []
    planned = {plan.names.slice(name) for name in slices.names}
    for name in dict.fromkeys((slices.zone, *zones)):
        try:
            listing = TpuZone(session, name).list()
        except GoogleError as error:
            gaps.append(f"{name}: {error}")
            continue
        gaps += [f"{place}: did not answer" for place in listing.unreachable]
        ours = [one for one in listing.found if is_of_gemma4(one, plan.stack)]
        found += [_stray(one, session, slices) for one in ours if name != slices.zone or one.id not in planned]
    return Strays(tuple(found), tuple(dict.fromkeys(gaps)))


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
