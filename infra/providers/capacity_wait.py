"""The wait for a machine, of whichever product: for a limited time, with progress, and in short pauses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from infra.google.session import GoogleSession
from infra.planning.units import read_duration
from infra.providers.base import Progress

ACTIVE, WAITING = "ACTIVE", "WAITING"
"""States of a machine as Pulumi keeps them: it runs, or there is none yet."""
_FIRST_POLL_S, _POLL_S = 1.0, 5.0
Machine = TypeVar("Machine")


@dataclass(frozen=True)
class Look(Generic[Machine]):
    """What Google answered once: the machine as soon as it runs, and the state in words, for a line of progress.

    `trouble` is why waiting ends without a machine, blank while it goes on.
    """

    machine: Machine | None
    in_words: str
    trouble: str = ""


def wait_for_capacity(
    session: GoogleSession,
    look: Callable[[float, bool], Look[Machine]],
    *,
    timeout_s: float,
    progress: Progress,
) -> Look[Machine]:
    """Return the first look with a machine or a trouble.

    `look` gets the seconds waited, and whether another pause fits; where none does it must return one of both.
    """
    began, poll_s = session.clock(), _FIRST_POLL_S
    while True:
        waited_s = session.clock() - began
        seen = look(waited_s, waited_s + poll_s <= timeout_s)
        if seen.machine is not None or seen.trouble:
            return seen
        progress(f"{seen.in_words}; waiting for {read_duration(waited_s)} of at most {read_duration(timeout_s)}")
        session.sleep(poll_s)
        poll_s = min(2 * poll_s, _POLL_S)
