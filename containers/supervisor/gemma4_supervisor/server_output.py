"""The server's output, read from docker at intervals: each line once, except those that only log the supervisor's probes."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

from .docker import DockerError
from .server_container import ServerContainer

MOST_LINES = 500
"""Read at once. Where a server has printed more, the oldest are skipped; docker has all."""
FIRST_LINES = 100
"""Read of a container that ran before this process."""
_SEVERITY = re.compile(r"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
_OWN_PROBE = re.compile(r'"GET /(health|metrics) HTTP/[\d.]+" 200')


class ServerOutput:
    """Calls `add` with severity, time and text of each line."""

    def __init__(self, container: ServerContainer, add: Callable[[str, str, str], None]) -> None:
        self._container, self._add = container, add
        self._last = ""
        self._lock = threading.Lock()

    def collect(self) -> None:
        """Read the new lines. Also to be called before a container is removed: its lines go with it."""
        with self._lock:
            try:
                lines = self._container.lines(self._last, MOST_LINES if self._last else FIRST_LINES)
            except DockerError:
                return  # the lines are read at the next call
            read = self._last
            for stamp, text in lines:
                if stamp > read:  # not `self._last`: two lines may have one time
                    self._last = stamp
                    if text and not _OWN_PROBE.search(text):
                        self._add(severity(text), stamp, text)


def severity(line: str) -> str:
    """Return the severity that vLLM writes near the beginning of a line, else DEFAULT, Cloud Logging's word for none."""
    found = _SEVERITY.search(line[:60])
    return found[1] if found else "DEFAULT"
