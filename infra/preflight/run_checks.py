"""Asks preflight checks side by side, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from infra.errors import GoogleError
from infra.google.api_errors import NO_ANSWER
from infra.preflight.preflight_check import PreflightCheck, PreflightResult, unknown
from infra.preflight.subject import Subject

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
    pool = ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="preflight")
    try:
        running = {pool.submit(_asked, check, subject): check for check in asked}
        for one in as_completed(running):
            results[running[one].id] = one.result()
            done(running[one], results[running[one].id])
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # after Ctrl-C nobody waits for answers
    return {check.id: results[check.id] for check in checks}


def _asked(check: PreflightCheck, subject: Subject, *, offline_raises: bool = False) -> PreflightResult:
    try:
        return check.ask(subject)
    except GoogleError as error:
        if offline_raises and error.reason in NO_ANSWER:
            raise
        return unknown(str(error))
