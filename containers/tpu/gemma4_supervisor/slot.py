"""The one place on this machine where a server runs: its container, its port, and the eye on both."""

from __future__ import annotations

from collections.abc import Callable

from . import weights
from .containers import Container, DockerError
from .gate import Gate, GateError, settle
from .huggingface import token_file
from .probe import Finding, Prober, Server
from .record import Run
from .tools import Tools


class Slot:
    """`found` gets the findings of the prober that is at work."""

    def __init__(self, tools: Tools, found: Callable[[Prober, Finding], None]) -> None:
        self._tools, self._found = tools, found
        self._gate = Gate(tools.journal)
        self.prober: Prober | None = None
        self.port = "unknown"
        """open, closing, closed, or unknown: another supervisor had it last, or the firewall refused."""

    def running(self) -> Container | None:
        """The container, where one runs, whoever started it. Raises DockerError."""
        container = self._tools.docker.container()
        return container if container and container.running else None

    def start(self, run: Run) -> None:
        """Run a fresh container behind a closed port, in place of whatever is there. Raises DockerError, OSError."""
        self.leave(run)
        weights.tidy(run.spec.weights)
        secret = run.spec.token_secret
        file = token_file(self._tools.settings.run_dir, secret) if secret else None
        self.watch(run, self._tools.docker.start(run.spec, run.image_id, run.address, file))

    def leave(self, run: Run) -> None:
        """Take away what runs: first out of everybody's reach, then with time to finish what it is at.

        Raises DockerError, and has closed the port of `run` also then.
        """
        if self.prober:
            self.prober.stop()
        self.prober = None
        serves = self.port != "closed" and self._may_run()
        if serves:
            self._set("closing", self._gate.admit_nobody_new, run)
            settle(run.spec.port, self._tools.settings.settle_s)
        self.close(run)
        self._tools.docker.remove(run.spec.drain_s, before=self._tools.output.collect)

    def watch(self, run: Run, container_id: str) -> None:
        """Look after a container that runs; its port stays as it is."""
        if self.prober:
            self.prober.stop()
        server = Server(self._tools.settings, run.address, run.spec.port, lambda: run.spec.model)
        self.prober = Prober(self._tools.settings, self._tools.docker, server, container_id, self._found)
        self.prober.start()

    def open(self, run: Run) -> None:
        self._set("open", self._gate.open, run)

    def close(self, run: Run) -> None:
        self._set("closed", self._gate.close, run)

    def _may_run(self) -> bool:
        try:
            return self.running() is not None
        except DockerError:
            return True

    def _set(self, port: str, act: Callable[[int], None], run: Run) -> None:
        try:
            act(run.spec.port)
            self.port = port
            self._tools.status.clear("port")
        except GateError as error:
            self.port = "unknown"
            self._tools.status.trouble("port", str(error))
        self._tools.status.set(port=self.port)
