"""The answer of `gemma4 pause` and `gemma4 resume`."""

from __future__ import annotations

from pydantic import Field

from infra.ops.answers.answer_base import JsonAnswer
from infra.planning.report.data_models import Number


class PauseAnswer(JsonAnswer):
    """What `gemma4 pause STACK --json` and `gemma4 resume STACK --json` print."""

    stack: str = Field(description="name of the stack")
    paused: bool = Field(description="what is wanted: true of pause, false of resume")
    already: bool = Field(description="whether the stack file says so already; `pulumi up` is run nevertheless")
    says: str = Field(description="what the stack file says now: `paused: true`, `paused: false`, or `tpu.slices: []`")
    done: bool = Field(description="whether it was carried out; false of a preview")
    usd_per_hour: Number = Field(description="what is saved by a pause, or paid again after it, at list price")
    usd_per_month_kept: Number = Field(
        description="what is paid on while it is paused: storage, and on TPU the gateway"
    )
    effects: list[str] = Field(description="what happens to what runs, a sentence each")
    commands: list[str] = Field(description="what is run, in this order")
