"""Where everything that a command prints passes: what a terminal would obey is spelled out, and no encoding is too small."""

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
"""How our own signs are written where the output's encoding has none of them; anything else becomes a question mark."""


def _spelled(error: UnicodeError) -> tuple[str, int]:
    """A codec's error handler: the text to write for the characters that could not be encoded, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_SIGNS.get(char, "?") for char in error.object[error.start : error.end]), error.end


codecs.register_error("gemma4", _spelled)


@contextmanager
def safe_output() -> Iterator[None]:
    """Standard output and error that show any text, for as long as the block runs. Output that is closed is none."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Safe(stream) if stream else io.StringIO() for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def abandon_output() -> None:
    """Let go of what could not be written, so that the end of the process does not try again and complain."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Safe(io.TextIOBase):
    """A text stream before another one."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream
        """Where rich writes its colours: what stands between them is made printable before, by `report.terminal`."""
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="gemma4")

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.rich_proxied_file.encoding

    def write(self, text: str) -> int:
        return self.rich_proxied_file.write(printable(text))

    def flush(self) -> None:
        self.rich_proxied_file.flush()

    def isatty(self) -> bool:
        return self.rich_proxied_file.isatty()

    def fileno(self) -> int:
        return self.rich_proxied_file.fileno()
