"""What an operator wants to know about this machine, in a file and in its guest attributes, always the newest.

Guest attributes may be switched off, so they are best effort: the journal and the file have the same.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .journal import Journal, now
from .web import Unreachable

SCHEMA = 1
MOST_ERRORS = 5


class Status:
    """Fields as README.md lists them. Shared by all threads."""

    def __init__(self, journal: Journal, file: Path, publish: Callable[[str], None], every_s: float) -> None:
        self._journal, self._file, self._publish, self._every_s = journal, file, publish, every_s
        self._fields: dict[str, Any] = {"stage": "starting-up"}
        self._errors: dict[str, dict[str, str]] = {}
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._fresh = threading.Event()
        threading.Thread(target=self._report, name="report", daemon=True).start()

    def set(self, **fields: Any) -> None:
        """Change fields; says nothing where they are as they were."""
        with self._lock:
            changed = {key: value for key, value in fields.items() if self._fields.get(key, ...) != value}
            self._fields.update(changed)
        if not changed:
            return
        if "stage" in changed:
            self._journal.info("stage", f"Stage: {changed['stage']}.", **self._names())
        self._write()

    def trouble(self, where: str, message: str) -> None:
        """Something is wrong, and stays so until it is cleared. The same again is not repeated in the journal."""
        message = self._journal.clean(message)
        with self._lock:
            known = self._errors.pop(where, {}).get("message") == message
            self._errors[where] = {"where": where, "message": message, "at": now()}
        if not known:
            self._journal.error("trouble", message, where=where, **self._names())
        self._write()

    def clear(self, *places: str) -> None:
        """What was wrong there is over."""
        with self._lock:
            gone = [where for where in places if self._errors.pop(where, None)]
        if gone:
            self._journal.info("recovered", f"Over: {', '.join(gone)}.", where=gone, **self._names())
            self._write()

    def _names(self) -> dict[str, Any]:
        return {key: self._fields.get(key) for key in ("stage", "wanted", "running")}

    def _text(self) -> str:
        with self._lock:
            errors = [*self._errors.values()][: -MOST_ERRORS - 1 : -1]
            return json.dumps({"schema": SCHEMA, "at": now(), **self._fields, "errors": errors})

    def _write(self) -> None:
        with self._writing:
            fresh = self._file.with_name(f".{self._file.name}.new")
            fresh.write_text(self._text())
            fresh.replace(self._file)
        self._fresh.set()

    def _report(self) -> None:
        failing = False
        while True:
            self._fresh.wait()
            self._fresh.clear()
            try:
                self._publish(self._text())
                failing = False
            except Unreachable as error:
                if not failing:
                    self._journal.warning("report", f"The status cannot be published: {error}")
                failing = True
            time.sleep(self._every_s)
