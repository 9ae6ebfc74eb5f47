"""Printing: to a terminal in its own width and colours, to anything else as plain text in a fixed width."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from infra.suggestions import printable

NARROW = 80
"""Columns of what is printed about a stack that runs, where the output is not a terminal."""
WIDTH = 110
"""Columns of output that is not a terminal."""


def width(otherwise: int = WIDTH) -> int:
    """Return how many columns the terminal has, or `otherwise` where the output is not one."""
    console = Console()
    return console.width if console.is_terminal else otherwise


def unbroken(lines: Iterable[str]) -> Text:
    """Return lines for pasting, which are neither folded nor padded, however long they are."""
    return Text("\n".join(lines), no_wrap=True, overflow="ignore")


def show(*parts: RenderableType, columns: int = WIDTH) -> None:
    """Print to standard output, in `columns` where it is not a terminal."""
    console = Console(highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        _print(console, parts)
    else:
        print(plain(*parts, columns=columns))


def plain(*parts: RenderableType, columns: int = WIDTH) -> str:
    """Return text of `columns`, without colours and without blanks at the ends of lines."""
    buffer = io.StringIO()
    _print(Console(file=buffer, width=columns, color_system=None, highlight=False, markup=False, emoji=False), parts)
    return "\n".join(line.rstrip() for line in buffer.getvalue().rstrip().splitlines())


def _print(console: Console, parts: Iterable[RenderableType]) -> None:
    for part in parts:
        console.print(Printable(part), crop=not (isinstance(part, Text) and part.no_wrap))


@dataclass(frozen=True)
class Printable:
    """A part whose text cannot steer the terminal: such characters are spelled out, its colours stay."""

    part: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Segment]:
        part = Text(self.part) if isinstance(self.part, str) else self.part  # no word of a file is markup
        for segment in console.render(part, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)
