"""Tries in a row with growing waits, until something works or it is time to give up."""

from __future__ import annotations

import email.utils
import random
import time
from collections.abc import Callable
from typing import TypeVar

from containers.shared.web import TRANSIENT_ERRORS, backoff, reason_of

from .exit_codes import CopyFailure, ExitCode
from .job_log import log

LONGEST_WAIT_S = 300.0
"""Also where a server asks for a longer one."""
BACKOFF_CAP_S = 60.0

T = TypeVar("T")


class Retries:
    """Counts the failures of one thing; progress starts the count anew."""

    def __init__(self, what: str, tries: int, first_wait_s: float) -> None:
        self._what, self._tries, self._first_wait_s, self._failures = what, tries, first_wait_s, 0

    def progressed(self) -> None:
        """Forget earlier failures."""
        self._failures = 0

    def wait(self, problem: str, at_least_s: float = 0.0) -> None:
        """Wait after a failure. Raises CopyFailure after too many."""
        self._failures += 1
        if self._failures > self._tries:
            fact = f"{self._what}: {problem}; gave up after {self._tries} retries. Run again: what is there stays."
            raise CopyFailure(ExitCode.GAVE_UP, fact)
        grown_s = backoff(self._first_wait_s, BACKOFF_CAP_S, self._failures) * random.uniform(0.5, 1.0)  # noqa: S311
        wait_s = min(LONGEST_WAIT_S, max(at_least_s, grown_s))
        log("WARNING", f"{self._what}: {problem}; trying again in {wait_s:.1f} s.", event="retry")
        time.sleep(wait_s)

    def wait_after(self, error: BaseException, where: str = "") -> None:
        """Wait after a transient error, as long as the server asked for. Raises CopyFailure after too many."""
        self.wait(f"{reason_of(error)}{where}", getattr(error, "retry_after_s", 0.0))


def retry(retries: Retries, attempt: Callable[[], T]) -> T:
    """Return what `attempt` returns, calling it again after each transient error. Raises CopyFailure after too many."""
    while True:
        try:
            return attempt()
        except TRANSIENT_ERRORS as error:
            retries.wait_after(error)


def retry_after_seconds(retry_after: str) -> float:
    """Return the seconds of a Retry-After header, which is a number of seconds or a date; 0 for anything else."""
    if retry_after.strip().isdigit():
        return float(retry_after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0
