"""The place of one server on this machine: its container, the probe of it, and what gateways are told."""

from __future__ import annotations

import time
from collections.abc import Callable

from . import weight_staging
from .context import Context
from .docker import DockerError
from .huggingface import token_file
from .probe import Finding, ProbedServer, Prober
from .server_container import Container, ServerContainer, ServerOutput
from .state import ServingRun


class ServingSlot:
    """Has `found` called on the main thread with each finding of the current prober.

    `start` and `stop` may take minutes and belong on a thread of their own, one after the other; all else is quick.
    """

    def __init__(self, context: Context, suffix: str, found: Callable[[Finding], None]) -> None:
        self._context, self._suffix, self._found = context, suffix, found
        self.container = ServerContainer(context.docker, context.accelerators, context.settings, suffix)
        label = self.container.name if suffix else ""
        self.output = ServerOutput(self.container, lambda *line: context.add_line(label, *line))
        self._prober: Prober | None = None
        self._server: ProbedServer | None = None
        self.refuse("nothing has been started yet")

    def running(self) -> Container | None:
        """Return the container if it runs, whoever started it, else None. Raises DockerError."""
        container = self.container.inspect()
        return container if container and container.running else None

    def leave(self, why: str) -> None:
        """Look at the container no more, and have gateways send it no requests."""
        if self._prober:
            self._prober.stop()
        self._prober = None
        self.refuse(why)

    def start(self, run: ServingRun) -> str:
        """Start a container, once the one before is removed; returns its id. Raises DockerError, NoDeviceError, OSError."""
        self.refuse(f"{run.spec.hash} is starting")
        weight_staging.remove_unlisted_files(run.spec.weights)
        secret = run.spec.token_secret
        file = token_file(self._context.settings.run_dir, secret) if secret else None
        problem = self._context.all_reduce.problem(run.spec, run.place, run.image_id)
        if problem:
            self._context.status.trouble("gpus", f"{problem}. The server is started without that, and is slower.")
        else:
            self._context.status.clear("gpus")
        return self.container.start(run.spec, run.place, run.image_id, run.address, file, bool(problem))

    def stop(self, drain_s: float) -> None:
        """Wait until gateways know that the container takes no requests, let it finish its answers, and remove it.

        Raises DockerError.
        """
        if self._may_answer():
            time.sleep(self._context.readiness.known_in_s(self._suffix))
        self.container.remove(drain_s, before=self.output.collect)

    def watch(self, run: ServingRun, container_id: str) -> None:
        """Probe a container that runs; what gateways are told stays as it is."""
        if self._prober:
            self._prober.stop()
        settings = self._context.settings
        self._server = ProbedServer(settings, run.address, run.place.port, lambda: run.spec.model)
        self._prober = Prober(
            settings, self.container, self._server, container_id, self._context.on_main_thread, self._found
        )
        self._prober.start()

    def requests(self) -> float | None:
        """Return how many requests the server has, None where it does not say. Any thread may call this."""
        return self._server.requests() if self._server else 0

    def accept(self) -> None:
        """Let gateways send requests."""
        self._context.readiness.accept(self._suffix)

    def refuse(self, why: str) -> None:
        """Have gateways send no requests."""
        self._context.readiness.refuse(self._suffix, why)

    def _may_answer(self) -> bool:
        try:
            return self.running() is not None
        except DockerError:
            return True
