"""Waits until the servers of a machine that takes no new requests have answered those that they have."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .supervisor_settings import SupervisorSettings


class Drain(threading.Thread):
    """Calls `drained` once, unless undone before, with itself and how many requests were left, None where nobody knows.

    `requests` returns how many there are now, None where the server does not say.
    """

    def __init__(
        self, settings: SupervisorSettings, requests: Callable[[], float | None],
        drained: Callable[[Drain, float | None], None],
    ) -> None:  # fmt: skip
        super().__init__(name="drain", daemon=True)
        self._settings, self._requests, self._drained = settings, requests, drained
        self._undone = threading.Event()

    def undo(self) -> None:
        """Do not call `drained`."""
        self._undone.set()

    def run(self) -> None:
        end = time.monotonic() + self._settings.drain_cap_s
        self._undone.wait(self._settings.leave_s)  # requests may still come
        left: float | None = None
        while not self._undone.is_set():
            left = self._requests()
            if left == 0 or time.monotonic() >= end:
                self._drained(self, left)
                return
            self._undone.wait(self._settings.start_poll_s)
