"""`gemma4 models` and `gemma4 machines`: what the catalog holds, and what fits on what at the defaults."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from infra.catalog import GIB, Accelerator, Model, catalog
from infra.ops.terminal.json_output import print_json
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.report.tables import Column, FittedTable
from infra.planning.report.terminal import show
from infra.planning.units import exact


def show_models(*, as_json: bool) -> None:
    """Print every model of the catalog with its size and the cheapest machine that it can be deployed on."""
    rows = [_model_row(model) for model in catalog().models.values()]
    if as_json:
        print_json({"models": rows})
        return
    columns = [
        Column("model"),
        Column("billion\nparameters", figures=True),
        Column("of them\nactive", figures=True),
        Column("weights,\nGiB", figures=True),
        Column("longest\ncontext", figures=True),
        Column("beside text", spare=2),
        Column("cheapest\nmachine"),
        Column("$/hour", figures=True),
    ]
    cells = [
        [
            row["id"],
            f"{row['parameters'] / 1e9:.1f}",
            f"{row['activeParameters'] / 1e9:.1f}",
            f"{row['checkpointBytes'] / GIB:.1f}",
            f"{row['largestMaxModelLen']:,}",
            ", ".join(row["modalities"]),
            row["cheapestMachine"] or "none",
            "" if row["usdPerHour"] is None else f"{row['usdPerHour']:,.2f}",
        ]
        for row in rows
    ]
    show(
        FittedTable(columns, cells),
        "Serve one: gemma4 plan l4 --set model=MODEL. Those that end in w4a16 have weights of 4 bits.",
    )


def show_machines(*, as_json: bool) -> None:
    """Print every machine of the catalog with its memory, its price, where it is, and the largest model that fits."""
    rows = [_machine_row(machine) for machine in catalog().accelerators.values()]
    if as_json:
        print_json({"machines": rows})
        return
    columns = [
        Column("machine"),
        Column("devices", figures=True),
        Column("GiB\neach", figures=True),
        Column("$/hour", figures=True),
        Column("platform"),
        Column("first place", spare=1),
        Column("largest model", spare=2),
    ]
    cells = []
    for row in rows:
        first, *more = row["locations"]
        cells.append(
            [
                row["id"],
                f"{row['devices']}",
                f"{row['deviceMemoryGib']:.1f}",
                f"{row['usdPerHour']:,.2f}",
                row["platform"],
                first + (f" + {len(more)}" if more else ""),
                next(iter(row["models"]), "none"),
            ]
        )
    bare = [row["id"] for row in rows if not row["deployable"]]
    show(
        FittedTable(columns, cells),
        "$/hour: one machine with its vCPU and memory, at list price in its first place.",
        *([f"Planned and priced only, nothing here deploys to them yet: {', '.join(bare)}."] if bare else []),
        "Plan on one: gemma4 plan l4 --set accelerator=MACHINE",
    )


def _model_row(model: Model) -> dict[str, Any]:
    architecture = catalog().architecture_of(model.id)
    deployable = [machine for machine in catalog().accelerators.values() if machine.deployable]
    fitting = _fitting((model.id, machine.id) for machine in deployable)
    cheapest = min(fitting, key=lambda plan: plan.cost.usd_per_hour, default=None)
    return {
        "id": model.id,
        "title": model.title,
        "hubId": model.hub_id,
        "maker": model.maker,
        "parameters": architecture.parameters.total,
        "activeParameters": architecture.active_parameters,
        "weightFormat": model.weight_format,
        "checkpointBytes": model.checkpoint_bytes,
        "largestMaxModelLen": architecture.max_position,
        "modalities": list(architecture.input_modalities),
        "gated": model.gated,
        "assistant": model.assistant,
        "minVllm": model.min_vllm,
        "cheapestMachine": None if cheapest is None else cheapest.accelerator.id,
        "usdPerHour": None if cheapest is None else exact(cheapest.cost.usd_per_hour),
        "fitsOn": [plan.accelerator.id for plan in fitting],
    }


def _machine_row(machine: Accelerator) -> dict[str, Any]:
    largest_first = sorted(
        catalog().models.values(),
        key=lambda model: (catalog().architecture_of(model.id).parameters.total, model.checkpoint_bytes),
        reverse=True,
    )
    fitting = _fitting((model.id, machine.id) for model in largest_first)
    smallest = make_plan("list", {"model": largest_first[-1].id, "accelerator": machine.id})
    return {
        "id": machine.id,
        "title": machine.title,
        "platform": machine.platform,
        "deployable": machine.deployable,
        "devices": machine.devices,
        "deviceMemoryGib": machine.device_memory_gib,
        "usdPerHour": exact((fitting[0] if fitting else smallest).cost.usd_per_hour),
        "locations": list(machine.locations),
        "invitedLocations": list(machine.invited_locations),
        "models": [plan.model.id for plan in fitting],
    }


def _fitting(pairs: Iterable[tuple[str, str]]) -> list[Plan]:
    """Return the plans, at their defaults, of those pairs of a model and a machine that are not refused."""
    plans = (make_plan("list", {"model": model, "accelerator": machine}) for model, machine in pairs)
    return [plan for plan in plans if not plan.refused]
