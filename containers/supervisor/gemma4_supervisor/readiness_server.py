"""Answers gateways that ask which servers of this machine take requests: GET /ready/MEMBER, and GET /alive.

Each instance of a gateway asks for each server every second, so the answers come from memory: nothing is looked at, and
nobody is waited for. A server is called by its member name, which is the machine's with the server's suffix. A name that
is not this machine's is answered with 404: an address that was given to another machine never answers for the one before.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from containers.shared.web import reason_of

from .log import Log
from .machine_status import MachineStatus
from .supervisor_settings import PREFIX, SupervisorSettings

READY, ALIVE = "/ready/", "/alive"
CALLER_S = 5.0
"""Longest wait for a caller to send its request."""

Answer = tuple[int, Mapping[str, Any]]


class Readiness:
    """Which servers take requests, by suffix. Shared by all threads."""

    def __init__(self, settings: SupervisorSettings, log: Log, status: MachineStatus) -> None:
        self._log, self._status, self._leave_s = log, status, settings.leave_s
        self._lock = threading.RLock()
        self._machine: str | None = None
        self._withdrawn = ""
        self._refusals: dict[str, str] = {}
        self._refused_at: dict[str, float] = {}
        self._ready: list[str] = []
        self._alive_s, self._turned_at = settings.alive_s, time.monotonic()
        status.set(ready=[])

    def name(self, machine: str) -> None:
        """Answer for servers of this name from now on; for none where it is blank."""
        with self._lock:
            self._machine = machine
            self._report("it has another name now")

    def accept(self, suffix: str) -> None:
        """Let gateways send requests to this server."""
        with self._lock:
            self._refusals[suffix] = ""
            self._report("")

    def refuse(self, suffix: str, why: str) -> None:
        """Have gateways send no requests to this server. Within `leave_s` seconds all of them know."""
        with self._lock:
            if self._refusals.get(suffix) == "" or suffix not in self._refused_at:
                self._refused_at[suffix] = time.monotonic()
            self._refusals[suffix] = why
            self._report(why)

    def forget(self, suffix: str) -> None:
        """Have no such server any more."""
        with self._lock:
            self._refusals.pop(suffix, None)
            self._report("there is no such server any more")

    def withdraw(self, why: str) -> None:
        """Have gateways send no requests to any server of this machine, until called with a blank."""
        with self._lock:
            self._withdrawn = why
            self._report(why)

    def known_in_s(self, suffix: str) -> float:
        """Return how many seconds a gateway may still send requests to a server that refuses them."""
        return max(0.0, self._leave_s - (time.monotonic() - self._refused_at.get(suffix, time.monotonic())))

    def turned(self) -> None:
        """Count as alive for a while, because the main loop turns."""
        self._turned_at = time.monotonic()

    def answer(self, path: str) -> Answer:
        """Return status and body for a GET of `path`."""
        if path == ALIVE:
            silent_s = time.monotonic() - self._turned_at
            why = f"the main loop has not turned for {silent_s:.0f} s" if silent_s > self._alive_s else ""
            return 503 if why else 200, {"alive": not why, "why": why}
        member = path.removeprefix(READY) if path.startswith(READY) else ""
        with self._lock:
            status, why = self._answer(member)
        return status, {"member": member, "ready": not why, "why": why}

    def _answer(self, member: str) -> tuple[int, str]:
        if self._machine is None:
            return 503, "the machine does not know its name yet"
        suffixes = [suffix for suffix in self._refusals if member == self._machine + suffix]
        if not self._machine or not suffixes:
            return 404, f"this machine is {self._machine or 'no member of a gateway'}"
        why = self._withdrawn or self._refusals[suffixes[0]]
        return 503 if why else 200, why

    def _report(self, why: str) -> None:
        """Write down which servers take requests, where that has changed."""
        names = sorted(f"{self._machine}{suffix}" for suffix in self._refusals) if self._machine else []
        ready = [name for name in names if self._answer(name)[0] == 200]
        if ready != self._ready:
            gone = ", ".join(sorted({*self._ready} - {*ready}))
            text = f"{gone} takes no requests: {why}." if gone else f"{', '.join(ready)} takes requests."
            self._log.info("ready", text, ready=ready)
            self._ready = ready
            self._status.set(ready=ready)


class ReadinessServer(threading.Thread):
    """Listens for ever; a port that cannot be had is tried for again.

    A new version of this program takes the socket over, so callers of that moment wait for its answer and are not refused.
    """

    def __init__(self, settings: SupervisorSettings, status: MachineStatus, readiness: Readiness) -> None:
        super().__init__(name="readiness", daemon=True)
        self._place, self._inherited = (settings.ready_address, settings.ready_port), settings.ready_fd
        self._retry_s, self._status, self._readiness = settings.retry_s, status, readiness

    def run(self) -> None:
        while True:
            try:
                with _Server(self._place, self._inherited, self._readiness) as server:
                    os.environ[f"{PREFIX}READY_FD"] = str(server.fileno())
                    self._status.clear("ready")
                    server.serve_forever()
            except OSError as error:
                text = (
                    f"Port {self._place[1]} cannot be listened on: {reason_of(error)}. No gateway sends requests here."
                )
                self._status.trouble("ready", text)
                self._inherited = -1
                time.sleep(self._retry_s)


class _Server(socketserver.ThreadingTCPServer):
    # Not HTTPServer, which asks DNS for this machine's name before it listens.
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, place: tuple[str, int], inherited: int, readiness: Readiness) -> None:
        self.readiness = readiness
        super().__init__(place, _Handler, bind_and_activate=inherited < 0)
        if inherited >= 0:
            self.socket.close()
            self.socket = socket.socket(fileno=inherited)
        self.socket.set_inheritable(True)  # to the program that replaces this one, not to commands that it runs

    def handle_error(self, *_: object) -> None:
        """Say nothing: callers may end a connection at any moment."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = CALLER_S
    server_version, sys_version = "gemma4", ""

    def do_GET(self) -> None:
        status, body = self.server.readiness.answer(self.path)
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Write nothing for each of the many questions."""
