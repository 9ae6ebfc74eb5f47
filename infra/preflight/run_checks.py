"""Asks preflight checks side by side, a few at a time."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue

from infra.errors import GoogleError
from infra.google.api_errors import NO_ANSWER
from infra.preflight.preflight_check import PreflightCheck, PreflightResult, unknown
from infra.preflight.subject import Subject

_COMMAND = re.compile(r"`(gcloud [^`]+)`")
"""The command that an error of Google's names as its remedy."""
AT_ONCE = 8
"""Checks that are asked at the same time: Google's APIs take many more, a thread costs a session."""


def run_checks(
    checks: Sequence[PreflightCheck],
    subject: Subject,
    *,
    first: str = "",
    done: Callable[[PreflightCheck, PreflightResult], None] = lambda check, result: None,
) -> dict[str, PreflightResult]:
    """Return the result of each check by its id, in the order of `checks`. `done` is called as each one ends.

    The check named `first` is asked alone before all others: where it fails, what asks Google is not asked. Raises GoogleError
    where Google cannot be reached at all.
    """
    results: dict[str, PreflightResult] = {}
    head = next((check for check in checks if check.id == first), None)
    if head is not None:
        results[head.id] = _asked(head, subject, offline_raises=True)
        done(head, results[head.id])
    shut = head is not None and results[head.id].state == "failed"
    asked = []
    for check in checks:
        if check is head:
            continue
        if shut and check.google:
            results[check.id] = unknown(f"not asked, because {first} failed")
            done(check, results[check.id])
        else:
            asked.append(check)
    for check, result in _side_by_side(sorted(asked, key=lambda one: -one.seconds), subject):
        results[check.id] = result
        done(check, result)
    return {check.id: results[check.id] for check in checks}


def _side_by_side(
    checks: Sequence[PreflightCheck], subject: Subject
) -> Iterator[tuple[PreflightCheck, PreflightResult]]:
    """Yield results as they come. The threads are daemons: after Ctrl-C the process does not wait for their answers."""
    waiting, ended = (
        SimpleQueue[PreflightCheck](),
        SimpleQueue[tuple[PreflightCheck, PreflightResult | BaseException]](),
    )
    for check in checks:
        waiting.put(check)

    def work() -> None:
        while True:
            try:
                check = waiting.get_nowait()
            except Empty:
                return
            try:
                ended.put((check, _asked(check, subject)))
            except BaseException as error:  # a fault of the check is raised where it can be seen
                ended.put((check, error))

    for number in range(min(AT_ONCE, len(checks))):
        threading.Thread(target=work, name=f"preflight-{number}", daemon=True).start()
    for _ in checks:
        check, result = ended.get()
        if isinstance(result, BaseException):
            raise result
        yield check, result


def _asked(check: PreflightCheck, subject: Subject, *, offline_raises: bool = False) -> PreflightResult:
    try:
        return check.ask(subject)
    except GoogleError as error:
        if offline_raises and error.reason in NO_ANSWER:
            raise
        command = _COMMAND.search(str(error))
        return unknown(str(error), command[1] if command else "")
