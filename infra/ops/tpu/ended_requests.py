"""Ended queued resources: they serve nothing, and hold quota until somebody deletes them."""

from __future__ import annotations

from dataclasses import dataclass

from infra.google.session import GoogleSession
from infra.google.tpu import TpuZone, zones
from infra.google.tpu_types import QueuedResource
from infra.ops.tpu.zone_listings import queued_everywhere

OURS = ("app", "gemma4")
_DELETE_S, _POLL_S = 300.0, 0.5


@dataclass(frozen=True)
class Husks:
    """`gaps` names the zones that could not be asked, so that nobody takes silence for none."""

    found: tuple[QueuedResource, ...]
    gaps: tuple[str, ...]


def find_husks(session: GoogleSession) -> Husks:
    """Every FAILED or SUSPENDED queued resource of the project, ours or not. Raises GoogleError where none can be asked."""
    found, gaps = queued_everywhere(session, lambda: zones(session))
    return Husks(tuple(one for one in found if one.state.ended), gaps)


def is_of_gemma4(queued: QueuedResource, stack: str | None = None) -> bool:
    """Whether a stack of this program made it: `stack`, or without it any."""
    key, value = OURS
    return queued.labels.get(key) == value and stack in (None, queued.labels.get("stack"))


def remove(session: GoogleSession, husk: QueuedResource) -> None:
    """Delete one and see it gone; GoogleError otherwise. One that has come back to life meanwhile is left alone."""
    zone = TpuZone(session, husk.zone)
    now = zone.get(husk.id)
    if now is not None and now.create_time == husk.create_time and now.state.ended:
        zone.delete_until_gone(husk.id, timeout_s=_DELETE_S, poll_s=_POLL_S, created=husk.create_time)
