"""The one place on this machine where a server runs: its container, its port, and the probe of both."""

from __future__ import annotations

from collections.abc import Callable

from . import weight_staging
from .context import Context
from .docker import Container, DockerError
from .firewall import FirewallError, PortFirewall, wait_for_callers
from .huggingface import token_file
from .probe import Finding, ProbedServer, Prober
from .state import ServingRun


class ServingSlot:
    """Calls `found` with each finding of the current prober."""

    def __init__(self, context: Context, found: Callable[[Prober, Finding], None]) -> None:
        self._context, self._found = context, found
        self._firewall = PortFirewall(context.log)
        self.prober: Prober | None = None
        self.port = "unknown"
        """open, closing, closed, or unknown: an earlier supervisor changed it last, or the firewall refused."""

    def running(self) -> Container | None:
        """Return the container if it runs, whoever started it, else None. Raises DockerError."""
        container = self._context.docker.container()
        return container if container and container.running else None

    def start(self, run: ServingRun) -> None:
        """Replace any container by a new one behind a closed port. Raises DockerError, OSError."""
        self.stop(run)
        weight_staging.remove_unlisted_files(run.spec.weights)
        secret = run.spec.token_secret
        file = token_file(self._context.settings.run_dir, secret) if secret else None
        self.watch(run, self._context.docker.start(run.spec, run.image_id, run.address, file))

    def stop(self, run: ServingRun) -> None:
        """Take the container out of reach, let it finish its answers, and remove it.

        Raises DockerError; the port of `run` is closed even then.
        """
        if self.prober:
            self.prober.stop()
        self.prober = None
        try:
            may_serve = self.port != "closed" and self.running() is not None
        except DockerError:
            may_serve = True
        if may_serve:
            self._set("closing", self._firewall.refuse_new_connections, run)
            wait_for_callers(run.spec.port, self._context.settings.settle_s)
        self.close(run)
        self._context.docker.remove(run.spec.drain_s, before=self._context.output.collect)

    def watch(self, run: ServingRun, container_id: str) -> None:
        """Probe a container that runs; its port stays as it is."""
        if self.prober:
            self.prober.stop()
        server = ProbedServer(self._context.settings, run.address, run.spec.port, lambda: run.spec.model)
        self.prober = Prober(self._context.settings, self._context.docker, server, container_id, self._found)
        self.prober.start()

    def open(self, run: ServingRun) -> None:
        """Let every caller in."""
        self._set("open", self._firewall.open, run)

    def close(self, run: ServingRun) -> None:
        """Refuse connections, and new requests on those that are there."""
        self._set("closed", self._firewall.close, run)

    def _set(self, port: str, act: Callable[[int], None], run: ServingRun) -> None:
        try:
            act(run.spec.port)
            self.port = port
            self._context.status.clear("port")
        except FirewallError as error:
            self.port = "unknown"
            self._context.status.trouble("port", str(error))
        self._context.status.set(port=self.port)
