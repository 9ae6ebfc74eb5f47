"""The answer of `gemma4 status`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from infra.ops.answers.answer_base import JsonAnswer
from infra.planning.report.data_models import Data


class CheckRow(Data):
    """A serving check in the stack's state."""

    name: str = Field(description="of the resource")
    url: str = Field(description="where it asked")
    spec: str = Field(description="hash of the specification that was checked")
    at: str = Field(description="moment of the check by the state's own record; empty where it has none")
    result: dict[str, Any] = Field(
        description="what it measured, as the check wrote it: `vllm_version`, `ready_s`, `ttft_s`, `tokens_per_second` and "
        "so on; or `skipped`, the reason why nothing was asked"
    )


class Status(JsonAnswer):
    """What `gemma4 status STACK --json` prints."""

    stack: str = Field(description="name of the stack")
    planned_spec: str = Field(description="hash of the specification that the files here plan")
    checks: list[CheckRow] = Field(description="the last check of each server; empty where nothing is deployed")
