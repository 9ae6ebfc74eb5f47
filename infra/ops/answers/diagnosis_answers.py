"""The answer of `gemma4 diagnose`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infra.ops.answers.answer_base import JsonAnswer
from infra.planning.report.data_models import Data


class FindingRow(Data):
    """One thing that is wrong."""

    id: str = Field(description="row of the catalog of failures (`infra/catalog/failures.toml`), or a name of its own")
    where: str = Field(description="the place that shows it")
    cause: str = Field(description="half a sentence")
    fix: str = Field(description="what to do, with the setting to write")
    sure: Literal["sure", "likely", "guess", "vague"] = Field(
        description="`sure`: its own message says so; `likely`: others report that message for it; `guess`: concluded from a "
        "figure or from what usually lies behind it; `vague`: only that something failed"
    )
    evidence: str = Field(description="the line that shows it, without tokens and keys")
    at: str = Field(description="moment of that line, as its log has it; empty where it has none")
    times: int = Field(description="how many lines show it")
    past: bool = Field(description="whether a server has started since: then it counts no more")
    thread: str = Field(description="address of a public report of it; empty without one")


class LookRow(Data):
    """A place that was looked at, or could not be."""

    what: str = Field(description="the place")
    seen: str = Field(description="what was seen there; empty where it could not be looked at")
    trouble: str = Field(description="why it could not be looked at; empty where it was")


class ModelSummary(Data):
    """What the served model said. It decides nothing."""

    model: str = Field(description="name that was asked")
    text: str = Field(description="its own words, at most 1,500 characters")


class DiagnosisAnswer(JsonAnswer):
    """What `gemma4 diagnose --json` prints. Exit code 0 only where `healthy` is true."""

    about: str = Field(description="the stack, the URL or the file")
    healthy: bool = Field(description="nothing is wrong now, and all could be looked at")
    findings: list[FindingRow] = Field(description="the most exact first, those that are past last; at most 6")
    looked: list[LookRow] = Field(description="everything that was looked at, and what could not be")
    model_summary: ModelSummary | None = Field(
        description="with `--ask`; null without it, or where the model gave none"
    )
