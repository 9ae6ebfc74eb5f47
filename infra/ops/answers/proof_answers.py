"""The answer of `gemma4 check`, and what a check measured beside what was predicted."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infra.ops.answers.answer_base import JsonAnswer
from infra.planning.report.data_models import BandData, Data, Number


class FigureRow(Data):
    """One figure of a check, predicted and measured."""

    figure: Literal["KV cache", "first token", "alone", "ready"] = Field(
        description="`first token` of a lone request, the network included; `alone`: speed of its stream; `ready`: the wait "
        "for the server, predicted from zero"
    )
    unit: Literal["tokens", "s", "tok/s"] = Field(description="of all values of this figure")
    predicted: BandData | None = Field(description="null of a server that no stack plans")
    measured: Number | None = Field(description="null where the server does not say")
    in_band: bool | None = Field(
        description="whether it lies in the predicted band; null where the two are not the same thing: the network is in the "
        "first token, and a server that ran already was ready at once"
    )


class ServerCheckRow(Data):
    """The check of one server."""

    name: str = Field(description="name of the slice; empty of the only server")
    url: str = Field(description="where it was asked, path included")
    passed: bool = Field(description="whether it does what is expected of it")
    stage: str = Field(description="the stage that failed: ready, models, chat, tools …; empty where it passed")
    error: str = Field(description="what it answered, the likely cause and the fix; empty where it passed")
    log: list[str] = Field(description="the server's last log lines; empty where it passed or nothing can be read")
    vllm_version: str = Field(description="as the server says it; empty where it does not")
    figures: list[FigureRow] = Field(description="what was measured; empty where it failed")
    notes: list[str] = Field(description="what a reader should know beside the figures")
    duration_s: Number | None = Field(description="of the whole check; null where it failed")


class CheckAnswer(JsonAnswer):
    """What `gemma4 check --json` prints. Exit code 1 where a server failed."""

    endpoint: str = Field(description="the stack's name, else the URL")
    passed: bool = Field(description="whether every server passed")
    expected: list[str] = Field(
        description="what was expected beside text: adapters, reasoning, tools, image, audio, video; of a URL what the "
        "server takes"
    )
    servers: list[ServerCheckRow] = Field(description="one a slice, else one")
    next: str = Field(description="what to type now; empty where all passed")
