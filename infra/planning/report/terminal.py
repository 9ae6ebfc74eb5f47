"""Where text goes: a terminal in its own width and colours, anything else in a fixed width, plain."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType

WIDTH = 110


def show(*parts: RenderableType) -> None:
    """Print to standard output."""
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(*parts, sep="\n")
    else:
        print(plain(*parts))


def plain(*parts: RenderableType) -> str:
    """As text of at most 110 columns, without colours and without blanks at the ends of lines."""
    buffer = io.StringIO()
    Console(file=buffer, width=WIDTH, color_system=None, highlight=False).print(*parts, sep="\n")
    return "\n".join(line.rstrip() for line in buffer.getvalue().rstrip().splitlines())
