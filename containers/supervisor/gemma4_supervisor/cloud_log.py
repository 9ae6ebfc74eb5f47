"""Sends the log and the server's output to Cloud Logging, where operators can read them without access to the machine.

A TPU machine sends nothing of this by itself. The attribute `gemma4-log` says under which names the entries are written
(README.md); without it nothing is sent. Nothing waits for the sending: a bounded number of entries is kept in memory, and
the oldest are lost while Cloud Logging does not accept them.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from containers.shared.web import TransientError, backoff

from .log import Log
from .metadata_server import LOG, MetadataServer
from .supervisor_settings import SupervisorSettings

NAME = "gemma4"
MOST_WAITING = 2000
MOST_SENT = 500
"""Entries in memory, and in one request, which may have 10 MB: a text has at most 2,000 characters (see `log`), each of
up to four bytes."""
LOST = (400, 413)
"""Answers to a request that will be refused however often it is sent. With `partialSuccess` its valid entries were taken."""
ANSWER_S = 10.0
LAST_S = 3.0
"""Timeout for the last entries of a process that ends."""
NODE = ("project_id", "location", "namespace", "node_id")
OWN = ("stack", "machine")

Entry = Mapping[str, Any]


class CloudLog(threading.Thread):
    """Sends the entries of `add` and `add_line`, which any thread may call. `collect` is called before each sending."""

    def __init__(self, settings: SupervisorSettings, metadata: MetadataServer, log: Log) -> None:
        super().__init__(name="cloud log", daemon=True)
        self._url = f"{settings.log_url}/v2/entries:write"
        self._every_s, self._cap_s = settings.log_s, settings.log_cap_s
        self._metadata, self._log = metadata, log
        self._waiting: deque[Entry] = deque(maxlen=MOST_WAITING)
        self._going: list[Entry] = []
        self._sending = threading.Lock()
        self._mark, self._numbers = os.urandom(4).hex(), itertools.count()
        self._names: dict[str, Any] | None = None
        self._has_refused = False
        self.collect: Callable[[], None] = lambda: None

    def add(self, entry: Mapping[str, Any]) -> None:
        """Add an entry of the log, from which secrets are removed already."""
        payload = {key: value for key, value in entry.items() if key not in ("severity", "time")}
        # Numbered, as entries with one time are ordered by their ids, and a request may arrive twice.
        self._waiting.append(_entry(entry["severity"], _now(), f"{self._mark}-{next(self._numbers):09d}", payload))

    def add_line(self, server: str, severity: str, stamp: str, text: str) -> None:
        """Add a line that a server printed at `stamp`. Read again by another supervisor, it is still the same entry.

        `server` is blank for a machine's only one.
        """
        mark = hashlib.sha256(f"{server} {stamp} {text}".encode()).hexdigest()[:16]
        label = {"server": server} if server else {}
        payload = {"event": "output", **label, "message": self._log.redacted(text)}
        self._waiting.append(_entry(severity, stamp, mark, payload))

    def run(self) -> None:
        failures = 0
        while True:
            time.sleep(backoff(self._every_s, self._cap_s, max(1, failures)))
            self.collect()
            try:
                self._send(ANSWER_S)
                failures = 0
            except TransientError as error:
                failures += 1
                if failures == 1:
                    self._log.warning("report", f"Cloud Logging does not accept entries now: {error}")

    def flush(self) -> None:
        """Send what waits, because this process is about to end. Gives up after a few seconds."""
        try:
            self._send(LAST_S)
        except TransientError:
            return  # systemd's journal has it

    def _send(self, timeout_s: float) -> None:
        """Send all that waits. Raises TransientError, and keeps what was not accepted for the next time."""
        if not self._sending.acquire(timeout=timeout_s):
            return
        try:
            if self._names is None:
                self._names = _names(self._metadata.read(LOG))
            for _ in range(1 + len(self._waiting) // MOST_SENT):
                while self._waiting and len(self._going) < MOST_SENT:
                    self._going.append(self._waiting.popleft())
                if self._names and self._going:
                    self._write({**self._names, "entries": self._going, "partialSuccess": True}, timeout_s)
                self._going = []
        finally:
            self._sending.release()

    def _write(self, body: Mapping[str, Any], timeout_s: float) -> None:
        reply = self._metadata.ask_google("POST", self._url, timeout_s=timeout_s, body=body)
        if reply.status in LOST:
            if not self._has_refused:
                self._log.warning("report", f"Cloud Logging refused entries: {' '.join(reply.text.split())[:300]}")
            self._has_refused = True
        elif reply.status != 200:
            remedy = " Grant the slice's service account roles/logging.logWriter." if reply.status == 403 else ""
            raise TransientError(f"it answers HTTP {reply.status}.{remedy}")


def _names(text: str | None) -> dict[str, Any]:
    """Return the fields of every request from the attribute; empty where the node has none, as one from before it existed."""
    try:
        place = {key: str(json.loads(text or "{}")[key]) for key in (*NODE, *OWN)}
    except (ValueError, KeyError, TypeError):
        return {}
    return {
        "logName": f"projects/{place['project_id']}/logs/{NAME}",
        "resource": {"type": "generic_node", "labels": {key: place[key] for key in NODE}},
        "labels": {key: place[key] for key in OWN},
    }


def _entry(severity: str, stamp: str, mark: str, payload: Mapping[str, Any]) -> Entry:
    return {"severity": severity, "timestamp": stamp, "insertId": mark, "jsonPayload": payload}


def _now() -> str:
    """Return the time in RFC 3339 with nine digits, the form of docker's times, so that both can be compared as text."""
    nanoseconds = time.time_ns()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(nanoseconds // 10**9)) + f".{nanoseconds % 10**9:09d}Z"
