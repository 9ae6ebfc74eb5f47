"""The answer of `gemma4 cost`."""

from __future__ import annotations

from pydantic import Field

from infra.ops.answers.answer_base import JsonAnswer
from infra.ops.answers.status_answers import CostSinceRow
from infra.planning.report.data_models import Data, Number


class CostRow(Data):
    """A part of the stack in the month. Amounts lie between `…Least` and `…Most`, which are the same where that is known."""

    what: str = Field(description="server, slice, gateway, weights copy; bucket, image repository, secrets")
    running_s: Number | None = Field(
        description="running time of all its instances; null of what is stored, or not known"
    )
    usd_least: Number | None = Field(description="by list prices; null where nobody knows")
    usd_most: Number | None = Field(description="by list prices")
    month_usd: Number | None = Field(
        description="the whole month, if the rest of it is as it was so far, at the most; null of a month that is over"
    )
    note: str = Field(description="how it was counted, or why it is not known; empty where that is plain")


class HoursRow(Data):
    """What a month would cost."""

    hours_a_day: Number = Field(description="for which the fewest replicas that serve run")
    usd_per_month: Number = Field(description="of 30.4 days, storage and what is always kept included")


class ListPriceRow(Data):
    """A list price of the catalog."""

    what: str = Field(description="what it is the price of")
    usd: Number = Field(description="for one unit")
    unit: str = Field(description="e.g. gpu-hour, gb-month")
    source: str = Field(description="where it was read")
    read: str = Field(description="when, as YYYY-MM-DD")
    confidence: str = Field(description="documented, measured, reported or inferred")


class CostAnswer(JsonAnswer):
    """What `gemma4 cost STACK --json` prints."""

    stack: str = Field(description="name of the stack")
    month: str = Field(description="as YYYY-MM")
    until: str = Field(description="moment up to which it is counted: the end of the month, or now")
    deployed: bool | None = Field(description="whether it is deployed; null where that cannot be asked")
    rows: list[CostRow] = Field(description="what ran and what was stored; empty where nothing is deployed")
    usd_least: Number | None = Field(description="sum of what is known; null where nothing is")
    usd_most: Number | None = Field(description="the same at the most")
    month_usd: Number | None = Field(description="sum of `rows[].monthUsd`; null of a month that is over")
    since_up: CostSinceRow | None = Field(description="since the last `pulumi up`; null where that is not known")
    usd_per_hour: Number = Field(description="planned, one replica, running")
    usd_per_month_idle: Number = Field(description="planned, a month in which nobody asks for anything")
    what_if: list[HoursRow] = Field(description="never, as many hours a day as were asked for, all day")
    prices: list[ListPriceRow] = Field(
        description="list prices behind all of it, without discounts, taxes and free tier"
    )
    unknown: list[str] = Field(description="what could not be asked, and why")
