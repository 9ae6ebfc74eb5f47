"""Runs the Pulumi CLI for a command that changes a stack."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from infra.errors import Gemma4Error

Words = Sequence[str]


def run_pulumi(commands: Sequence[Words], root: Path) -> None:
    """Run commands of Pulumi one after the other in the project's folder; what they print goes to standard error, since
    standard output holds the answer. Raises Gemma4Error at the first that fails, with what is left to do."""
    if shutil.which("pulumi") is None:
        raise Gemma4Error("the Pulumi CLI is not on the PATH, so nothing was changed; install it.")
    for place, command in enumerate(commands):
        print(f"$ {spelled(command)}", file=sys.stderr, flush=True)
        code, interrupted = _ended(command, root)
        if interrupted:
            raise Gemma4Error(f"interrupted; go on with: {_left(commands[place:])}")
        if code:
            raise Gemma4Error(
                f"{spelled(command)} ended with {code}; when it is mended, go on with: {_left(commands[place:])}"
            )


def spelled(command: Words) -> str:
    """Return a command as a shell takes it."""
    return shlex.join(command)


def _ended(command: Words, root: Path) -> tuple[int, bool]:
    """Return the exit code of a command, and whether Ctrl-C was typed meanwhile. Pulumi gets Ctrl-C too, ends what it is at
    and gives back the stack's lock: it is waited for, where `subprocess.run` would kill it a quarter of a second later."""
    typed = threading.Event()
    with _ctrl_c_noted(typed):
        code = subprocess.run([*command], cwd=root, stdout=_errors(), check=False).returncode  # noqa: S603
    return code, typed.is_set()


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
