"""`gemma4 zones`, `gemma4 tpu status` and `gemma4 tpu husks`: ask, print, say what to do next."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from rich.table import Table

from infra.catalog import Accelerator, catalog
from infra.errors import GoogleError, SettingsError
from infra.ops.access import session_for, tpu_stack
from infra.ops.husks import Husks, find_husks, is_of_gemma4, remove
from infra.ops.inputs import project_root
from infra.ops.slice_status import SliceStatus, slice_statuses
from infra.ops.zone_survey import Survey, ZoneRow, chips_of, survey
from infra.planning.quantities import read_duration
from infra.planning.report.terminal import show
from infra.planning.stackfile import StackFile, read_stack

_SCHEMA = 1


def show_zones(stack: str | None, accelerator: str | None, *, every: bool, as_json: bool) -> bool:
    """Print where the accelerator could be asked for; False where no zone has room."""
    file, chosen = _asked(stack, accelerator)
    found = survey(session_for(file), chosen, flex_only=not every)
    if as_json:
        rows = [{**asdict(row), "room": row.room(chosen.devices)} for row in found.rows]
        _print_json({"accelerator": chosen.id, "zones": rows, "gaps": list(found.gaps)})
    else:
        _show_zones(chosen, found)
    return any(row.room(chosen.devices) is not False for row in found.rows)


def show_status(stack: str, *, as_json: bool) -> bool:
    """Print how each slice is; False unless all of them serve."""
    planned = tpu_stack(stack)
    found = slice_statuses(session_for(planned.file), planned.plan, planned.slices)
    if as_json:
        _print_json({"stack": stack, "zone": planned.slices.zone, "slices": [asdict(one) for one in found]})
    else:
        show(*(part for one in found for part in _status_lines(one)))
    return all(one.supervisor.stage == "serving" for one in found)


def show_husks(stack: str | None, *, delete: bool, everybody: bool, as_json: bool) -> bool:
    """Print ended requests, and delete ours where asked to (with `everybody` all); False where one could not be."""
    file = None if stack is None else read_stack(project_root(), stack)
    session = session_for(file)
    husks = find_husks(session)
    chosen = [one for one in husks.found if everybody or is_of_gemma4(one)] if delete else []
    failed: dict[str, str] = {}
    for husk in chosen:
        try:
            remove(session, husk)
        except GoogleError as error:
            failed[husk.id] = str(error)
    if as_json:
        _print_json(_husk_data(husks, [one.id for one in chosen], failed))
    else:
        _show_husks(husks, {one.id for one in chosen}, failed, delete=delete)
    return not failed


def _asked(stack: str | None, accelerator: str | None) -> tuple[StackFile | None, Accelerator]:
    planned = None if stack is None else tpu_stack(stack)
    known = catalog().accelerators
    chosen = known.get(accelerator) if accelerator else planned.plan.accelerator if planned else known["v6e-4"]
    if chosen is None or chosen.tpu is None:
        tpus = ", ".join(sorted(one.id for one in known.values() if one.tpu))
        raise SettingsError.of("--accelerator", f"{accelerator} is not a TPU.", fix=f"Write one of: {tpus}.")
    return planned.file if planned else None, chosen


def _show_zones(accelerator: Accelerator, found: Survey) -> None:
    table = _table("zone", "flex-start")
    for column in ("quota, chips", "held", f"room for {accelerator.id}"):
        table.add_column(column, justify="right")
    for row in found.rows:
        table.add_row(*_zone_cells(row, accelerator.devices))
    parts: list[Any] = [table if found.rows else f"No zone lists {accelerator.id}."]
    parts += [f"Not asked: {gap}" for gap in found.gaps]
    parts.append(
        "Listed is not in stock: only a request tells. Choose with tpu.zone; quota is asked for in the console."
    )
    show(*parts)


def _zone_cells(row: ZoneRow, chips: int) -> list[str]:
    limit = "?" if row.limit is None else "no limit" if row.limit < 0 else str(row.limit)
    room = {None: "?", True: "yes", False: "no"}[row.room(chips)]
    return [row.zone, "yes" if row.flex_start else "not known", limit, str(row.held), room]


def _status_lines(one: SliceStatus) -> list[str]:
    queue = one.queue + (f": {one.why}" if one.why else "")
    if not one.node and one.waited_s is not None:
        queue += f" for {read_duration(one.waited_s)}"
    lines = [f"{one.name}  ({one.id})", f"  queue       {queue}"]
    if one.node:
        left = "" if one.left_s is None else f", {read_duration(one.left_s)} left"
        lines.append(f"  machine     {one.node} at {one.address or '?'}{left}")
        lines.append(f"  supervisor  {_doing(one)}")
    if one.supervisor.error:
        lines.append(f"  trouble     {one.supervisor.error}")
    return [*lines, f"  next        {one.next}"]


def _doing(one: SliceStatus) -> str:
    said = one.supervisor
    running = f" {said.running}" if said.running else ""
    preparing = f", preparing {said.preparing}" if said.preparing else ""
    return f"{said.stage}{running}{preparing}" if said.stage else "nothing heard yet"


def _show_husks(husks: Husks, chosen: set[str], failed: dict[str, str], *, delete: bool) -> None:
    parts: list[Any] = [f"Not asked: {gap}" for gap in husks.gaps]
    if not husks.found:
        show("No ended requests: nothing holds quota for nothing.", *parts)
        return
    table = _table("request", "zone", "state", "stack", "chips", "why", "done")
    for one in husks.found:
        done = "failed" if one.id in failed else "deleted" if one.id in chosen else ""
        stack = one.labels.get("stack", "") if is_of_gemma4(one) else "not ours"
        table.add_row(one.id, one.zone, one.state.value, stack, str(chips_of(one)), one.error, done)
    if not delete:
        parts.append("They hold quota until they are deleted: gemma4 tpu husks --delete (ours), --everybody (all).")
    show(table, *failed.values(), *parts)


def _husk_data(husks: Husks, chosen: list[str], failed: dict[str, str]) -> dict[str, Any]:
    rows = [
        {
            "id": one.id,
            "zone": one.zone,
            "state": one.state.value,
            "error": one.error,
            "ours": is_of_gemma4(one),
            "chips": chips_of(one),
            "created": one.create_time,
        }
        for one in husks.found
    ]
    deleted = [one for one in chosen if one not in failed]
    return {"husks": rows, "deleted": deleted, "failed": failed, "gaps": list(husks.gaps)}


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column)
    return table


def _print_json(data: dict[str, Any]) -> None:
    print(json.dumps({"schema": _SCHEMA, **data}, indent=2))
