"""How many chips queued resources hold of a quota, ended ones included: they hold it until they are deleted."""

from __future__ import annotations

from collections.abc import Collection

from infra.google.session import GoogleSession
from infra.google.tpu_types import Provisioning, QueuedResource
from infra.google.tpu_zone import TpuZone


def chips_of(queued: QueuedResource) -> int:
    """Return the chips that a queued resource asks for, from the end of its accelerator type (v6e-4); 0 without one."""
    number = queued.accelerator_type.rsplit("-", 1)[-1]
    return int(number) if number.isdigit() else 0


def family_of(accelerator_type: str) -> str:
    """Return the generation that quotas count together: v6e of v6e-4."""
    return accelerator_type.rpartition("-")[0]


def held_chips(
    session: GoogleSession, zone: str, family: str, *, on_demand: bool, without: Collection[str] = ()
) -> int | None:
    """Return the chips in a zone that count against the quota of a family, but for queued resources named in `without`.

    None where the zone did not answer in the listing. Raises GoogleError where it cannot be asked.
    """
    listing = TpuZone(session, zone).list()
    if any(place.endswith(zone) for place in listing.unreachable):
        return None
    return sum(
        chips_of(one)
        for one in listing.found
        if (one.provisioning is Provisioning.ON_DEMAND) == on_demand
        and family_of(one.accelerator_type) == family
        and one.id not in without
    )
