"""What all answers share: the number of their schema, how they are printed, and the answer that is a failure."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from infra.ops.terminal.json_output import SCHEMA, print_json
from infra.planning.report.data_models import Data, FaultData


class JsonAnswer(Data):
    """An object that a command prints."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    schema_: int = Field(SCHEMA, alias="schema", description="1")


class FailureAnswer(JsonAnswer):
    """What any command prints with `--json` where it has no answer: with exit code 2, and with any other failure."""

    verdict: Literal["bad settings", "refused", "failed"] = Field(description="`bad settings`, `refused` or `failed`")
    error: str = Field(description="all faults as lines")
    faults: list[FaultData] = Field(description="every one found")


def print_answer(answer: JsonAnswer) -> None:
    """Print an answer as JSON."""
    print_json(answer.model_dump(mode="json", by_alias=True))
