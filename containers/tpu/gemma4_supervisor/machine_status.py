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

from containers.shared.web import TransientError, backoff, describe

from .log import Log, now

SCHEMA = 1
MOST_ERRORS = 5


class MachineStatus:
    """Fields as README.md lists them. Shared by all threads.

    Published soon after a change, but at most every `every_s`; and at least every `cap_s`, so that one that is older
    says that nobody writes it any more. A file that cannot be written is tried again every `every_s`, changed or not.
    """

    def __init__(self, log: Log, file: Path, publish: Callable[[str], None], every_s: float, cap_s: float) -> None:
        self._log, self._file, self._publish = log, file, publish
        self._every_s, self._cap_s = every_s, cap_s
        self._fields: dict[str, Any] = {"stage": "waiting"}
        self._errors: dict[str, dict[str, str]] = {}
        self._lock, self._writing, self._publishing = threading.Lock(), threading.Lock(), threading.Lock()
        self._fresh = threading.Event()
        self._is_written, self._ends = True, False
        threading.Thread(target=self._report, name="report", daemon=True).start()

    def set(self, **fields: Any) -> None:
        """Change fields; says nothing where they are as they were."""
        with self._lock:
            changed = {key: value for key, value in fields.items() if self._fields.get(key, ...) != value}
            self._fields.update(changed)
        if not changed:
            return
        if "stage" in changed:
            self._log.info("stage", f"Stage: {changed['stage']}.", **self._names())
        self._write()

    def trouble(self, where: str, message: str) -> None:
        """Something is wrong, and stays so until it is cleared. The same again is not repeated in the journal."""
        message = self._log.clean(message)
        with self._lock:
            known = self._errors.pop(where, {}).get("message") == message
            self._errors[where] = {"where": where, "message": message, "at": now()}
        if not known:
            self._log.error("trouble", message, where=where, **self._names())
        self._write()

    def clear(self, *places: str) -> None:
        """What was wrong there is over."""
        if self._ends:
            return
        with self._lock:
            gone = [where for where in places if self._errors.pop(where, None)]
        if gone:
            self._log.info("recovered", f"Over: {', '.join(gone)}.", where=gone, **self._names())
            self._write()

    def end(self, where: str, message: str) -> None:
        """Report at once what ends this process. Nothing clears it any more: there will be no other report."""
        self._ends = True
        self.trouble(where, message)
        try:
            self._publish_newest()
        except TransientError:
            return  # the file and the journal have it

    def _publish_newest(self) -> None:
        """One at a time, or one that was written earlier could arrive later. Raises TransientError."""
        with self._publishing:
            self._publish(self._text())

    def _names(self) -> dict[str, Any]:
        return {key: self._fields.get(key) for key in ("stage", "wanted", "running")}

    def _text(self) -> str:
        with self._lock:
            errors = [*self._errors.values()][: -MOST_ERRORS - 1 : -1]
            return json.dumps({"schema": SCHEMA, "at": now(), **self._fields, "errors": errors})

    def _write(self) -> None:
        self._write_file()
        self._fresh.set()

    def _write_file(self) -> None:
        """Best effort as well: nothing that serves may end because of it."""
        with self._writing:
            was_written, self._is_written = self._is_written, True
            try:
                fresh = self._file.with_name(f".{self._file.name}.new")
                fresh.write_text(self._text())
                fresh.replace(self._file)
            except OSError as error:
                self._is_written = False
                if was_written:
                    self._log.warning("report", f"{self._file} cannot be written: {describe(error)}")

    def _report(self) -> None:
        failures = 0
        while True:
            if failures or not self._fresh.wait(self._cap_s if self._is_written else self._every_s):
                self._write_file()  # nothing has changed but the time, or the disk has room again
            self._fresh.clear()
            try:
                self._publish_newest()
                failures = 0
            except TransientError as error:
                failures += 1
                if failures == 1:
                    self._log.warning("report", f"The status cannot be published: {error}")
            time.sleep(backoff(self._every_s, self._cap_s, max(1, failures)))
