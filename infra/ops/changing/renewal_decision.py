"""Decides from the ends of a stack's machines whether one must be renewed now. Asks nobody and changes nothing.

Machines are renewed one after the other, each while the others serve: so the first must begin early enough for all that end
soon after it. Only where that is too late already are several renewed at once, which needs more quota and costs more.

One that has ended, or waits for its first capacity, may do so for days: the others are renewed meanwhile, by the same
`pulumi up` that goes on asking for it. Only a renewal that is under way is finished before another begins.

One that no state knows is left out of account: no `pulumi up` goes on with it, and its name has to be served without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from infra.ops.running.machine_term import MachineTerm
from infra.planning.platforms.renewal import RenewalLead

Action = Literal["nothing", "renew", "go on", "ask again"]


@dataclass(frozen=True)
class RenewalDecision:
    """What to do now. `names` are those of the machines that it is about."""

    action: Action
    """renew: replace them; go on: a renewal or a request is under way; ask again: they have ended; each but the first is left
    to `pulumi up`."""
    names: tuple[str, ...] = ()
    due_at: float | None = None
    """When the next renewal must begin, in seconds since 1970; None where nothing that runs has an end."""


def decide(
    terms: Sequence[MachineTerm],
    lead: RenewalLead,
    now: float,
    *,
    before_s: float | None = None,
    unfinished: Sequence[str] = (),
) -> RenewalDecision:
    """Return what to do `now`, in seconds since 1970. `before_s` stands in for the plan's own time before an end; `unfinished`
    are names of which the state still holds a machine that was to be deleted."""
    names = list(dict.fromkeys(one.name for one in terms))
    living = {name: [one for one in terms if one.name == name and _lives(one)] for name in names}
    ends = sorted((one.ends_at, name) for name in names for one in living[name][-1:] if one.ends_at is not None)
    due = [at - (before_s if before_s is not None else lead.before_end_s(place)) for place, (at, _) in enumerate(ends)]
    due_at = min(due, default=None)
    replaced = [name for name in names if name in unfinished or len(living[name]) > 1]
    if due_at is not None and now >= due_at and not replaced:
        late = [name for at, name in ends[1:] if at - now < 2 * lead.step_s]
        return RenewalDecision("renew", (ends[0][1], *late), due_at)
    if lost := tuple(name for name in names if not living[name]):
        return RenewalDecision("ask again", lost, due_at)
    waiting = [name for name in names if any(one.phase == "waits" for one in living[name])]
    if under_way := tuple(name for name in names if name in (*replaced, *waiting)):
        return RenewalDecision("go on", under_way, due_at)
    return RenewalDecision("nothing", (), due_at)


def _lives(one: MachineTerm) -> bool:
    return not one.orphan and one.phase not in ("over", "missing")
