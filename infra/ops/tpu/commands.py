"""`gemma4 zones`, `gemma4 tpu status` and `gemma4 tpu husks`: ask, print, say what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from infra.catalog import Accelerator, catalog
from infra.errors import GoogleError, SettingsError
from infra.ops.google_access import session_for, tpu_stack
from infra.ops.plan_inputs import project_root
from infra.ops.terminal.output import camel, print_json, table
from infra.ops.tpu.ended_requests import Husks, find_husks, is_of_gemma4, remove
from infra.ops.tpu.orphans import find_strays
from infra.ops.tpu.slice_status import slice_statuses
from infra.ops.tpu.status_lines import status_lines, stray_lines
from infra.ops.tpu.zone_survey import Survey, ZoneRow, chips_of, survey
from infra.planning.platforms.tpu.slices import plan_slices
from infra.planning.report.terminal import Fitting, show
from infra.planning.settings.stackfile import StackFile, read_stack


def show_zones(stack: str | None, accelerator: str | None, *, every: bool, as_json: bool) -> bool:
    """Print where the accelerator could be asked for; False where no zone has room. GoogleError where none answers."""
    asked = _asked(stack, accelerator)
    found = survey(session_for(asked.file), asked.accelerator, quota=asked.quota, flex_only=asked.flex and not every)
    chips = asked.accelerator.devices
    if as_json:
        rows = [{**camel(asdict(row)), "room": row.room(chips)} for row in found.rows]
        about = {"accelerator": asked.accelerator.id, "quota": asked.quota}
        print_json({**about, "zones": rows, "gaps": list(found.gaps)})
    else:
        _show_zones(asked, found)
    return any(row.room(chips) is not False for row in found.rows)


def show_status(stack: str, *, as_json: bool) -> bool:
    """Print how each slice is, and what else carries the stack's labels; False unless all slices serve as planned."""
    planned = tpu_stack(stack)
    session = session_for(planned.file)
    found = slice_statuses(session, planned.plan, planned.slices)
    strays = find_strays(session, planned.plan, planned.slices, _known_zones())
    if as_json:
        rows = [camel(asdict(one)) for one in found]
        others = [camel(asdict(one)) for one in strays.found]
        print_json(
            {
                "stack": stack,
                "zone": planned.slices.zone,
                "slices": rows,
                "others": others,
                "gaps": list(strays.gaps),
            }
        )
    else:
        show(*(part for one in found for part in status_lines(one)), *stray_lines(strays))
    return all(one.serving for one in found)


def show_husks(stack: str | None, *, delete: bool, everybody: bool, as_json: bool) -> bool:
    """Print ended requests, and delete those of the stack where asked to, or without one of all of gemma4's stacks;
    with `everybody` all. False where one could not be deleted."""
    if everybody and not delete:
        fix = "Add --delete, or leave it out: all are listed anyway."
        raise SettingsError.of("--everybody", "says whose requests --delete deletes.", "Nothing is deleted.", fix)
    file = None if stack is None else read_stack(project_root(), stack)
    session = session_for(file, patient=delete)
    husks = find_husks(session)
    chosen = [one for one in husks.found if delete and (everybody or is_of_gemma4(one, stack))]
    failed: dict[str, str] = {}
    done: dict[tuple[str, str], str] = {}
    for husk in chosen:
        try:
            remove(session, husk)
            done[husk.zone, husk.id] = "deleted"
        except GoogleError as error:
            failed[husk.id] = str(error)
            done[husk.zone, husk.id] = "failed"
    if as_json:
        print_json(_husk_data(husks, done, failed))
    else:
        _show_husks(husks, done, failed, hint="" if delete else _deletion_hint(stack))
    return not failed


def _known_zones() -> list[str]:
    """Every zone that a stack of this program may have asked for a TPU."""
    known = (one.locations for one in catalog().accelerators.values() if one.tpu)
    return sorted({zone for zones in known for zone in zones})


@dataclass(frozen=True)
class _Asked:
    """What is asked for; `flex`: as flex-start, which few zones take."""

    file: StackFile | None
    accelerator: Accelerator
    quota: str
    flex: bool


