"""Reads what somebody types: with line editing and earlier lines on a terminal, as plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

PROMPT, FURTHER = "> ", "… "
Typed = Iterator[str | None]


def typed_lines(commands: Sequence[str] = ()) -> Typed:
    """Yield each line as it is typed until the end of input; None where Ctrl-C has taken a line back. A line that ends in a
    backslash goes on in the next. On a terminal Tab completes `commands`, and nothing is kept after the end."""
    if not sys.stdin.isatty():
        yield from _joined(_plain_line)
        return
    with suppress(ImportError):  # Windows has none
        _edit_lines(commands)
    yield from _joined(_prompted_line)


def _joined(read: Callable[[str], str]) -> Typed:
    said = ""
    while True:
        try:
            line = read(FURTHER if said else PROMPT)
        except KeyboardInterrupt:
            if not sys.stdin.isatty():
                raise
            said = ""
            yield None
            continue
        except EOFError:
            if said:
                yield said
            return
        if line.endswith("\\"):
            said += line[:-1] + "\n"
        else:
            yield said + line
            said = ""


def _plain_line(_: str) -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\r\n")


def _prompted_line(prompt: str) -> str:
    if sys.stdout.isatty():
        return input(prompt)
    print(prompt, end="", file=sys.stderr, flush=True)  # standard output holds answers alone
    return input()


def _edit_lines(commands: Sequence[str]) -> None:
    import readline

    def complete(text: str, number: int) -> str | None:
        fitting = [command for command in commands if text and command.startswith(text)]
        return fitting[number] if number < len(fitting) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" ")
    readline.parse_and_bind("tab: complete")
