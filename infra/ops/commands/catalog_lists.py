"""`gemma4 models` and `gemma4 machines`: what the catalog holds, and what fits on what at the defaults."""

from __future__ import annotations

from collections.abc import Iterable

from infra.catalog import GIB, Accelerator, Model, catalog
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.planning_answers import MachineRow, Machines, ModelRow, Models
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.report.tables import Column, FittedTable
from infra.planning.report.terminal import show
from infra.planning.units import exact


def show_models(*, as_json: bool) -> None:
    """Print every model of the catalog with its size and the cheapest machine that it can be deployed on."""
    found = models_answer()
    if as_json:
        print_answer(found)
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
            row.id,
            f"{row.parameters / 1e9:.1f}",
            f"{row.active_parameters / 1e9:.1f}",
            f"{row.checkpoint_bytes / GIB:.1f}",
            f"{row.largest_max_model_len:,}",
            ", ".join(row.modalities),
            row.cheapest_machine or "none",
            "" if row.usd_per_hour is None else f"{row.usd_per_hour:,.2f}",
        ]
        for row in found.models
    ]
    show(
        FittedTable(columns, cells),
        "Serve one: gemma4 plan l4 --set model=MODEL. Those that end in w4a16 have weights of 4 bits.",
    )


def show_machines(*, as_json: bool) -> None:
    """Print every machine of the catalog with its memory, its price, where it is, and the largest model that fits."""
    found = machines_answer()
    if as_json:
        print_answer(found)
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
    for row in found.machines:
        first, *more = row.locations
        cells.append(
            [
                row.id,
                f"{row.devices}",
                f"{row.device_memory_gib:.1f}",
                f"{row.usd_per_hour:,.2f}",
                row.platform,
                first + (f" + {len(more)}" if more else ""),
                next(iter(row.models), "none"),
            ]
        )
    bare = [row.id for row in found.machines if not row.deployable]
    show(
        FittedTable(columns, cells),
        "$/hour: one machine with its vCPU and memory, at list price in its first place.",
        *([f"Planned and priced only, nothing here deploys to them yet: {', '.join(bare)}."] if bare else []),
        "Plan on one: gemma4 plan l4 --set accelerator=MACHINE",
    )


def models_answer() -> Models:
    """Return every model of the catalog."""
    return Models(models=[_model_row(model) for model in catalog().models.values()])


def machines_answer() -> Machines:
    """Return every machine of the catalog."""
    return Machines(machines=[_machine_row(machine) for machine in catalog().accelerators.values()])


def _model_row(model: Model) -> ModelRow:
    architecture = catalog().architecture_of(model.id)
    deployable = [machine for machine in catalog().accelerators.values() if machine.deployable]
    fitting = _fitting((model.id, machine.id) for machine in deployable)
    cheapest = min(fitting, key=lambda plan: plan.cost.usd_per_hour, default=None)
    return ModelRow(
        id=model.id,
        title=model.title,
        hub_id=model.hub_id,
        maker=model.maker,
        parameters=architecture.parameters.total,
        active_parameters=architecture.active_parameters,
        weight_format=model.weight_format,
        checkpoint_bytes=model.checkpoint_bytes,
        largest_max_model_len=architecture.max_position,
        modalities=list(architecture.input_modalities),
        gated=model.gated,
        assistant=model.assistant,
        min_vllm=model.min_vllm,
        cheapest_machine=None if cheapest is None else cheapest.accelerator.id,
        usd_per_hour=None if cheapest is None else exact(cheapest.cost.usd_per_hour),
        fits_on=[plan.accelerator.id for plan in fitting],
    )


def _machine_row(machine: Accelerator) -> MachineRow:
    largest_first = sorted(
        catalog().models.values(),
        key=lambda model: (catalog().architecture_of(model.id).parameters.total, model.checkpoint_bytes),
        reverse=True,
    )
    fitting = _fitting((model.id, machine.id) for model in largest_first)
    smallest = make_plan("list", {"model": largest_first[-1].id, "accelerator": machine.id})
    return MachineRow(
        id=machine.id,
        title=machine.title,
        platform=machine.platform,
        deployable=machine.deployable,
        devices=machine.devices,
        device_memory_gib=machine.device_memory_gib,
        usd_per_hour=exact((fitting[0] if fitting else smallest).cost.usd_per_hour),
        locations=list(machine.locations),
        invited_locations=list(machine.invited_locations),
        models=[plan.model.id for plan in fitting],
    )


def _fitting(pairs: Iterable[tuple[str, str]]) -> list[Plan]:
    """Return the plans, at their defaults, of those pairs of a model and a machine that are not refused."""
    plans = (make_plan("list", {"model": model, "accelerator": machine}) for model, machine in pairs)
    return [plan for plan in plans if not plan.refused]
