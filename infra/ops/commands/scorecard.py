"""`gemma4 scorecard`: published runs beside what is predicted for them, and how often they lie inside the bands."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infra.ops.terminal.json_output import print_json
from infra.planning.report.tables import Column, FittedTable
from infra.planning.report.terminal import show
from infra.planning.scorecard.page import described, outside_cells, page, set_cells
from infra.planning.scorecard.predict import ComparedFigure, ComparedRow, compare
from infra.planning.scorecard.published_runs import SHIPPED, read_runs
from infra.planning.scorecard.sets import SetScore, VerdictScore, score_sets, score_verdicts, sets_of, unclaimed
from infra.planning.units import counted, exact


def show_scorecard(file: str | None, *, as_json: bool, markdown: bool) -> None:
    """Print the scorecard of the rows in `file`, or of those that ship. Raises SettingsError for rows that cannot be read."""
    rows = [compare(name, row) for name, row in read_runs(SHIPPED if file is None else Path(file))]
    if as_json:
        print_json(_data(rows))
    elif markdown:
        print(page(rows, written=dt.datetime.now(dt.UTC).date()), end="")
    else:
        _show(rows, "the rows that ship, from which the constants were learned" if file is None else file)


def _show(rows: Sequence[ComparedRow], whence: str) -> None:
    heads = ("rows", "median\nerror", "p90", "worst", "inside", "half-\nwidth")
    columns = [Column("set"), *(Column(head, figures=True) for head in heads)]
    table = FittedTable(columns, [[score.name, *set_cells(score)] for score in score_sets(rows)])
    show(f"{counted(len(rows), 'row')}: {whence}", table)
    verdicts = score_verdicts(rows)
    if verdicts.compared:
        show(_verdicts(verdicts))
    claimed = list(outside_cells(rows))
    if claimed:
        names = ("published", "predicted", "band", "error")
        columns = [Column("outside its band"), Column("figure", spare=1), *(Column(one, figures=True) for one in names)]
        show("", FittedTable(columns, claimed))
    if others := sum(unclaimed(row.row) for row in rows):
        show(
            f"\n{counted(others, 'row')} on ROCm or XPU, of which nothing is claimed: by the hardware's name (mi…, rx…, arc…)."
        )
    show(
        *(f"{row.id} not compared: {row.reason} ({described(row)})." for row in rows if row.reason and not row.figures)
    )
    show(*(f"{row.id} not counted: {row.reason}" for row in rows if row.reason and row.figures))


def _verdicts(verdicts: VerdictScore) -> str:
    fell, ran = verdicts.died_though_fits, verdicts.booted_though_refused
    said = [
        f"{', '.join(fell) or 'none'} died although the verdict was fits",
        f"{', '.join(ran) or 'none'} booted although refused",
    ]
    return f"\nVerdicts of {counted(len(verdicts.compared), 'run')}: {'; '.join(said)}."


def _data(rows: Sequence[ComparedRow]) -> dict[str, Any]:
    verdicts = score_verdicts(rows)
    return {
        "rows": [_row(row) for row in rows],
        "sets": [_set(score) for score in score_sets(rows)],
        "verdicts": {
            "compared": list(verdicts.compared),
            "died_though_fits": list(verdicts.died_though_fits),
            "booted_though_refused": list(verdicts.booted_though_refused),
        },
    }


def _row(row: ComparedRow) -> dict[str, Any]:
    main = row.figures[0] if row.figures else None
    figure = _figure(row, main) if main else dict.fromkeys(_KEYS) | {"sets": []}
    return {
        "id": row.id,
        "what": described(row),
        **figure,
        "set": figure["sets"][0] if figure["sets"] else None,
        "verdict": None if row.verdict is None else row.verdict.value,
        "outcome": row.outcome,
        "verdict_holds": row.verdict_holds,
        "reason": row.reason,
        "further": [_figure(row, one) for one in row.figures[1:]],
    }


_KEYS = ("figure", "unit", "published", "predicted", "low", "high", "error_pct", "in_band")


def _figure(row: ComparedRow, figure: ComparedFigure) -> dict[str, Any]:
    band = figure.predicted
    return {
        "figure": figure.name,
        "unit": figure.unit,
        "published": figure.published,
        "predicted": exact(band.mid),
        "low": exact(band.low),
        "high": exact(band.high),
        "error_pct": None if figure.error_pct is None else exact(figure.error_pct),
        "in_band": figure.in_band,
        "sets": [name.strip() for name in sets_of(row, figure)],
    }


def _set(score: SetScore) -> dict[str, Any]:
    def percent(value: float | None) -> float | None:
        return None if value is None else exact(value)

    return {
        "name": score.name.strip(),
        "rows": len(score.members),
        "median_error_pct": percent(score.median),
        "p90_error_pct": percent(score.p90),
        "worst_error_pct": percent(score.worst),
        "inside": score.inside,
        "share_inside": exact(score.inside / len(score.members)),
        "half_width_pct": percent(score.half_width),
        "outside": [row.id for row, _ in score.outside],
    }
