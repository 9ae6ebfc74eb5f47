"""Decides which specification is to run: follows the metadata, prepares a change, and switches to it when it is ready.

Two things go on side by side, both driven by events from one queue:

* the *lifecycle* keeps the current run alive, whatever the metadata ask for meanwhile;
* a *change* to the desired specification is prepared beside it, and takes its place only once everything is here.

So a specification that cannot be fetched never stops the server that runs, the newest specification wins however many
come, and one that does not stay up gives way to the last one that did. A supervisor that was killed finds the container
as it was.
"""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Callable
from typing import NoReturn

from containers.shared.web import backoff

from .cleanup import remove_unneeded
from .context import Context
from .desired_spec import Spec, SpecError, parse_spec
from .membership import Membership
from .metadata_server import SPEC, SUPERVISOR, AttributeWatch, MaintenanceWatch
from .preparation import PLACES, Preparation
from .server_lifecycle import Phase, ServerLifecycle
from .state import ServingRun

TICK_S = 1.0
"""Longest time between two looks at what is due, such as a restart."""


class Controller:
    """One object for the life of the process; all methods run on the main thread."""

    def __init__(self, context: Context, replace_program: Callable[[str | None], None]) -> None:
        self._context, self._state, self._replace_program = context, context.state, replace_program
        self._events: queue.Queue[Callable[[], None]] = queue.Queue()
        self._lifecycle = ServerLifecycle(context, self._events.put, self._on_served)
        self._membership = Membership(context, self._events.put, self._lifecycle.requests)
        self._wanted: Spec | None = None
        self._change: Preparation | None = None

    def run(self) -> NoReturn:
        """Follow the metadata until the process ends."""
        settings, metadata = self._context.settings, self._context.metadata
        # First, so that a better version arrives whatever else fails.
        AttributeWatch(settings, metadata, SUPERVISOR, self._later(self._replace_program)).start()
        MaintenanceWatch(settings, metadata, self._later(self._on_maintenance)).start()
        self._membership.start()
        failures = 0
        while not self._lifecycle.adopt_or_restart():
            failures += 1
            self._work(backoff(settings.retry_s, 10, failures))
        AttributeWatch(settings, metadata, SPEC, self._later(self._on_spec), self._on_metadata).start()
        while True:
            self._work(min(TICK_S, settings.restart_s))

    def halt(self) -> None:
        """Stop everything that is being fetched; the container stays as it is."""
        self._lifecycle.halt()
        if self._change:
            self._change.halt()

    def leave_gateways(self) -> None:
        """Take no requests any more, because the machine goes down: a server that is ending answers each with an error."""
        self._membership.leave_for_good()

    def _work(self, for_s: float) -> None:
        """Handle events for so many seconds."""
        end = time.monotonic() + for_s
        while (left_s := end - time.monotonic()) > 0:
            self._report_status()
            self._context.readiness.expect_turn(self._context.settings.alive_s)
            with contextlib.suppress(queue.Empty):
                self._events.get(timeout=left_s)()
            self._lifecycle.tick()
            self._state.save_again()

    def _later(self, act: Callable[[str | None], None]) -> Callable[[str | None], None]:
        """Return a function that has `act` called on the main thread."""
        return lambda value: self._events.put(lambda: act(value))

    def _on_metadata(self, trouble: str) -> None:
        if trouble:
            self._context.status.trouble("metadata", f"{trouble}; the server that runs goes on, and changes wait.")
        else:
            self._context.status.clear("metadata")

    def _on_maintenance(self, notice: str | None) -> None:
        if notice:
            self._context.log.warning("maintenance", f"Google announces maintenance of this machine: {notice}")
        self._context.status.set(maintenance=notice)

    def _on_spec(self, text: str | None) -> None:
        try:
            if text is None:
                raise SpecError("The node has no attribute gemma4-spec.")
            spec = parse_spec(text, self._context.settings.weights_root)
        except SpecError as error:
            self._context.status.trouble("spec", f"{error} The server that runs goes on.")
            return
        self._context.status.clear("spec")
        self._context.log.info("wanted", f"{spec.hash} is the desired specification.", hash=spec.hash)
        self._wanted = spec
        if self._state.rejected not in ("", spec.digest):
            self._state.rejected = ""
            self._context.status.clear("rejected")
        self._prepare_change(spec)

    def _prepare_change(self, spec: Spec) -> None:
        """Begin to prepare `spec`, unless it runs already or was rejected in exactly this form."""
        if self._change and self._change.spec.digest == spec.digest:
            return
        if self._change:
            self._context.log.info(
                "abandoned", f"{self._change.spec.hash} is no longer prepared: {spec.hash} is newer."
            )
            self._change.abandon()
            self._change = None
            self._context.status.clear(*PLACES)
            self._context.status.set(weightsPercent=None)
        if self._lifecycle.current is None:
            self._lifecycle.adopt_container(spec)
        current = self._lifecycle.current
        if current and current.spec.fingerprint == spec.fingerprint:
            current.spec = spec  # its time limits can have changed
            self._state.save()
            if self._lifecycle.phase is Phase.WAITING:
                self._lifecycle.restart()
            elif self._lifecycle.phase is Phase.SERVING:
                self._on_served(current)
        elif spec.digest == self._state.rejected:
            self._context.status.trouble(
                "rejected", f"{spec.hash} was rejected before; change anything in it to try it again."
            )
        else:
            self._lifecycle.stop_downloads()
            self._change = Preparation(self._context, spec, self._on_ready, self._on_trouble)
            self._change.start()

    def _on_ready(self, preparation: Preparation, run: ServingRun) -> None:
        def switch() -> None:
            if preparation is not self._change:
                return
            self._change = None
            self._context.log.info("switch", f"{run.spec.hash} takes over.", hash=run.spec.hash)
            self._lifecycle.replace(run)

        self._events.put(switch)

    def _on_trouble(self, preparation: Preparation) -> None:
        def bridge() -> None:
            # The change may take long; until then the last specification is better than none.
            if preparation is self._change and self._lifecycle.phase is Phase.WAITING:
                self._lifecycle.restart()

        self._events.put(bridge)

    def _on_served(self, run: ServingRun) -> None:
        """Clear an earlier rejection and, once `run` is proven, remove everything else, if it has the desired specification."""
        if not self._wanted or self._wanted.fingerprint != run.spec.fingerprint:
            return
        self._context.status.clear("rejected")
        if self._state.rejected:
            self._state.rejected = ""
            self._state.save()
        if self._state.is_good(run):
            remove_unneeded(self._context, run)

    def _report_status(self) -> None:
        current, wanted = self._lifecycle.current, self._wanted
        self._context.status.set(
            stage=self._membership.stage or self._lifecycle.phase.value,
            wanted=wanted.hash if wanted else None,
            running=current.spec.hash if current else None,
            preparing=self._change.spec.hash if self._change else None,
            failures=current.failures if current else 0,
        )
