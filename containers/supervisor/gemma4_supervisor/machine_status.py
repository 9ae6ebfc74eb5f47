"""The status of this machine for operators, in a file and in the node's guest attributes, always the newest.

Guest attributes may be switched off; the file has the same content, and the log every change.
"""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from containers.shared.web import TransientError, backoff, reason_of

from .log import Log, now
from .whole_file import write_whole

SCHEMA = 1
MOST_ERRORS = 5


class MachineStatus:
    """The fields that README.md lists. Shared by all threads.

    Published soon after a change, but at most every `every_s`; and at least every `cap_s`, so that an older status means
    that the supervisor is gone. A file that cannot be written is tried again every `every_s`, changed or not.
    """

    def __init__(self, log: Log, file: Path, publish: Callable[[str], None], every_s: float, cap_s: float) -> None:
        self._log, self._file, self._publish = log, file, publish
        self._every_s, self._cap_s = every_s, cap_s
        self._fields: dict[str, Any] = {"stage": "waiting"}
        self._errors: dict[tuple[str, str], dict[str, str]] = {}
        """By place of trouble and name of the server, which is blank for what concerns the machine."""
        self._lock, self._writing, self._publishing = threading.Lock(), threading.Lock(), threading.Lock()
        self._fresh = threading.Event()
        self._unwritten, self._ends = threading.Event(), threading.Event()
        self._label: Mapping[str, str] = {}
        threading.Thread(target=self._report, name="report", daemon=True).start()

    def of_server(self, name: str) -> MachineStatus:
        """Return this status as one of the machine's servers writes it: its errors carry the server's name."""
        status = copy.copy(self)
        status._label = {"server": name}
        return status

    def set(self, **fields: Any) -> None:
        """Change fields. Publishes only if one of them has another value."""
        with self._lock:
            changed = {key: value for key, value in fields.items() if self._fields.get(key, ...) != value}
            self._fields.update(changed)
        if not changed:
            return
        if "stage" in changed:
            self._log.info("stage", f"Stage: {changed['stage']}.", **self._names())
        self._write()

    def trouble(self, where: str, message: str) -> None:
        """Add an error, which stays until it is cleared. The same message again is not logged again."""
        message = self._log.redacted(message)
        with self._lock:
            known = self._errors.pop(self._key(where), {}).get("message") == message
            self._errors[self._key(where)] = {"where": where, **self._label, "message": message, "at": now()}
        if not known:
            self._log.error("trouble", message, where=where, **self._label, **self._names())
        self._write()

    def clear(self, *places: str) -> None:
        """Remove the errors of these places."""
        if self._ends.is_set():
            return
        with self._lock:
            gone = [where for where in places if self._errors.pop(self._key(where), None)]
        if gone:
            self._log.info("recovered", f"Over: {', '.join(gone)}.", where=gone, **self._label, **self._names())
            self._write()

    def end(self, where: str, message: str) -> None:
        """Publish at once the error that ends this process. It is not cleared any more."""
        self._ends.set()
        self.trouble(where, message)
        try:
            self._publish_newest()
        except TransientError:
            return  # the file and the log have it

    def _publish_newest(self) -> None:
        """Publish, one at a time: two at once could arrive in the wrong order. Raises TransientError."""
        with self._publishing:
            self._publish(self._text())

    def _key(self, where: str) -> tuple[str, str]:
        return where, self._label.get("server", "")

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
        """Write the file. A failure is logged, and never ends the supervisor."""
        with self._writing:
            try:
                write_whole(self._file, self._text())
                self._unwritten.clear()
            except OSError as error:
                if not self._unwritten.is_set():
                    self._log.warning("report", f"{self._file} cannot be written: {reason_of(error)}")
                self._unwritten.set()

    def _report(self) -> None:
        failures = 0
        while True:
            if failures or not self._fresh.wait(self._every_s if self._unwritten.is_set() else self._cap_s):
                self._write_file()  # only the time has changed, or the disk may have room again
            self._fresh.clear()
            try:
                self._publish_newest()
                failures = 0
            except TransientError as error:
                failures += 1
                if failures == 1:
                    self._log.warning("report", f"The status cannot be published: {error}")
            time.sleep(backoff(self._every_s, self._cap_s, max(1, failures)))
