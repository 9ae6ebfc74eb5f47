"""What the supervisor says: JSON lines for the journal, from which everything secret is blotted out."""

from __future__ import annotations

import base64
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

REDACTED = "[secret]"
LONGEST = 2000


class Log:
    """JSON lines, each of which a listener gets as well. Shared by all threads."""

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._secrets: set[str] = set()
        self.listener: Callable[[Mapping[str, Any]], None] = lambda entry: None
        """Gets each entry as it was printed."""

    def hide(self, secret: str) -> str:
        """Never let this text out again, plain or in base64; returns it."""
        if len(secret) >= 8:
            self._secrets.update((secret, base64.b64encode(secret.encode()).decode()))
        return secret

    def clean(self, text: str) -> str:
        """`text` as it may be shown: without secrets, and not endless."""
        for secret in tuple(self._secrets):
            text = text.replace(secret, REDACTED)
        return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"

    def say(self, severity: str, event: str, message: str, **fields: Any) -> None:
        """One line. `event` is a word that does not change with the wording."""
        entry = {"severity": severity, "time": now(), "event": event, "message": self.clean(message)}
        line = json.dumps({**entry, **fields}, ensure_ascii=False)
        for secret in tuple(self._secrets):
            line = line.replace(secret, REDACTED)
        with self._lock:
            print(line, file=self._stream, flush=True)
        self.listener(json.loads(line))

    def info(self, event: str, message: str, **fields: Any) -> None:
        self.say("INFO", event, message, **fields)

    def warning(self, event: str, message: str, **fields: Any) -> None:
        self.say("WARNING", event, message, **fields)

    def error(self, event: str, message: str, **fields: Any) -> None:
        self.say("ERROR", event, message, **fields)


def now() -> str:
    """The time in RFC 3339, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
