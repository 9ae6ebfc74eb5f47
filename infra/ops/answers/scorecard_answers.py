"""The answer of `gemma4 scorecard`."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from infra.ops.answers.answer_base import JsonAnswer
from infra.planning.report.data_models import Data, Number


class RowData(Data):
    """A part of the scorecard. Its keys are spelled as those of the rows that it reads: in small letters, with underscores."""

    model_config = ConfigDict(alias_generator=None)


class ComparedFigureData(RowData):
    """One figure of a run, published and predicted."""

    figure: str = Field(description="its name, e.g. `kv_tokens` or `tokens_per_second`")
    unit: str = Field(description="of all values of this figure")
    published: Number = Field(description="as the row has it")
    predicted: Number = Field(description="the likeliest value")
    low: Number = Field(description="the least that is predicted")
    high: Number = Field(description="the most that is predicted")
    error_pct: Number | None = Field(
        description="percent by which the prediction is above what was published; null where that is not above 0"
    )
    in_band: bool = Field(description="whether what was published lies between `low` and `high`")
    sets: list[str] = Field(description="names of the sets in which it counts")


class ScoredRow(RowData):
    """A row of the file, with its main figure: of memory the tokens from card and flags, else from given bytes, else the
    weights."""

    id: str = Field(description="of the row; where it has none, its list and its number there")
    what: str = Field(description="as in the file; of a verdict its `config`")
    figure: str | None = Field(description="name of the main figure; null where nothing is compared, as all below it")
    unit: str | None = Field(description="of all values of this figure")
    published: Number | None = Field(description="as the row has it")
    predicted: Number | None = Field(description="the likeliest value")
    low: Number | None = Field(description="the least that is predicted")
    high: Number | None = Field(description="the most that is predicted")
    error_pct: Number | None = Field(
        description="percent by which the prediction is above what was published; null where that is not above 0"
    )
    in_band: bool | None = Field(description="whether what was published lies between `low` and `high`")
    sets: list[str] = Field(description="names of the sets in which the main figure counts")
    set: str | None = Field(description="the first of them")
    verdict: Literal["fits", "tight", "refused"] | None = Field(description="by memory, of rows of memory")
    outcome: Literal["boots", "dies"] | None = Field(description="of the run, as published")
    verdict_holds: bool | None = Field(
        description="false: `fits` and it died, or `refused` and it booted; null: no verdict or no outcome"
    )
    reason: str = Field(
        description="why nothing is compared, or what of the row was not counted; empty where all of it was"
    )
    further: list[ComparedFigureData] = Field(description="other figures of the same row")


class ScoredSet(RowData):
    """Errors and bands of a set of rows. Errors are |predicted / published - 1|."""

    name: str = Field(description="of the set")
    rows: int = Field(description="figures in it")
    median_error_pct: Number | None = Field(description="half of the rows have no larger error")
    p90_error_pct: Number | None = Field(description="nine tenths have no larger one, interpolated between neighbours")
    worst_error_pct: Number | None = Field(description="the largest error")
    inside: int = Field(description="rows inside their bands")
    share_inside: Number = Field(description="of all rows of the set, 0 to 1")
    half_width_pct: Number | None = Field(description="median of half the bands' widths in percent of their middles")
    outside: list[str] = Field(description="ids of the rows outside their bands")


class ScoredVerdicts(RowData):
    """How verdicts and outcomes agree."""

    compared: list[str] = Field(description="ids of rows with a verdict and an outcome")
    died_though_fits: list[str] = Field(description="those that died although the verdict was `fits`")
    booted_though_refused: list[str] = Field(description="those that booted although they were refused")


class Scorecard(JsonAnswer):
    """What `gemma4 scorecard --json` prints. Its keys are spelled as those of the rows that it reads."""

    rows: list[ScoredRow] = Field(description="one element for each row of the file, in its order")
    sets: list[ScoredSet] = Field(description="those that hold a row")
    verdicts: ScoredVerdicts = Field(description="of rows of memory")
