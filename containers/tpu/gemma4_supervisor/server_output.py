"""What the server prints, read from docker now and then: each line once, and none of those that only say that we asked."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

from .docker import Docker, DockerError

MOST_LINES = 500
"""Read at a time. A server that prints more keeps its last ones; docker has all."""
FIRST_LINES = 100
"""Of a container that was there before this process."""
_SEVERITY = re.compile(r"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
_OF_OUR_PROBE = re.compile(r'"GET /(health|metrics) HTTP/[\d.]+" 200')


class ServerOutput:
    """`add` gets severity, time and text of each line."""

    def __init__(self, docker: Docker, add: Callable[[str, str, str], None]) -> None:
        self._docker, self._add = docker, add
        self._last = ""
        self._lock = threading.Lock()

    def collect(self) -> None:
        """Read what is new. Also to be called before a container is taken away, which takes its lines along."""
        with self._lock:
            try:
                lines = self._docker.lines(self._last, MOST_LINES if self._last else FIRST_LINES)
            except DockerError:
                return  # the next time, then
            read = self._last
            for stamp, text in lines:
                if stamp > read:  # not `self._last`: two lines may be of one moment
                    self._last = stamp
                    if text and not _OF_OUR_PROBE.search(text):
                        self._add(severity(text), stamp, text)


def severity(line: str) -> str:
    """As vLLM writes it near the beginning of a line, else Cloud Logging's word for none."""
    found = _SEVERITY.search(line[:60])
    return found[1] if found else "DEFAULT"
