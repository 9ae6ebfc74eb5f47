"""`gemma4 stacks`: one line for each stack file."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from infra.errors import Gemma4Error
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.planning_answers import StackRow, Stacks, UnreadableStack
from infra.ops.plan_inputs import plan_stack, project_root
from infra.planning.report.data_models import BandData
from infra.planning.report.rows import VERDICTS
from infra.planning.report.tables import Column, FittedTable
from infra.planning.report.terminal import show
from infra.planning.settings.stackfile import stack_names
from infra.planning.units import BAND_CLAIM, Band, exact, exact_band, read_cell, read_count


def show_stacks(*, as_json: bool) -> None:
    """Print one line for each stack file; where a file cannot be read, the line says why."""
    found = stacks_answer()
    if as_json:
        print_answer(found)
        return
    columns = [Column("stack"), Column("model"), Column("machine", spare=2), Column("where", spare=3)]
    columns += [Column("verdict", spare=1), Column("≈ requests\nheld", figures=True)]
    columns += [Column("≈ KV\ntokens", figures=True), Column("$/hour", figures=True)]
    planned = [row for row in found.stacks if isinstance(row, StackRow)]
    cells: list[list[Text | str]] = []
    for row in planned:
        bands = (row.requests_held_band, row.kv_tokens_band)
        held, tokens = ("" if band is None else read_cell(Band(**band.model_dump()), read_count) for band in bands)
        verdict = Text(row.verdict, style=VERDICTS[row.verdict])
        price = f"{row.usd_per_hour:,.2f}"
        cells.append([row.stack, row.model, row.accelerator, row.location, verdict, held, tokens, price])
    bare = ", ".join(row.stack for row in planned if not row.deployable)
    marks = [f"{bare}: planned and priced only, nothing here deploys to such a machine yet."] if bare else []
    errors = [f"{row.stack}: {row.error}" for row in found.stacks if isinstance(row, UnreadableStack)]
    said = [f"Predictions with their bands: {BAND_CLAIM}."] if planned else []
    show(*([FittedTable(columns, cells)] if planned else []), *said, *marks, *errors)


def stacks_answer() -> Stacks:
    """Return one row for each stack file of the project folder."""
    root = project_root()
    return Stacks(stacks=[_stack_row(name, root) for name in stack_names(root)])


def _stack_row(name: str, root: Path) -> StackRow | UnreadableStack:
    try:
        plan = plan_stack(name, root=root).plan
    except Gemma4Error as error:
        return UnreadableStack(stack=name, error=str(error).splitlines()[0])
    held, tokens = (None, None) if plan.refused else (plan.requests_held_band, plan.kv_tokens)
    return StackRow(
        stack=name,
        model=plan.model.id,
        accelerator=plan.accelerator.id,
        location=plan.zone or plan.region,
        verdict=plan.verdict.value,
        deployable=plan.accelerator.deployable,
        requests_held=None if plan.refused else plan.requests_held,
        requests_held_band=None if held is None else BandData.model_validate(exact_band(held)),
        kv_tokens=None if plan.refused else plan.capacity.tokens,
        kv_tokens_band=None if tokens is None else BandData.model_validate(exact_band(tokens)),
        usd_per_hour=exact(plan.cost.usd_per_hour_together),
    )
