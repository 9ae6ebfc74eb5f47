"""`gemma4 zones`: where a machine can be had. One question for TPUs and GPUs: quotas where they count by zone, and Google's
advice where it gives any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from rich.console import RenderableType

from infra.catalog import Accelerator, catalog
from infra.errors import GoogleError, SettingsError
from infra.google.capacity_advice import MODELS, zones_with
from infra.google.session import GoogleSession
from infra.google.times import moment, read_moment, timestamp_s
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.slice_answers import ZoneAdviceRow, ZoneRoomRow, Zones
from infra.ops.google_access import google_session
from infra.ops.plan_inputs import plan_stack
from infra.ops.running.capacity_by_zone import ZoneAdvice, advice_by_zone
from infra.ops.terminal.progress import waiting
from infra.ops.tpu.zone_survey import Survey, survey
from infra.planning.platforms.compute_engine.machines import MachinesPlan
from infra.planning.platforms.tpu.slices import SlicesPlan, plan_slices
from infra.planning.report.tables import Column, FittedTable
from infra.planning.report.terminal import show
from infra.planning.settings.stackfile import StackFile
from infra.planning.units import read_duration, read_usd


@dataclass(frozen=True)
class _Wanted:
    """The machine that a user asks about, and how it is bought. `quota` is blank of a GPU.

    `shapes` are its machine types in the order of preference, `zones` those where it is known to be.
    """

    file: StackFile | None
    accelerator: Accelerator
    shapes: tuple[str, ...]
    zones: tuple[str, ...]
    provisioning: str
    quota: str


@dataclass(frozen=True)
class _Found:
    rooms: Survey
    advice: Sequence[ZoneAdvice]
    gaps: Sequence[str]


def show_zones(stack: str | None, accelerator: str | None, *, every: bool, as_json: bool) -> bool:
    """Print the zones where the accelerator could be asked for, and return False if none has room.

    Raises GoogleError where no zone answers.
    """
    wanted = _wanted(stack, accelerator)
    found = _found(wanted, every)
    if as_json:
        print_answer(_as_zones(wanted, found))
    else:
        show(*_lines(wanted, found))
    if wanted.quota:
        return any(row.room(wanted.accelerator.devices) is not False for row in found.rooms.rows)
    return any(one.capacity.obtainability != 0 for one in found.advice)


def zones_answer(stack: str | None = None, accelerator: str | None = None, every: bool = False) -> Zones:
    """Return the zones where the accelerator could be asked for. Raises GoogleError where no zone answers."""
    wanted = _wanted(stack, accelerator)
    return _as_zones(wanted, _found(wanted, every))


def _wanted(stack: str | None, accelerator: str | None) -> _Wanted:
    """Return what is asked about. Raises SettingsError for a machine that is not asked for by zone."""
    planned = None if stack is None else plan_stack(stack)
    zonal = {one.id: one for one in catalog().accelerators.values() if one.machine_type}
    default = planned.plan.accelerator.id if planned else next(one.id for one in zonal.values() if one.tpu)
    chosen = zonal.get(accelerator or default)
    if chosen is None or chosen.machine_type is None:
        key = "--accelerator" if accelerator else str(stack)
        fact = f"{accelerator or default} is not a machine that is asked for by zone."
        raise SettingsError.of(key, fact, fix=f"Write one of: {', '.join(sorted(zonal))}.")
    file, deployed = (planned.file, planned.plan.deployment) if planned else (None, None)
    own = (chosen.machine_type,), chosen.locations
    if chosen.tpu is None and isinstance(deployed, MachinesPlan):
        mine = planned is not None and planned.plan.accelerator.id == chosen.id
        shapes, zones = (deployed.shapes, tuple(dict.fromkeys((*deployed.zones, *chosen.locations)))) if mine else own
        return _Wanted(file, chosen, shapes, zones, deployed.provisioning, "")
    if chosen.tpu is None:
        return _Wanted(file, chosen, *own, "spot", "")
    if planned is None or not isinstance(deployed, SlicesPlan):
        return _Wanted(file, chosen, *own, "flex-start", chosen.tpu.quota)
    slices = plan_slices(planned.plan.settings, chosen, gateway_region=planned.plan.region)
    return _Wanted(file, chosen, *own, slices.provisioning, slices.quota)


def _found(wanted: _Wanted, every: bool) -> _Found:
    session = google_session(wanted.file)
    rooms, gaps = Survey((), ()), list[str]()
    if wanted.quota:
        flex_only = wanted.provisioning == "flex-start" and not every
        rooms = survey(session, wanted.accelerator, quota=wanted.quota, flex_only=flex_only)
    advice: list[ZoneAdvice] = []
    asked = False
    for shape in wanted.shapes:
        zones = (
            [row.zone for row in rooms.rows] if wanted.quota else _listing(session, wanted, shape, gaps, every=every)
        )
        with waiting(f"asking Google's advice about {shape}"):
            found, unanswered = advice_by_zone(session, shape, zones, MODELS[wanted.provisioning])
        advice += found
        gaps += unanswered
        asked = asked or bool(zones)
    if not wanted.quota and asked and not advice:
        why = (*gaps, "Google knows nothing of it")
        raise GoogleError(f"No zone could be asked, so where there is capacity is unknown. {why[0]}")
    return _Found(rooms, advice, (*rooms.gaps, *gaps))


def _listing(session: GoogleSession, wanted: _Wanted, shape: str, gaps: list[str], *, every: bool) -> list[str]:
    """Return the zones to ask about: all that list the machine type, or where that is refused those that are known."""
    if not every:
        return [*wanted.zones]
    try:
        return [*zones_with(session, shape)]
    except GoogleError as error:
        gaps.append(f"which zones list {shape}: {error} Those of the catalog were asked.")
        return [*wanted.zones]


def _as_zones(wanted: _Wanted, found: _Found) -> Zones:
    devices = wanted.accelerator.devices
    return Zones(
        accelerator=wanted.accelerator.id,
        machine_types=list(wanted.shapes),
        quota=wanted.quota,
        zones=[ZoneRoomRow.model_validate({**asdict(row), "room": row.room(devices)}) for row in found.rooms.rows],
        advice=[_advice_row(one) for one in found.advice],
        gaps=list(found.gaps),
    )


def _advice_row(one: ZoneAdvice) -> ZoneAdviceRow:
    since = timestamp_s(one.history.since)
    return ZoneAdviceRow(
        zone=one.zone,
        machine_type=one.machine_type,
        provisioning=one.model,
        obtainability=one.capacity.obtainability,
        uptime_s=one.capacity.uptime_s,
        spot_usd_per_hour=one.history.usd_per_hour,
        spot_since="" if since is None else moment(since),
        preempted=one.history.preempted,
    )


def _lines(wanted: _Wanted, found: _Found) -> Iterator[RenderableType]:
    if wanted.quota:
        yield _rooms(wanted, found.rooms)
    if found.advice:
        yield _advice_table(found.advice)
    elif not wanted.quota:
        yield f"No zone lists {wanted.accelerator.id}."
    yield from (f"Unknown: {gap}" for gap in found.gaps)
    if wanted.quota:
        yield (
            f"Quota {wanted.quota} and its twin by region; ask for more in the console. A zone that is listed may have no "
            "stock: only a request shows it. Choose a zone with tpu.zone."
        )
    if found.advice:
        newest = max(one.history.since for one in found.advice)
        dated = f", the newest of {read_moment(newest)[:10]}" if newest else ""
        yield (
            "Advice of Google about one machine at this moment, not a promise. Spot prices are list prices of the whole machine"
            f"{dated}; taken back: of the spot machines that stopped, the share that Google took."
        )


def _rooms(wanted: _Wanted, found: Survey) -> RenderableType:
    columns = [Column("zone"), Column("flex-start", spare=1)]
    figures = ("quota,\nchips", "held", "of\nregion", "held", f"room for\n{wanted.accelerator.id}")
    columns += [Column(name, figures=True) for name in figures]
    tpu = wanted.accelerator.tpu
    refused = tpu.flex_start_refused_zones if tpu else ()
    rows = []
    for row in found.rows:
        room = {None: "?", True: "yes", False: "no"}[row.room(wanted.accelerator.devices)]
        flex = "yes" if row.flex_start else "refused" if row.zone in refused else "untried"
        chips = (row.limit, row.held, row.region_limit, row.region_held)
        known = ("?" if one is None else "no limit" if one < 0 else f"{one:,}" for one in chips)
        rows.append([row.zone, flex, *known, room])
    return FittedTable(columns, rows) if rows else f"No zone lists {wanted.accelerator.id}."


def _advice_table(advice: Sequence[ZoneAdvice]) -> RenderableType:
    columns = [Column("zone"), Column("machine"), Column("bought as")]
    columns += [Column(name, figures=True) for name in ("to be\nhad", "runs for", "spot,\n$/hour")]
    columns += [Column("taken\nback", figures=True)]
    rows = []
    for one in advice:
        capacity, history = one.capacity, one.history
        rows.append(
            [
                one.zone,
                one.machine_type,
                one.model,
                _share(capacity.obtainability),
                "?" if capacity.uptime_s is None else read_duration(capacity.uptime_s),
                "?" if history.usd_per_hour is None else read_usd(history.usd_per_hour),
                _share(history.preempted),
            ]
        )
    return FittedTable(columns, rows)


def _share(value: float | None) -> str:
    return "?" if value is None else f"{value:.0%}"
