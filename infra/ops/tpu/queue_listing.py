"""Lists the queued resources of all zones. A zone that cannot be asked is reported as a gap: silence is not "none"."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from infra.errors import GoogleError
from infra.google.session import GoogleSession
from infra.google.tpu_types import QueuedResource
from infra.google.tpu_zone import TpuZone

EVERYWHERE = "-"
"""What Google's listings take for all zones at once (`gcloud … queued-resources list --zone=-`)."""


def list_queued_resources(
    session: GoogleSession, zones: Callable[[], Iterable[str]]
) -> tuple[tuple[QueuedResource, ...], tuple[str, ...]]:
    """Return the queued resources of all zones, and the gaps in words. One request asks for all; where Google does not
    take it, each of `zones` is asked.

    Raises GoogleError where nothing can be asked.
    """
    try:
        return _read(TpuZone(session, EVERYWHERE))
    except GoogleError as error:
        if error.status not in (400, 404):  # the answers of a service that takes no wildcard
            raise
    found: list[QueuedResource] = []
    gaps: list[str] = []
    for name in zones():
        try:
            there, silent = _read(TpuZone(session, name))
        except GoogleError as error:
            gaps.append(f"{name}: {error}")
            continue
        found += there
        gaps += silent
    return tuple(found), tuple(dict.fromkeys(gaps))


def _read(zone: TpuZone) -> tuple[tuple[QueuedResource, ...], tuple[str, ...]]:
    listing = zone.list()
    return listing.found, tuple(f"{place.rsplit('/', 1)[-1]}: did not answer" for place in listing.unreachable)
