"""How a run can end: the exit codes, as `--help` explains them, and the exception that carries one."""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """Codes 4, 5, 6, 8, 9 and 10 mean that another run would end in the same way."""

    OK = 0
    GAVE_UP = 1
    USAGE = 2
    MISMATCH = 3
    TOKEN = 4
    GATED = 5
    NOT_FOUND = 6
    BUCKET = 7
    MANIFEST = 8
    DISTRUST = 9
    ADAPTER = 10
    STOPPED = 143


class CopyFailure(Exception):
    """Ends the run with one line for its reader and the exit code of that kind of failure."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.code = code
