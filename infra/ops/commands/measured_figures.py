"""What a serving check measured, beside what the plan predicts: as data and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infra.ops.answers.proof_answers import FigureRow
from infra.planning.plan import Plan
from infra.planning.report.data_models import BandData
from infra.planning.report.tables import Column, FittedTable
from infra.planning.units import (
    Band,
    exact_band,
    read_count,
    read_duration,
    read_minutes,
    read_predicted,
    read_seconds,
    read_tokens_per_second,
)


def figures_of(plan: Plan | None, result: Mapping[str, Any]) -> list[FigureRow]:
    """Return the figures of a check's result, fields of `CheckResult`. Raises KeyError where one is missing."""
    kv = None if plan is None else plan.kv_tokens
    alone = None if plan is None else plan.speed.alone.total  # its prompt has been read when the first token comes
    first = None if plan is None else plan.speed.ttft_s
    ready = None if plan is None else plan.startup.from_zero
    tokens, rate = result["kv_tokens"], result["tokens_per_second"]
    return [
        FigureRow(figure="KV cache", unit="tokens", predicted=_data(kv), measured=tokens, in_band=_inside(kv, tokens)),
        FigureRow(figure="first token", unit="s", predicted=_data(first), measured=result["ttft_s"], in_band=None),
        FigureRow(figure="alone", unit="tok/s", predicted=_data(alone), measured=rate, in_band=_inside(alone, rate)),
        FigureRow(figure="ready", unit="s", predicted=_data(ready), measured=result["ready_s"], in_band=None),
    ]


def figure_table(rows: Sequence[FigureRow]) -> FittedTable:
    """Return the figures as a table; without predictions where there are none."""
    cells = [(row.figure, _predicted(row), _measured(row)) for row in rows]
    if all(row.predicted is None for row in rows):
        return FittedTable([Column(""), Column("measured")], [(name, measured) for name, _, measured in cells])
    return FittedTable([Column(""), Column("predicted"), Column("measured")], cells)


def _predicted(row: FigureRow) -> str:
    if row.predicted is None:
        return ""
    band = Band(row.predicted.low, row.predicted.mid, row.predicted.high)
    if row.figure == "KV cache":
        return read_predicted(band, read_count, " tokens")
    if row.figure == "alone":
        return read_predicted(band, read_tokens_per_second)
    if row.figure == "ready":
        return read_predicted(band, read_duration, " from zero", ends=read_minutes)
    return f"{read_predicted(band, read_seconds)} without network"


def _measured(row: FigureRow) -> str:
    if not row.measured:
        return "at once" if row.figure == "ready" else "unknown"
    if row.figure == "KV cache":
        return f"{row.measured:,.0f} tokens"
    if row.figure == "alone":
        return read_tokens_per_second(row.measured)
    if row.figure == "ready":
        return f"after {read_duration(row.measured)} of waiting"
    return f"{read_seconds(row.measured)} through it"


def _data(band: Band | None) -> BandData | None:
    return None if band is None else BandData(**exact_band(band))


def _inside(band: Band | None, measured: float | None) -> bool | None:
    return None if band is None or not measured else band.low <= measured <= band.high
