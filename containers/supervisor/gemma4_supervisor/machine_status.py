"""The status of this machine for operators, in a file and in the node's guest attributes, always the newest.

Guest attributes may be switched off; the file has the same content, and the log every change.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from containers.shared.web import TransientError, backoff, reason_of

from .log import Log, now

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
        self._is_written, self._ends = True, False
        threading.Thread(target=self._report, name="report", daemon=True).start()

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

    def trouble(self, where: str, message: str, server: str = "") -> None:
        """Add an error, which stays until it is cleared. The same message again is not logged again."""
        message, label = self._log.redacted(message), {"server": server} if server else {}
        with self._lock:
            known = self._errors.pop((where, server), {}).get("message") == message
            self._errors[where, server] = {"where": where, **label, "message": message, "at": now()}
        if not known:
            self._log.error("trouble", message, where=where, **label, **self._names())
        self._write()

    def clear(self, *places: str, server: str = "") -> None:
        """Remove the errors of these places."""
        if self._ends:
            return
        with self._lock:
            gone = [where for where in places if self._errors.pop((where, server), None)]
        if gone:
            label = {"server": server} if server else {}
            self._log.info("recovered", f"Over: {', '.join(gone)}.", where=gone, **label, **self._names())
            self._write()

    def end(self, where: str, message: str) -> None:
        """Publish at once the error that ends this process. It is not cleared any more."""
        self._ends = True
        self.trouble(where, message)
        try:
            self._publish_newest()
        except TransientError:
            return  # the file and the log have it

    def _publish_newest(self) -> None:
        """Publish, one at a time: two at once could arrive in the wrong order. Raises TransientError."""
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
        """Write the file. A failure is logged, and never ends the supervisor."""
        with self._writing:
            was_written, self._is_written = self._is_written, True
            try:
                fresh = self._file.with_name(f".{self._file.name}.new")
                fresh.write_text(self._text())
                fresh.replace(self._file)
            except OSError as error:
                self._is_written = False
                if was_written:
                    self._log.warning("report", f"{self._file} cannot be written: {reason_of(error)}")

    def _report(self) -> None:
        failures = 0
        while True:
            if failures or not self._fresh.wait(self._cap_s if self._is_written else self._every_s):
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


class ServerStatus:
    """The status of the machine as one of its servers writes it: its errors carry the server's name."""

    def __init__(self, machine: MachineStatus, server: str) -> None:
        self._machine, self._server = machine, server

    def set(self, **fields: Any) -> None:
        """Change fields of the machine."""
        self._machine.set(**fields)

    def trouble(self, where: str, message: str) -> None:
        """Add an error of this server, which stays until it is cleared."""
        self._machine.trouble(where, message, self._server)

    def clear(self, *places: str) -> None:
        """Remove this server's errors of these places."""
        self._machine.clear(*places, server=self._server)
