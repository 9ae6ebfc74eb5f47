"""Whose a queued resource is, by its labels, and whether a stack's state still knows it, by its ticket.

Each request carries a ticket, which is in the state before the request is sent (infra/providers/tpu_queued_resource.py). So
what carries another one is known to no state: no `pulumi up` goes on with it or deletes it.
"""

from __future__ import annotations

from collections.abc import Set

from infra.google.slice_records import TICKET
from infra.google.supervisor_report import age_s
from infra.google.tpu_types import QueuedResource

_YOUNG_S = 300.0
"""What is younger may have been asked for by an `up` that runs, after the state was read."""


def is_of_program(queued: QueuedResource, stack: str | None = None) -> bool:
    """Return True if the labels say that this program made the queued resource for `stack`, or for any stack."""
    return queued.labels.get("app") == "gemma4" and stack in (None, queued.labels.get("stack"))


def is_in_no_state(queued: QueuedResource, tickets: Set[str] | None, now: float) -> bool:
    """Return True if none of `tickets`, those in the stack's state, is that of a queued resource which waits or serves.

    False where that cannot be told: `tickets` is None where the state could not be read, an old request may carry none, and one
    that has just been asked for may be newer than the state. `now`: seconds since 1970.
    """
    ticket, age = queued.labels.get(TICKET), age_s(queued.create_time, now)
    if tickets is None or not ticket or queued.state.over or age is None or age < _YOUNG_S:
        return False
    return ticket not in tickets
