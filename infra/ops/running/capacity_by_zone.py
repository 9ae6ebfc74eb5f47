"""What Google advises about a machine type in each of several zones; what it does not answer is a gap, said once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from infra.errors import GoogleError
from infra.google.capacity_advice import CapacityAdvice, SpotHistory, capacity_advice, spot_history
from infra.google.session import GoogleSession

_SPOT = "SPOT"
_NO_ANSWER = CapacityAdvice(None, None)
_NO_HISTORY = SpotHistory(None, "", None)
_NOBODY = (401, 403)


@dataclass(frozen=True)
class ZoneAdvice:
    """`model` is the one that Google answered for, which may be another one than was asked for."""

    zone: str
    machine_type: str
    model: str
    capacity: CapacityAdvice
    history: SpotHistory


def advice_by_zone(
    session: GoogleSession, machine_type: str, zones: Iterable[str], model: str
) -> tuple[list[ZoneAdvice], list[str]]:
    """Return the advice by zone, the likeliest first, and the gaps in words. Where Google gives none for `model`, it is asked
    about spot: that tells of stock as well. `zones` of which nothing is known are left out."""
    asked = _Asking(session, machine_type, model)
    answers = [(zone, asked.capacity(zone), asked.history(zone)) for zone in zones]
    rows = [ZoneAdvice(zone, machine_type, asked.model, capacity, history) for zone, capacity, history in answers]
    known = [one for one in rows if one.capacity != _NO_ANSWER or one.history != _NO_HISTORY]
    return sorted(known, key=lambda one: (-(one.capacity.obtainability or 0.0), one.zone)), asked.gaps


class _Asking:
    """Asks zone by zone, and no more once it is plain that nobody answers."""

    def __init__(self, session: GoogleSession, machine_type: str, model: str) -> None:
        self._session, self._type = session, machine_type
        self.model = model
        self.gaps: list[str] = []
        self._silent: set[str] = set()

    def capacity(self, zone: str) -> CapacityAdvice:
        if "advice" in self._silent:
            return _NO_ANSWER
        try:
            return capacity_advice(self._session, zone, self._type, self.model)
        except GoogleError as error:
            if error.status == 400 and self.model != _SPOT:
                self.gaps.append(f"advice for {self.model} on {self._type}: {error} Asked about {_SPOT} instead.")
                self.model = _SPOT
                return self.capacity(zone)
            self._note("advice", zone, error)
            return _NO_ANSWER

    def history(self, zone: str) -> SpotHistory:
        if "history" in self._silent:
            return _NO_HISTORY
        try:
            return spot_history(self._session, zone, self._type)
        except GoogleError as error:
            self._note("history", zone, error)
            return _NO_HISTORY

    def _note(self, what: str, zone: str, error: GoogleError) -> None:
        """Note a gap; one that every zone would give ends the questions."""
        self.gaps.append(f"{'spot prices' if what == 'history' else 'advice'} in {zone}: {error}")
        if error.status in (*_NOBODY, 404) or not error.status:
            self._silent.add(what)
