"""Where TPU capacity could be asked for: which zones list an accelerator, take flex-start, and have quota left."""

from __future__ import annotations

from dataclasses import dataclass

from infra.catalog import Accelerator
from infra.errors import GoogleError
from infra.google.quota import limits
from infra.google.session import GoogleSession
from infra.google.tpu import TpuZone, zones
from infra.google.tpu_types import QueuedResource

SERVICE = "tpu.googleapis.com"


@dataclass(frozen=True)
class ZoneRow:
    """`limit` is the quota in chips, -1 without limit, None where it could not be read; `held` what this project's
    queued resources hold of it, ended ones included. `flex_start` is knowledge of this program: the API does not tell.
    """

    zone: str
    flex_start: bool
    limit: int | None
    held: int

    def room(self, chips: int) -> bool | None:
        """Whether the quota leaves room for one more slice; None where that is unknown."""
        if self.limit is None:
            return None
        return self.limit < 0 or self.held + chips <= self.limit


@dataclass(frozen=True)
class Survey:
    """Rows, and what could not be asked, in words."""

    rows: tuple[ZoneRow, ...]
    gaps: tuple[str, ...]


def survey(session: GoogleSession, accelerator: Accelerator, *, flex_only: bool) -> Survey:
    """Ask every zone of the project. A zone or quota that cannot be read is a gap, never an error."""
    tpu = accelerator.tpu
    if tpu is None:
        raise ValueError(f"{accelerator.id} is not a TPU")
    gaps: list[str] = []
    try:
        quota = dict(limits(session, SERVICE, tpu.quota))
    except GoogleError as error:
        quota = {}
        gaps.append(f"quota unknown: {error}")
    rows = []
    for name in zones(session):
        if flex_only and name not in tpu.flex_start_zones:
            continue
        try:
            zone = TpuZone(session, name)
            if tpu.accelerator_type not in zone.accelerator_types():
                continue
            held = sum(chips_of(one) for one in zone.list().found)
        except GoogleError as error:
            gaps.append(f"{name}: {error}")
            continue
        rows.append(ZoneRow(name, name in tpu.flex_start_zones, quota.get(name), held))
    return Survey(tuple(sorted(rows, key=lambda row: (not row.flex_start, row.zone))), tuple(gaps))


def chips_of(queued: QueuedResource) -> int:
    """Chips that a queued resource asks for, from the end of its accelerator type (v6e-4); 0 where it says none."""
    number = queued.accelerator_type.rsplit("-", 1)[-1]
    return int(number) if number.isdigit() else 0
