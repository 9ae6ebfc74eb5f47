"""How early the machine after one that Google ends must be asked for."""

from __future__ import annotations

from dataclasses import dataclass

MARGIN_S = 3600.0
"""For a renewal that begins late, or whose first request is not granted: two rounds of a schedule of half an hour."""


@dataclass(frozen=True)
class RenewalLead:
    """Seconds before the end of a machine at which the next one of its name must be asked for."""

    queue_s: float
    """The longest that its request stands in the queue."""
    start_s: float
    """The longest that a start is predicted to take."""
    margin_s: float = MARGIN_S

    @property
    def step_s(self) -> float:
        """What one renewal takes at most, from the request until the next machine serves."""
        return self.queue_s + self.start_s

    def before_end_s(self, place: int = 0) -> float:
        """Return how long before its end a machine must be renewed if `place` others, which end earlier, are renewed first,
        one after the other."""
        return (place + 1) * self.step_s + self.margin_s
