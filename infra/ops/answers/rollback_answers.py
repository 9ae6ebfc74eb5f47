"""The answer of `gemma4 rollback`."""

from __future__ import annotations

from pydantic import Field

from infra.ops.answers.answer_base import JsonAnswer
from infra.ops.answers.proof_answers import ServerCheckRow
from infra.planning.report.data_models import Data


class WayBackRow(Data):
    """A server that goes back."""

    server: str = Field(description="name of the slice; empty of a service")
    now: str = Field(
        description="what it serves: a revision, or the hash of a specification; empty where it is not known"
    )
    to: str = Field(description="what it goes back to")
    effect: str = Field(description="what happens to those who use it")


class RollbackAnswer(JsonAnswer):
    """What `gemma4 rollback STACK --json` prints. Exit code 1 where the check of what was gone back to failed."""

    stack: str = Field(description="name of the stack")
    done: bool = Field(description="whether it was carried out; false of a preview")
    changes: list[WayBackRow] = Field(description="one a server")
    checks: list[ServerCheckRow] = Field(description="as `servers` of `gemma4 check`, after it was carried out")
    next: str = Field(description="what to do then")
