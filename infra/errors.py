"""Every class of error that a user may read, and the faults that they carry.

A message says the fact, what would have happened, and what to write instead. The command line and the Pulumi program
print `str(error)` without a traceback.
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


@dataclass(frozen=True)
class Findings:
    """What a check found: refusals stop a deployment, warnings are printed beside the plan."""

    refusals: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()

    def __add__(self, other: Findings) -> Findings:
        return Findings(self.refusals + other.refusals, self.warnings + other.warnings)


class Gemma4Error(Exception):
    """Base of all errors meant for a user. They quote files, servers and logs, so `str` spells out every character that a
    terminal would obey."""

    def __str__(self) -> str:
        return printable(super().__str__())


class CatalogError(Gemma4Error):
    """A catalog file contradicts its own rules: a fault of this program, not of its user."""


class SettingsError(Gemma4Error):
    """A stack file or command line that cannot be read as settings. Carries every fault found."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))

    @classmethod
    def of(cls, key: str, fact: str, consequence: str = "", fix: str = "") -> Self:
        """Return the error with a single fault."""
        return cls([Fault(key, fact, consequence, fix)])


class RefusedError(Gemma4Error):
    """Well-formed settings that cannot work. Carries the refusals of the plan."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class GoogleError(Gemma4Error):
    """A Google API refused, or did not answer: one sentence with the fix. `status` is the HTTP status, 0 without an answer;
    `maybe_done` says that the request may have been carried out although it failed."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "", maybe_done: bool = False) -> None:
        self.status = status
        self.reason = reason
        self.maybe_done = maybe_done
        super().__init__(message)


class ServingError(Gemma4Error):
    """A deployed server does not serve as planned. `stage` is the step of the check that failed, `status` the HTTP status
    of the answer, 0 without one."""

    def __init__(self, message: str, *, stage: str = "", status: int = 0) -> None:
        self.stage = stage
        self.status = status
        super().__init__(message)
