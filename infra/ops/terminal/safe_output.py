"""The streams that every command prints to: characters that would steer the terminal are spelled out, and characters
that the encoding lacks are replaced."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from infra.suggestions import printable

_SIGNS = {"≈": "~", "−": "-", "–": "-", "±": "+-", "×": "x", "·": "-", "…": "...", "✅": "[fits]", "⛔": "[refused]"}
"""How the signs of plans are written where the encoding lacks them; anything else becomes a question mark."""


def _spelled(error: UnicodeError) -> tuple[str, int]:
    """Return the text for the characters that could not be encoded, and where to go on: an error handler of codecs."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_SIGNS.get(char, "?") for char in error.object[error.start : error.end]), error.end


codecs.register_error("gemma4", _spelled)


@contextmanager
def safe_output() -> Iterator[None]:
    """Let standard output and error show any text while the block runs. A closed stream swallows what is printed."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Safe(stream) if stream else io.StringIO() for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def abandon_output() -> None:
    """Drop what could not be written, so that the end of the process does not try again and print an error."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Safe(io.TextIOBase):
    """A text stream that makes text printable and hands it to another stream."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream
        """Rich writes here directly, colours included; `report.terminal` has made its text printable before."""
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="gemma4")

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.rich_proxied_file.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """How characters that the encoding lacks are handled; without it `input` would not edit lines."""
        return self.rich_proxied_file.errors

    def write(self, text: str) -> int:
        return self.rich_proxied_file.write(printable(text))

    def flush(self) -> None:
        self.rich_proxied_file.flush()

    def isatty(self) -> bool:
        return self.rich_proxied_file.isatty()

    def fileno(self) -> int:
        return self.rich_proxied_file.fileno()
