"""Finds the zones where a TPU could be asked for: they list the accelerator, take flex-start, and have quota left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from infra.catalog import Accelerator
from infra.errors import GoogleError
from infra.google.quota_limits import quota_limits
from infra.google.session import GoogleSession
from infra.google.tpu_chips import family_of, held_chips
from infra.google.tpu_zone import TpuZone, zones
from infra.planning.names import region_of
from infra.planning.platforms.tpu.slices import regional

SERVICE = "tpu.googleapis.com"


@dataclass(frozen=True)
class ZoneRow:
    """Quotas of a zone and of its region in chips, -1 without limit, and what this project's queued resources hold of
    them, ended ones included. None where one could not be read. `flex_start` is from the catalog: the API does not tell.
    """

    zone: str
    flex_start: bool
    limit: int | None
    held: int | None
    region_limit: int | None
    region_held: int | None

    def room(self, chips: int) -> bool | None:
        """Return True if the quotas leave room for one more slice of `chips`, None where that is unknown."""
        zone, region = _room(self.limit, self.held, chips), _room(self.region_limit, self.region_held, chips)
        if False in (zone, region):
            return False
        return zone if self.region_limit is None else zone and region


@dataclass(frozen=True)
class Survey:
    """`gaps` says in words what could not be read."""

    rows: tuple[ZoneRow, ...]
    gaps: tuple[str, ...]


def survey(session: GoogleSession, accelerator: Accelerator, *, quota: str, flex_only: bool) -> Survey:
    """Return a row for each zone that lists the accelerator. A zone or quota that cannot be read is a gap.

    Raises GoogleError where no zone can be asked: that is not the same as no room.
    """
    tpu = accelerator.tpu
    if tpu is None:
        raise ValueError(f"{accelerator.id} is not a TPU")
    google = _ZoneReader(session, on_demand=quota == tpu.quota_on_demand, family=family_of(tpu.accelerator_type))
    by_zone, by_region = google.limits(quota), google.limits(regional(quota))
    every = zones(session)
    wanted = [name for name in every if name in tpu.flex_start_zones or not flex_only]
    listing = [name for name in wanted if google.lists(name, tpu.accelerator_type)]
    if wanted and google.silent == len(wanted):
        raise GoogleError(f"No zone could be asked, so where there is capacity is unknown. {google.gaps[-1]}")
    regions = {region_of(name) for name in listing}
    held = {name: google.held(name) for name in every if region_of(name) in regions}
    rows = []
    for name in listing:
        region = region_of(name)
        each = [chips for zone, chips in held.items() if region_of(zone) == region]
        together = None if None in each else sum(chips for chips in each if chips is not None)
        flex_start = name in tpu.flex_start_zones
        rows.append(ZoneRow(name, flex_start, by_zone.get(name), held[name], by_region.get(region), together))
    return Survey(tuple(sorted(rows, key=lambda row: (not row.flex_start, row.zone))), tuple(google.gaps))


def _room(limit: int | None, held: int | None, chips: int) -> bool | None:
    if limit is None or limit < 0:
        return None if limit is None else True
    if held is None:
        return None if chips <= limit else False
    return held + chips <= limit


class _ZoneReader:
    """Reads zones and quotas, and keeps each failure as a gap. `silent` counts the zones that did not say what they offer."""

    def __init__(self, session: GoogleSession, *, on_demand: bool, family: str) -> None:
        self._session, self._on_demand, self._family = session, on_demand, family
        self.gaps: list[str] = []
        self.silent = 0

    def limits(self, quota: str) -> Mapping[str, int]:
        try:
            known = quota_limits(self._session, SERVICE, quota)
        except GoogleError as error:
            self.gaps.append(f"quota {quota}: {error}")
            return {}
        if known is None:
            self.gaps.append(f"quota {quota}: unknown to this project")
        return known or {}

    def lists(self, zone: str, accelerator_type: str) -> bool:
        try:
            return accelerator_type in TpuZone(self._session, zone).accelerator_types()
        except GoogleError as error:
            self.silent += 1
            self.gaps.append(f"{zone}: {error}")
            return False

    def held(self, zone: str) -> int | None:
        """Return the chips that count against the quota, None where the zone does not say."""
        try:
            chips = held_chips(self._session, zone, self._family, on_demand=self._on_demand)
        except GoogleError as error:
            self.gaps.append(f"{zone}: {error}")
            return None
        if chips is None:
            self.gaps.append(f"{zone}: did not answer")
        return chips
