"""Says on standard error what a command waits for, as soon as it takes longer than two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from infra.suggestions import printable

QUIET_S = 2.0
"""A wait that is shorter is not worth a word."""
_REDRAWN_S = 1.0
_REPEATED_S = 15.0


@contextmanager
def waiting(what: str, *, quiet_s: float = QUIET_S) -> Iterator[Callable[[str], None]]:
    """Say that `what` is being waited for, with the seconds so far: one line redrawn on a terminal, a line now and then
    elsewhere. Yields a function that changes the words, e.g. to say how far it is."""
    words = [printable(what)]
    ended = threading.Event()
    stream = getattr(sys.stderr, "rich_proxied_file", sys.stderr)  # \r steers the terminal, as it should here
    began = time.monotonic()

    def say() -> None:
        terminal = stream.isatty()
        pause, said = quiet_s, ""
        while not ended.wait(pause):
            line = f"{words[0]} … {time.monotonic() - began:.0f} s"
            with suppress(OSError, ValueError):
                stream.write(f"\r{line}{' ' * (len(said) - len(line))}" if terminal else f"{line}\n")
                stream.flush()
            said, pause = line, _REDRAWN_S if terminal else _REPEATED_S
        if terminal and said:
            with suppress(OSError, ValueError):
                stream.write(f"\r{' ' * len(said)}\r")
                stream.flush()

    def change(new: str) -> None:
        words[0] = printable(new)

    speaker = threading.Thread(target=say, daemon=True)
    speaker.start()
    try:
        yield change
    finally:
        ended.set()
        speaker.join()
