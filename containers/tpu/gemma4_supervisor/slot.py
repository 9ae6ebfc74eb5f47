"""The one place on this machine where a server runs: its container, its port, and the eye on both."""

from __future__ import annotations

from collections.abc import Callable

from .containers import DockerError
from .gate import Gate, GateError, settle
from .preparation import Tools
from .probe import Finding, Prober, Server
from .record import Run

QUICK_STOP_S = 10
"""Enough for a server that serves nobody to end by itself."""


class Slot:
    """`found` gets the findings of the prober that is at work."""

    def __init__(self, tools: Tools, found: Callable[[Prober, Finding], None]) -> None:
        self._tools, self._found = tools, found
        self._gate = Gate(tools.journal)
        self.prober: Prober | None = None
        self.port = "unknown"
        """open, closing, closed, or unknown: another supervisor had it last, or the firewall refused."""

    def fingerprint(self) -> str:
        """Of the container that runs; blank where none does. Raises DockerError."""
        container = self._tools.docker.container()
        return container.fingerprint if container and container.running else ""

    def attach(self, run: Run) -> None:
        """Watch the container that runs already, as the specification of `run`; its port stays as it is."""
        container = self._tools.docker.container()
        if container:
            self._watch(run, container.id)

    def start(self, run: Run) -> None:
        """Run a fresh container behind a closed port. Raises DockerError."""
        self.close(run)
        self._tools.docker.remove(QUICK_STOP_S)
        token_file = self._tools.token_file if run.spec.token_secret else None
        self._watch(run, self._tools.docker.start(run.spec, run.image_id, run.address, token_file))

    def leave(self, run: Run) -> None:
        """Take the server away: first out of everybody's reach, then with time to finish what it is at."""
        if self.prober:
            self.prober.stop()
        self.prober = None
        served = self.port != "closed"
        if served:
            self._set("closing", self._gate.admit_nobody_new, run)
            settle(run.spec.port, self._tools.settings.settle_s)
        self.close(run)
        try:
            self._tools.docker.remove(run.spec.drain_s if served else QUICK_STOP_S)
        except DockerError as error:
            self._tools.journal.warning("stop", f"{run.spec.hash} was not stopped in order: {error}")

    def open(self, run: Run) -> None:
        self._set("open", self._gate.open, run)

    def close(self, run: Run) -> None:
        self._set("closed", self._gate.close, run)

    def _watch(self, run: Run, container_id: str) -> None:
        if self.prober:
            self.prober.stop()
        server = Server(self._tools.settings, run.address, run.spec.port, run.spec.model)
        self.prober = Prober(self._tools.settings, self._tools.docker, server, container_id, self._found)
        self.prober.start()

    def _set(self, port: str, act: Callable[[int], None], run: Run) -> None:
        try:
            act(run.spec.port)
            self.port = port
            self._tools.status.clear("port")
        except GateError as error:
            self.port = "unknown"
            self._tools.status.trouble("port", str(error))
        self._tools.status.set(port=self.port)
