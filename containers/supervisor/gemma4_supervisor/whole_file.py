"""Writes files whole or not at all: nobody ever reads half of one, whenever the machine stops."""

from __future__ import annotations

import os
import threading
from pathlib import Path

_writing = threading.Lock()
"""Held by one thread at a time: preparations of several servers write the same token at once."""


def write_whole(path: Path, content: str | bytes, mode: int = 0o600) -> None:
    """Write a file that only root can read unless `mode` says otherwise, from its first byte on. Raises OSError."""
    fresh = path.with_name(f".{path.name}.new")
    with _writing:
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        fresh.replace(path)
