"""Shows an answer while it is written: the answer on standard output, reasoning and statistics on standard error.

So a pipe gets the answer and nothing else. What the model writes goes past the streams of `safe_output`, which would also
spell out spaces and joiners that many languages need: here only what steers a terminal is spelled out, and a pipe gets
carriage returns as they came, since JSON may hold some.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

from infra.ops.answers.conversation_answers import ToolCallData
from infra.planning.units import read_seconds, read_tokens_per_second
from infra.serving.chat_answer import Piece
from infra.suggestions import readable


class LiveAnswer:
    """Prints one answer piece by piece; `end` brings the cursor to a new line."""

    def __init__(self) -> None:
        self._errors = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._thinking = False
        self._last = "\n"
        """The last character on standard output; a line end before the first."""

    def show(self, piece: Piece) -> None:
        """Print what a piece adds, at once; of tool calls nothing, since only a whole one can be read."""
        if piece.reasoning:
            self._dim(piece.reasoning if self._thinking else f"thinking: {piece.reasoning.lstrip()}")
            self._thinking = True
        if piece.content:
            self._end_thinking()
            stream = _beneath(sys.stdout)
            stream.write(readable(piece.content, kept="" if stream.isatty() else "\r"))
            stream.flush()
            self._last = piece.content[-1]

    def end(self, calls: Sequence[ToolCallData] = ()) -> None:
        """End the last line, and print tool calls, each as a JSON object on a line of its own."""
        self._end_thinking()
        if self._last != "\n":
            print(flush=True)
        for call in calls:
            print(json.dumps(call.model_dump(), ensure_ascii=False), flush=True)

    def _end_thinking(self) -> None:
        if self._thinking:
            print("\n", file=sys.stderr, flush=True)
            self._thinking = False

    def _dim(self, text: str) -> None:
        if self._errors.is_terminal:
            self._errors.print(Text(readable(text), style="dim"), end="", soft_wrap=True)
        else:
            _beneath(sys.stderr).write(readable(text))


def _beneath(stream: TextIO) -> TextIO:
    """Return the stream under a safe one."""
    found: TextIO = getattr(stream, "rich_proxied_file", stream)
    return found


def statistics(
    *,
    first_token_s: float,
    tokens_per_second: float | None,
    prompt_tokens: int,
    output_tokens: int,
    reasoning_tokens: int,
    total_s: float,
) -> str:
    """Return the line below an answer: first token, speed, tokens, time."""
    thought = f", {reasoning_tokens:,} of them thinking" if reasoning_tokens else ""
    figures = (
        f"first token {read_seconds(first_token_s)}" if output_tokens else "no token",
        read_tokens_per_second(tokens_per_second) if tokens_per_second is not None else "",
        f"{prompt_tokens:,} prompt + {output_tokens:,} output tokens{thought}",
        read_seconds(total_s),
    )
    return " · ".join(filter(None, figures))


def tell(*lines: str) -> None:
    """Print lines on standard error."""
    for line in lines:
        print(line, file=sys.stderr, flush=True)
