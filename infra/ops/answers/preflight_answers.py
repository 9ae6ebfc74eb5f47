"""The answer of `gemma4 preflight`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infra.ops.answers.answer_base import JsonAnswer
from infra.planning.report.data_models import Data


class ObstacleRow(Data):
    """A check that found what would stop `pulumi up`, or that could not be asked."""

    id: str = Field(description="of the check, as `--only` takes it")
    title: str = Field(description="the same for a reader")
    state: Literal["failed", "unknown"] = Field(
        description="`unknown`: it could not be asked, or the answer says too little"
    )
    fact: str = Field(description="what was found")
    consequence: str = Field(description="what would have happened")
    fix: list[str] = Field(
        description="what mends it, most of it a command; one of them is enough unless they are grants"
    )
    advisory: bool = Field(
        description="whether few callers may ask it: unknown then changes neither verdict nor exit code"
    )


class PassedRow(Data):
    """A check that found nothing in the way."""

    id: str = Field(description="of the check")
    fact: str = Field(description="what was found")


class Preflight(JsonAnswer):
    """What `gemma4 preflight STACK --json` prints."""

    stack: str = Field(description="name of the stack")
    project: str = Field(description="Google Cloud project that was asked about")
    caller: str = Field(description="who asked, as a member of grants; empty where the credentials do not tell")
    verdict: Literal["ready", "stopped", "unknown"] = Field(
        description="`stopped`: something would stop `pulumi up`; `unknown`: nothing is known to, but not all could be asked"
    )
    obstacles: list[ObstacleRow] = Field(description="those that failed, then those that could not be asked")
    passed: list[PassedRow] = Field(description="those that found nothing")
    not_needed: list[str] = Field(description="ids of checks of what the plan does not have")
