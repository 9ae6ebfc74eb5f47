"""Every error that a user may read, in one screen.

A message says the fact, what would have happened, and what to write instead. None of these ever shows a traceback:
the command line and the Pulumi program print `str(error)` and stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from infra.suggestions import printable


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with what a user wrote. `key` is the full setting path, e.g. serving.maxModelLen."""

    key: str
    fact: str
    consequence: str = ""
    fix: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (f"{self.key}: {self.fact}", self.consequence, self.fix) if part)


class Gemma4Error(Exception):
    """Base of all errors meant for a user. Whoever prints one finds nothing in it that a terminal would obey, though it
    quotes files, servers and logs."""

    def __str__(self) -> str:
        return printable(super().__str__())


class CatalogError(Gemma4Error):
    """A catalog file contradicts its own rules: a fault of this program, not of its user."""


class SettingsError(Gemma4Error):
    """A stack file or command line that cannot be read as settings; carries every fault found, not only the first."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))

    @classmethod
    def of(cls, key: str, fact: str, consequence: str = "", fix: str = "") -> Self:
        """The error with a single fault."""
        return cls([Fault(key, fact, consequence, fix)])


class RefusedError(Gemma4Error):
    """Well-formed settings that cannot work: carries the reasons of the plan's refusal."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class GoogleError(Gemma4Error):
    """A Google API said no, or did not answer: one sentence with the fix. `status` is the HTTP status, 0 if none;
    `maybe_done` says that the request may have been carried out all the same."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "", maybe_done: bool = False) -> None:
        self.status = status
        self.reason = reason
        self.maybe_done = maybe_done
        super().__init__(message)


class ServingError(Gemma4Error):
    """A deployed server does not serve as planned. `stage` is the step of the check that failed, `status` the HTTP
    status of the answer that showed it, 0 if there was none."""

    def __init__(self, message: str, *, stage: str = "", status: int = 0) -> None:
        self.stage = stage
        self.status = status
        super().__init__(message)
