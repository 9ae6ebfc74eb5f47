"""The job's log: one JSON object a line, as Cloud Logging reads it, without secrets."""

from __future__ import annotations

import json
import threading

MIB = 1024 * 1024

_secrets: set[str] = set()
_printing = threading.Lock()


def log(severity: str, message: str, **fields: object) -> None:
    """Print one entry. `event` among the fields is a word that does not change with the wording."""
    line = json.dumps({"severity": severity, "message": message, **fields})
    for secret in _secrets:
        line = line.replace(secret, "[token]")
    with _printing:
        print(line, flush=True)


def hide(secret: str) -> None:
    """Never print this text from now on."""
    if len(secret) >= 8:
        _secrets.add(secret)


def readable_size(size: int) -> str:
    """Return a number of bytes in MiB or GiB."""
    return f"{size / MIB / 1024:.2f} GiB" if size >= 100 * MIB else f"{size / MIB:.2f} MiB"