def _asked(stack: str | None, accelerator: str | None) -> _Asked:
    planned = None if stack is None else tpu_stack(stack)
    known = catalog().accelerators
    chosen = known.get(accelerator) if accelerator else planned.plan.accelerator if planned else known["v6e-4"]
    if chosen is None or chosen.tpu is None:
        tpus = ", ".join(sorted(one.id for one in known.values() if one.tpu))
        raise SettingsError.of("--accelerator", f"{accelerator} is not a TPU.", fix=f"Write one of: {tpus}.")
    if planned is None:
        return _Asked(None, chosen, chosen.tpu.quota, flex=True)
    slices = plan_slices(
        planned.plan.settings, chosen, gateway_region=planned.plan.region
    )  # of the accelerator that was asked for
    return _Asked(planned.file, chosen, slices.quota, flex=slices.provisioning == "flex-start")


def _show_zones(asked: _Asked, found: Survey) -> None:
    rows = table("zone", "flex-start")
    for column in ("quota, chips", "held", "of region", "held", f"room for {asked.accelerator.id}"):
        rows.add_column(column, justify="right")
    for row in found.rows:
        rows.add_row(*_zone_cells(row, asked.accelerator))
    parts: list[Any] = [Fitting(rows) if found.rows else f"No zone lists {asked.accelerator.id}."]
    parts += [f"Unknown: {gap}" for gap in found.gaps]
    parts.append(
        f"Quota {asked.quota} and its twin by region; more is asked for in the console. Listed is not in stock: no API "
        "tells what is, only a request does. Choose with tpu.zone."
    )
    show(*parts)


def _zone_cells(row: ZoneRow, accelerator: Accelerator) -> list[str]:
    room = {None: "?", True: "yes", False: "no"}[row.room(accelerator.devices)]
    refused = accelerator.tpu.flex_start_refused_zones if accelerator.tpu else ()
    flex = "yes" if row.flex_start else "refused" if row.zone in refused else "untried"
    numbers = (_limit(row.limit), _known(row.held), _limit(row.region_limit), _known(row.region_held))
    return [row.zone, flex, *numbers, room]


def _limit(chips: int | None) -> str:
    return "no limit" if chips is not None and chips < 0 else _known(chips)


def _known(chips: int | None) -> str:
    return "?" if chips is None else str(chips)


def _deletion_hint(stack: str | None) -> str:
    name = stack or "STACK"
    return (
        f"They hold quota until they are deleted: gemma4 tpu husks {name} --delete (of the stack), "
        "gemma4 tpu husks --delete (of gemma4), gemma4 tpu husks --delete --everybody (all)."
    )


def _show_husks(husks: Husks, done: Mapping[tuple[str, str], str], failed: Mapping[str, str], *, hint: str) -> None:
    gaps = [f"Not asked: {gap}" for gap in husks.gaps]
    if not husks.found:
        show("No ended requests: nothing holds quota for nothing.", *gaps)
        return
    rows = table("request", "zone", "state", "stack", "chips", "why", "done")
    for one in husks.found:
        stack = one.labels.get("stack", "") if is_of_gemma4(one) else "not ours"
        result = done.get((one.zone, one.id), "")
        rows.add_row(one.id, one.zone, one.state.value, stack, str(chips_of(one)), one.error, result)
    show(rows, *failed.values(), *gaps, *filter(None, [hint]))


def _husk_data(husks: Husks, done: Mapping[tuple[str, str], str], failed: Mapping[str, str]) -> dict[str, Any]:
    rows = [
        {
            "id": one.id,
            "zone": one.zone,
            "state": one.state.value,
            "error": one.error,
            "ours": is_of_gemma4(one),
            "chips": chips_of(one),
            "created": one.create_time,
            "done": done.get((one.zone, one.id), ""),
        }
        for one in husks.found
    ]
    deleted = [row["id"] for row in rows if row["done"] == "deleted"]
    return {"husks": rows, "deleted": deleted, "failed": dict(failed), "gaps": list(husks.gaps)}
