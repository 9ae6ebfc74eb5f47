"""Runs the Pulumi CLI for a command that changes a stack."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from infra.errors import Gemma4Error

Words = Sequence[str]
_LOCKED = ("the stack is currently locked", "Another update is currently in progress")
"""How Pulumi says that another one is at work on the stack: with a state in a file or bucket, and with Pulumi Cloud's."""
_CHUNK, _KEPT_CHUNKS = 4096, 50


def run_pulumi(commands: Sequence[Words], root: Path) -> None:
    """Run commands of Pulumi one after the other in the project's folder; what they print goes to standard error, since
    standard output holds the answer. Raises Gemma4Error at the first that fails, with what is left to do."""
    if shutil.which("pulumi") is None:
        raise Gemma4Error("the Pulumi CLI is not on the PATH, so nothing was changed; install it.")
    for place, command in enumerate(commands):
        print(f"$ {spelled(command)}", file=sys.stderr, flush=True)
        ended = _ended(command, root)
        if ended.interrupted:
            raise Gemma4Error(f"interrupted; go on with: {_left(commands[place:])}")
        if ended.code and any(words in ended.said for words in _LOCKED):
            raise Gemma4Error(
                "another Pulumi is at work on this stack, so this one changed nothing; when it has ended, go on with: "
                f"{_left(commands[place:])}. If it died, as the lines above say when it began: pulumi cancel"
            )
        if code := ended.code:
            raise Gemma4Error(
                f"{spelled(command)} ended with {code}; when it is mended, go on with: {_left(commands[place:])}"
            )


def spelled(command: Words) -> str:
    """Return a command as a shell takes it."""
    return shlex.join(command)


@dataclass(frozen=True)
class _Ended:
    """How a command ended; `said` is the end of what it wrote to standard error."""

    code: int
    interrupted: bool
    said: str


def _ended(command: Words, root: Path) -> _Ended:
    """Run a command and return how it ended. Pulumi gets Ctrl-C too, ends what it is at and gives back the stack's lock: it is
    waited for, where `subprocess.run` would kill it a quarter of a second later."""
    typed, said, errors = threading.Event(), deque[bytes](maxlen=_KEPT_CHUNKS), _errors()
    with (
        _ctrl_c_noted(typed),
        subprocess.Popen([*command], cwd=root, stdout=errors, stderr=subprocess.PIPE) as process,  # noqa: S603
    ):
        assert process.stderr is not None  # noqa: S101 it is a pipe
        while some := os.read(
            process.stderr.fileno(), _CHUNK
        ):  # not by lines: a question for a passphrase ends without one
            said.append(some)
            _write(errors, some)
    return _Ended(process.returncode, typed.is_set(), b"".join(said).decode(errors="replace"))


def _write(descriptor: int, some: bytes) -> None:
    with suppress(OSError):  # nobody reads any more; Pulumi goes on
        if descriptor >= 0:
            os.write(descriptor, some)


@contextmanager
def _ctrl_c_noted(typed: threading.Event) -> Iterator[None]:
    """Set `typed` at Ctrl-C, and nothing else. Only the main thread hears of it; elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: typed.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _left(commands: Sequence[Words]) -> str:
    return " && ".join(map(spelled, commands))


def _errors() -> int:
    """Return the descriptor of standard error: Pulumi writes to it without this program's streams between."""
    stream = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
    try:
        return int(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return subprocess.DEVNULL
