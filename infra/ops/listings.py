"""Queued resources of many zones: a zone that cannot be asked is a gap, so that nobody takes its silence for none."""

from __future__ import annotations

from collections.abc import Iterable

from infra.errors import GoogleError
from infra.google.session import GoogleSession
from infra.google.tpu import TpuZone
from infra.google.tpu_types import QueuedResource


def queued_in(session: GoogleSession, zones: Iterable[str]) -> tuple[tuple[QueuedResource, ...], tuple[str, ...]]:
    """What stands in the queues of `zones`, and what could not be asked, each thing once and in words."""
    found: list[QueuedResource] = []
    gaps: list[str] = []
    for name in zones:
        try:
            listing = TpuZone(session, name).list()
        except GoogleError as error:
            gaps.append(f"{name}: {error}")
            continue
        found += listing.found
        gaps += [f"{place}: did not answer" for place in listing.unreachable]
    return tuple(found), tuple(dict.fromkeys(gaps))
