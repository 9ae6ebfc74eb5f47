"""Finds the known failures of the catalog in lines of a log, in answers of a server and in conditions of Google's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from infra.catalog import catalog
from infra.catalog.failures import KnownFailure, ShownIn

ERROR = re.compile(r"\b(?!RuntimeError: Engine core initialization failed)\w*(?:Error|Exception): .*")
"""The end of a traceback, which says what went wrong."""
_QUIET = re.compile(r"(?<![\w.])(?:INFO|DEBUG)(?::\s|:\S+?:| \d\d-\d\d \d\d:\d\d:\d\d)")
"""How vLLM, uvicorn and Python's logging mark a line that reports no failure. Such lines quote arguments and give advice
against failures that did not happen."""
_HEAD = 200
"""Characters of a line within which its level stands."""


@dataclass(frozen=True)
class FoundFailure:
    """A known failure, the numbers of the lines that show it, and the number of the one to quote."""

    failure: KnownFailure
    lines: tuple[int, ...]
    quoted: int


def find_failures(lines: Sequence[str], *places: ShownIn) -> list[FoundFailure]:
    """Return the known failures that show in `lines`, in the catalog's order of precedence; empty where none does.

    `places` is what the lines are: a log, answers or conditions. General failures are left out beside more exact ones.
    """
    loud = {number: line for number, line in enumerate(lines) if not is_quiet(line)}
    found: list[FoundFailure] = []
    for failure in catalog().failures.values():
        if not failure.patterns or not set(places) & set(failure.shows_in):
            continue
        if failure.general and any(not one.failure.general for one in found):
            continue
        at = tuple(number for number, line in loud.items() if failure.matches(line))
        if at:
            found.append(FoundFailure(failure, at, _telling(lines, at)))
            for number in at:  # a line is explained by the most exact failure alone
                del loud[number]
    return found


def first_failure(lines: Sequence[str], *places: ShownIn) -> KnownFailure | None:
    """Return the exact failure that takes precedence among those that show in `lines`; None where none does."""
    found = (one.failure for one in find_failures(lines, *places))
    return next((failure for failure in found if not failure.general), None)


def is_quiet(line: str) -> bool:
    """Return whether the line's own level says that it reports no failure."""
    return bool(_QUIET.search(line[:_HEAD]))


def _telling(lines: Sequence[str], numbers: Sequence[int]) -> int:
    """Return the number of the newest line that says what went wrong, else of the newest line."""
    return next((number for number in reversed(numbers) if ERROR.search(lines[number])), numbers[-1])
