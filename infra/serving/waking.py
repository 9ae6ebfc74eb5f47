"""Waits for a server that may have scaled to zero: the request that asks for it starts it."""

from __future__ import annotations

import time
from collections.abc import Callable

from infra.serving.client import ServingClient
from infra.serving.readiness import POLL_S
from infra.serving.server_errors import AnswerError, FailureKind

WAKE_LIMIT_S = 1800.0
"""For how long a start is waited for where no plan says how long it may take."""
_STARTING = frozenset({FailureKind.SILENT, FailureKind.CUT, FailureKind.BUSY, FailureKind.UNAVAILABLE})


def until_awake(
    client: ServingClient,
    *,
    limit_s: float = WAKE_LIMIT_S,
    progress: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Return the seconds until the server said that it is up. Raises AnswerError at once where waiting cannot help, as where
    nothing listens or a token is refused, and after `limit_s` otherwise. `progress` gets what the server says meanwhile."""
    began = clock()
    while True:
        try:
            client.health()
        except AnswerError as error:
            if error.kind not in _STARTING or clock() - began > limit_s:
                raise
            progress(str(error))
            sleep(POLL_S)
        else:
            return clock() - began
