"""The answer of `gemma4 logs`."""

from __future__ import annotations

from pydantic import Field

from infra.ops.answers.answer_base import JsonAnswer
from infra.planning.report.data_models import Data


class LogLine(Data):
    """An entry of a log. With `--follow --json` each is printed on a line of its own."""

    at: str = Field(description="moment of the entry")
    severity: str = Field(description="Google's word, such as `ERROR`; `DEFAULT` where the writer gave none")
    source: str = Field(description="`service`, `gateway`, `weights`, or the name of a slice")
    text: str = Field(description="what was written, without tokens and keys; of a long entry the beginning")


class Logs(JsonAnswer):
    """What `gemma4 logs STACK --json` prints."""

    stack: str = Field(description="name of the stack")
    since: str = Field(description="moment of the oldest entry that was asked for")
    older: bool = Field(description="whether there are more entries since then, older than those listed")
    entries: list[LogLine] = Field(description="the newest last, at most `--limit`")
