"""What a preflight check is, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from infra.preflight.subject import Subject

PreflightState = Literal["ok", "failed", "unknown", "not needed"]


@dataclass(frozen=True)
class PreflightResult:
    """What one check found: a fact; for one that failed, what would have happened and the command that mends it."""

    state: PreflightState
    fact: str
    consequence: str = ""
    fix: str = ""


@dataclass(frozen=True)
class PreflightCheck:
    """One question. `ask` raises GoogleError where it cannot be answered, which makes the result unknown."""

    id: str
    title: str
    ask: Callable[[Subject], PreflightResult]
    seconds: float = 0.3
    """About how long the answer takes: a request to Google takes 0.1 to 0.3 s."""
    google: bool = True
    """Whether it asks Google, and so has nothing to ask without credentials."""
    key: str = ""
    """The setting that it is about, for the error of `pulumi up`; empty: the check's own id."""
    advisory: bool = False
    """Whether few callers may ask it: unknown then says nothing against the stack, and does not change the exit code."""


def ok(fact: str) -> PreflightResult:
    """Return the result of a check that found nothing in the way."""
    return PreflightResult("ok", fact)


def failed(fact: str, consequence: str, fix: str) -> PreflightResult:
    """Return the result of a check that found what would stop `pulumi up`."""
    return PreflightResult("failed", fact, consequence, fix)


def unknown(fact: str, fix: str = "") -> PreflightResult:
    """Return the result of a check that could not be asked or whose answer says too little."""
    return PreflightResult("unknown", fact, fix=fix)


def not_needed(fact: str) -> PreflightResult:
    """Return the result of a check of something that the plan does not have."""
    return PreflightResult("not needed", fact)
