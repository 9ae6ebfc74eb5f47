"""The answer of `gemma4 ask`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from infra.ops.answers.answer_base import JsonAnswer
from infra.planning.report.data_models import Data, Number


class ToolCallData(Data):
    """A tool call that the model wrote."""

    id: str = Field(description="by which its result is handed back")
    name: str = Field(description="of the tool")
    arguments: Any = Field(description="as an object; as text where the model wrote no JSON")


class AskAnswer(JsonAnswer):
    """What `gemma4 ask --json` prints. Exit code 1 where `problem` says something, 130 where Ctrl-C ended the answer."""

    endpoint: str = Field(description="name of the stack, else the URL")
    slice: str = Field(description="the slice that was asked; empty where the gateway chose, or there is one server")
    model: str = Field(description="the name that was asked for: a model or an adapter")
    content: str = Field(description="the answer")
    reasoning: str = Field(description="what the model thought before it, where it was asked to think")
    tool_calls: list[ToolCallData] = Field(description="in the order in which the model wrote them")
    parsed: Any = Field(description="the answer as data, where a schema was given; null: none was, or it is not JSON")
    problem: str = Field(description="why the answer is not what was asked for; empty where it is")
    notes: list[str] = Field(description="what a reader of the answer should know")
    finish_reason: str = Field(
        description="`stop`: the model ended; `length`: cut at the most tokens; `tool_calls`; empty: left before its end"
    )
    interrupted: bool = Field(description="whether Ctrl-C ended it; then all below counts what came until then")
    prompt_tokens: int = Field(description="by the server's count; 0 where it had not counted yet")
    output_tokens: int = Field(description="reasoning included")
    reasoning_tokens: int = Field(description="of these, spent on reasoning")
    first_token_s: Number = Field(
        description="from sending the question to the first piece of the answer, measured here"
    )
    tokens_per_second: Number | None = Field(
        description="after the first token, measured here; null where the answer is too short or came in one piece"
    )
    total_s: Number = Field(description="from sending the question to the end of the answer")
