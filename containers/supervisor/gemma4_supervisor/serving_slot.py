"""The one place on this machine where a server runs: its container, the probe of it, and what gateways are told."""

from __future__ import annotations

import time
from collections.abc import Callable

from . import weight_staging
from .context import Context
from .docker import Container, DockerError
from .huggingface import token_file
from .probe import Finding, ProbedServer, Prober
from .state import ServingRun

SUFFIX = ""
"""Of the member's name: a machine's only server has the machine's name."""


class ServingSlot:
    """Calls `found` with each finding of the current prober."""

    def __init__(self, context: Context, found: Callable[[Prober, Finding], None]) -> None:
        self._context, self._found = context, found
        self.prober: Prober | None = None
        self._server: ProbedServer | None = None
        self.refuse("nothing has been started yet")

    def running(self) -> Container | None:
        """Return the container if it runs, whoever started it, else None. Raises DockerError."""
        container = self._context.docker.container()
        return container if container and container.running else None

    def start(self, run: ServingRun) -> None:
        """Replace any container by a new one, to which no gateway sends requests yet. Raises DockerError, OSError."""
        self.stop(run, f"{run.spec.hash} is starting")
        weight_staging.remove_unlisted_files(run.spec.weights)
        secret = run.spec.token_secret
        file = token_file(self._context.settings.run_dir, secret) if secret else None
        self.watch(run, self._context.docker.start(run.spec, run.image_id, run.address, file))

    def stop(self, run: ServingRun, why: str) -> None:
        """Take the container out of every gateway, let it finish its answers, and remove it. Raises DockerError."""
        if self.prober:
            self.prober.stop()
        self.prober = None
        self.refuse(why)
        if self._may_answer():
            time.sleep(self._context.readiness.known_in_s(SUFFIX))
        self._context.readiness.expect_turn(self._context.settings.alive_s + run.spec.drain_s)
        self._context.docker.remove(run.spec.drain_s, before=self._context.output.collect)

    def watch(self, run: ServingRun, container_id: str) -> None:
        """Probe a container that runs; what gateways are told stays as it is."""
        if self.prober:
            self.prober.stop()
        self._server = ProbedServer(self._context.settings, run.address, run.spec.port, lambda: run.spec.model)
        self.prober = Prober(self._context.settings, self._context.docker, self._server, container_id, self._found)
        self.prober.start()

    def requests(self) -> float | None:
        """Return how many requests the server has, None where it does not say. Any thread may call this."""
        return self._server.requests() if self._server else 0

    def accept(self) -> None:
        """Let gateways send requests."""
        self._context.readiness.accept(SUFFIX)

    def refuse(self, why: str) -> None:
        """Have gateways send no requests."""
        self._context.readiness.refuse(SUFFIX, why)

    def _may_answer(self) -> bool:
        try:
            return self.running() is not None
        except DockerError:
            return True
