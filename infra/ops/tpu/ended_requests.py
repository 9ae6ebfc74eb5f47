"""Queued resources that have ended, as FAILED or SUSPENDED: they serve nothing, and hold quota until they are deleted."""

from __future__ import annotations

from dataclasses import dataclass

from infra.google.session import GoogleSession
from infra.google.tpu_types import QueuedResource
from infra.google.tpu_zone import TpuZone, zones
from infra.ops.tpu.queue_listing import list_queued_resources

_DELETE_S, _POLL_S = 300.0, 0.5


@dataclass(frozen=True)
class EndedRequests:
    """`gaps` names the zones that could not be asked."""

    found: tuple[QueuedResource, ...]
    gaps: tuple[str, ...]


def find_ended_requests(session: GoogleSession) -> EndedRequests:
    """Return every ended request of the project, owned or foreign. Raises GoogleError where no zone can be asked."""
    found, gaps = list_queued_resources(session, lambda: zones(session))
    return EndedRequests(tuple(one for one in found if one.state.ended), gaps)


def delete_ended_request(session: GoogleSession, ended: QueuedResource) -> None:
    """Delete an ended request and wait until it is gone. One that is no longer ended, or was made anew, stays.

    Raises GoogleError.
    """
    zone = TpuZone(session, ended.zone)
    now = zone.get(ended.id)
    if now is not None and now.create_time == ended.create_time and now.state.ended:
        zone.delete_until_gone(ended.id, timeout_s=_DELETE_S, poll_s=_POLL_S, created=ended.create_time)
