"""The supervisor's log: JSON lines for systemd's journal, without secrets."""

from __future__ import annotations

import base64
import copy
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

REDACTED = "[secret]"
LONGEST = 2000


class Log:
    """Prints entries as JSON lines, and passes each to a listener. Shared by all threads."""

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._secrets: set[str] = set()
        self._label: Mapping[str, str] = {}
        self.listener: Callable[[Mapping[str, Any]], None] = lambda entry: None
        """Called with each entry as it was printed."""

    def of_server(self, name: str) -> Log:
        """Return this log as one of the machine's servers writes it: its entries carry the server's name."""
        log = copy.copy(self)
        log._label = {"server": name}
        return log

    def hide(self, secret: str) -> str:
        """Never print this text from now on, plain or in base64; returns it."""
        if len(secret) >= 8:
            self._secrets.update((secret, base64.b64encode(secret.encode()).decode()))
        return secret

    def redacted(self, text: str) -> str:
        """Return `text` as it may be shown: without secrets, and shortened in the middle where it is long."""
        for secret in tuple(self._secrets):
            text = text.replace(secret, REDACTED)
        return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"

    def write(self, severity: str, event: str, message: str, **fields: Any) -> None:
        """Print one entry. `event` is a word that stays the same when the message is reworded."""
        entry = {"severity": severity, "time": now(), "event": event, "message": self.redacted(message)}
        line = json.dumps({**entry, **self._label, **fields}, ensure_ascii=False)
        for secret in tuple(self._secrets):
            line = line.replace(secret, REDACTED)
        with self._lock:
            print(line, file=self._stream, flush=True)
        self.listener(json.loads(line))

    def info(self, event: str, message: str, **fields: Any) -> None:
        """Print an entry about something that is as it should be."""
        self.write("INFO", event, message, **fields)

    def warning(self, event: str, message: str, **fields: Any) -> None:
        """Print an entry about something that may need attention."""
        self.write("WARNING", event, message, **fields)

    def error(self, event: str, message: str, **fields: Any) -> None:
        """Print an entry about something that is wrong."""
        self.write("ERROR", event, message, **fields)


def now() -> str:
    """Return the time in RFC 3339, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
