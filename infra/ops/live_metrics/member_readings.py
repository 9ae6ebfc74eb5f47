"""One server's readings, one after another: what changed between two, and which process answered.

Behind one address several instances may answer in turn. Each process says when it began, so a reading is compared with the
last one of the same process.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from infra.errors import Gemma4Error
from infra.ops.endpoint.endpoint import Endpoint, Member
from infra.serving.client import ServingClient, ServingTimeouts
from infra.serving.load import Span, requests_waiting
from infra.serving.metrics import Metrics

TIMEOUTS = ServingTimeouts(connect_s=5.0, question_s=15.0)
"""A table that is drawn every few seconds cannot wait for a server that says nothing."""
_KEPT = 50
"""Processes whose last reading is kept; Cloud Run replaces instances for ever."""


@dataclass(frozen=True)
class Reading:
    """A reading of a server, or why there is none."""

    name: str
    error: str = ""
    now: Metrics | None = None
    since_start: Span | None = None
    since_before: Span | None = None
    """From the last reading of the same process; over no time where there is none."""
    running_for_s: float | None = None
    restarted: bool = False
    processes: int = 1
    """How many processes have answered so far, restarts not counted."""
    waiting_for_s: float = 0.0
    """For how long each reading has found requests in line."""


class MemberReadings:
    """Reads one server of an endpoint again and again. `clock` counts seconds; `wall` is the time since 1970."""

    def __init__(
        self,
        member: Member,
        client: ServingClient,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.name = member.name
        self._client, self._clock, self._wall = client, clock, wall
        self._last: OrderedDict[float | None, _Kept] = OrderedDict()
        """By the start of the process; the newest is the last."""
        self._others = 0
        self._waiting_since: float | None = None

    @classmethod
    def of(cls, endpoint: Endpoint, **clocks: Callable[[], float]) -> list[MemberReadings]:
        """Return the readings of every server of an endpoint, each through a client of its own."""
        return [cls(member, endpoint.client(member, timeouts=TIMEOUTS), **clocks) for member in endpoint.members]

    def read(self) -> Reading:
        """Return the next reading; a server that does not answer is a reading that says so."""
        try:
            now = self._client.metrics()
        except Gemma4Error as error:
            self._waiting_since = None
            return Reading(self.name, str(error))
        at, process = self._clock(), now.started_at()
        before_at, before, restarted = self._before(now, at)
        self._last[process] = _Kept(at, self._wall(), now)
        self._last.move_to_end(process)
        while len(self._last) > _KEPT:
            self._last.popitem(last=False)
        if not requests_waiting(now):
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = at
        return Reading(
            self.name,
            now=now,
            since_start=Span.since_start(now, before=before, rate_s=at - before_at),
            since_before=Span.between(before, now, rate_s=at - before_at),
            running_for_s=None if process is None else max(0.0, self._wall() - process),
            restarted=restarted,
            processes=1 + self._others,
            waiting_for_s=0.0 if self._waiting_since is None else at - self._waiting_since,
        )

    def _before(self, now: Metrics, at: float) -> tuple[float, Metrics, bool]:
        """Return the reading to compare with, the newest one itself where there is none, and whether the server restarted
        in between."""
        process = now.started_at()
        if kept := self._last.get(process):
            return kept.at, kept.reading, now.restarted_since(kept.reading)
        if not self._last:
            return at, now, False
        newest = next(reversed(self._last.values()))
        if process is not None and process > newest.moment:
            return newest.at, newest.reading, True
        self._others += 1  # it has run all along, beside the one that answered before
        return at, now, False


def nobody_answers(endpoint: Endpoint, errors: Mapping[str, str]) -> Gemma4Error:
    """Return the error for an endpoint of which no server answers; `errors` are by the names of the servers."""
    said = "; ".join(dict.fromkeys(f"{name} {error}".strip().rstrip(".") for name, error in errors.items()))
    fix = (
        f"see what runs with: gemma4 status {endpoint.words}" if endpoint.planned else "start it, or name another --url"
    )
    return Gemma4Error(f"{said}; {fix}.")


@dataclass(frozen=True)
class _Kept:
    """The last reading of a process: on the clock, since 1970, and what it said."""

    at: float
    moment: float
    reading: Metrics
