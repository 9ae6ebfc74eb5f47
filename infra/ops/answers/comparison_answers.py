"""The answer of `gemma4 bench compare`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infra.ops.answers.answer_base import JsonAnswer
from infra.planning.report.data_models import Data, Number

DifferenceWord = Literal["faster", "slower", "no difference", "too few measurements"]


class ComparedRunData(Data):
    """One of the two sides."""

    ids: list[str] = Field(description="of its runs, whose repeats are taken together")
    started_at: str = Field(description="of the first")
    target: str = Field(description="the stack, else the URL; behind the gateway with the slice's name")
    vllm: str = Field(description="version that the server said")
    repeats: int = Field(description="of each cell that both sides have; of the cell that has the fewest")


class UnlikeData(Data):
    """One thing in which the two servers differ: what the comparison may be about."""

    what: str = Field(description="in words")
    a: str = Field(description="of A")
    b: str = Field(description="of B")


class ChangeData(Data):
    """What became of one metric."""

    metric: str = Field(description="`throughput`, `ttftP50`, `ttftP99`, `itlP50`, `itlP99` or `e2eP50`")
    verdict: DifferenceWord = Field(description="what is known for certain")
    a: Number = Field(description="geometric mean of the repeats: output tokens per second, or seconds")
    b: Number = Field(description="the same of B")
    change_percent: Number = Field(description="from A to B; of throughput more is better, of times less")
    low_percent: Number | None = Field(description="its 95 % interval; null without two repeats of each side")
    high_percent: Number | None = Field(description="the same interval's other end")


class OverallChangeData(ChangeData):
    """What became of one metric over all cells that both sides have, each of the same weight."""

    joint_low_percent: Number | None = Field(
        description="an interval such that those of all metrics and cells hold together in 95 of 100 comparisons: faster and "
        "slower are said by it"
    )
    joint_high_percent: Number | None = Field(description="the same interval's other end")
    repeats_needed: int | None = Field(
        description="repeats of each side that would find the sought change nine times in ten; null where unknown"
    )


class CellChangesData(Data):
    """What changed in one cell."""

    concurrency: int = Field(description="requests at a time")
    input_tokens: int = Field(description="of each prompt")
    output_tokens: int = Field(description="of each answer")
    changes: list[ChangeData] = Field(description="those that are certain; with `--cells` all")


class LoneCellData(Data):
    """A cell that was measured on one side only."""

    side: Literal["A", "B"] = Field(description="where it was measured")
    concurrency: int = Field(description="requests at a time")
    input_tokens: int = Field(description="of each prompt")
    output_tokens: int = Field(description="of each answer")
    why: str = Field(description="why the other side has no result")


class ComparisonAnswer(JsonAnswer):
    """What `gemma4 bench compare --json` prints. Exit code 1 where `--fail-if-slower` says so, 3 where it cannot be said."""

    verdict: Literal["faster", "slower", "faster and slower", "no difference", "too few measurements"] = Field(
        description="of B against A as a whole: any certain change counts"
    )
    sentence: str = Field(description="the verdict in words, with what could not be decided")
    a: ComparedRunData = Field(description="what is compared with")
    b: ComparedRunData = Field(description="what is faster or slower than A")
    servers: list[UnlikeData] = Field(description="in what the two servers differ")
    warnings: list[str] = Field(description="what makes the comparison weaker")
    alternating: bool = Field(description="whether repeats of A and B took turns, so that drift meets both alike")
    tolerance_percent: Number = Field(description="a change up to this counts as none")
    sought_percent: Number = Field(description="a change of this size is excluded where it says `no difference`")
    cells_compared: int = Field(description="cells that both sides have")
    overall: list[OverallChangeData] = Field(description="one a metric")
    cells: list[CellChangesData] = Field(description="cells with a certain change; with `--cells` all")
    lone_cells: list[LoneCellData] = Field(description="cells that only one side has")
    too_slow: bool | None = Field(
        description="whether B is slower by what `--fail-if-slower` names; null without that option, or where it is not known"
    )
