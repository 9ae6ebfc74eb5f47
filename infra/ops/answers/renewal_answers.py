"""The answer of `gemma4 renew`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infra.ops.answers.answer_base import JsonAnswer
from infra.planning.report.data_models import Data, Number


class MachineTermRow(Data):
    """A machine of the stack that Google ends, or may end."""

    name: str = Field(description="as in the settings")
    host: str = Field(description="label of its machine, which tells two of one name apart: `blue-a`, `blue-b`")
    phase: Literal["waits", "starts", "serves", "over", "missing"] = Field(
        description="`waits` in a queue; `starts`: is there and does not serve as planned; `serves`; `over`: has ended, or is "
        "about to; `missing`: not asked for"
    )
    orphan: bool = Field(
        description="the stack's state does not know it: it is paid for, and nothing renews or deletes it"
    )
    ends_at: str = Field(description="moment of its end; empty where nothing ends it")


class RenewalAnswer(JsonAnswer):
    """What `gemma4 renew STACK --json` prints."""

    stack: str = Field(description="name of the stack")
    action: Literal["nothing", "renew", "go on", "ask again"] = Field(
        description="`nothing` is due; `renew`: a machine is replaced before it ends; `go on`: a renewal or a request is under "
        "way; `ask again`: one has ended"
    )
    names: list[str] = Field(description="the machines that the action is about")
    done: bool = Field(description="whether it was carried out; false of a preview, and where nothing is due")
    summary: str = Field(description="the same in a sentence")
    machines: list[MachineTermRow] = Field(description="all of the stack, those that are being replaced included")
    due_at: str = Field(description="moment when the next renewal must begin; empty where nothing that runs has an end")
    queue_s: Number | None = Field(
        description="longest wait in the queue that is reckoned with; null where nothing ends"
    )
    start_s: Number | None = Field(description="longest start that is reckoned with")
    margin_s: Number | None = Field(description="for a renewal that begins late, or has to ask twice")
    quotas: list[str] = Field(description="what the project's quotas must allow while two of a name exist")
    usd_per_hour: Number = Field(description="of one machine: meanwhile each of two is paid for, at list price")
    commands: list[str] = Field(description="what is run; empty where nothing is due")
