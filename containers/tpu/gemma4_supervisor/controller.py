"""What ought to run: follows the metadata, prepares a change beside what serves, and puts it in its place when ready.

Two tracks, both driven by events from one queue:

* the *service* keeps the current run alive, whatever the metadata want meanwhile;
* a *change* to what the metadata want is prepared beside it, and only once everything is here takes its place.

So a wish that cannot be fulfilled never costs what serves, the newest wish wins however many come, and a specification
that does not stay up gives way to the last one that did. A supervisor that was killed finds the container as it was.
"""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Callable
from typing import NoReturn

from containers.shared.web import backoff

from .cleanup import clean
from .context import Context
from .desired_spec import Spec, SpecError, parse
from .metadata_server import SPEC, SUPERVISOR, MaintenanceWatch, Watch
from .preparation import PLACES, Preparation
from .server_lifecycle import Phase, ServerLifecycle
from .state import Run

LOOK_UP_S = 1.0


class Controller:
    """One object for the life of the process; all methods run on the main thread."""

    def __init__(self, context: Context, replace_program: Callable[[str | None], None]) -> None:
        self._context, self._state, self._replace_program = context, context.state, replace_program
        self._events: queue.Queue[Callable[[], None]] = queue.Queue()
        self._lifecycle = ServerLifecycle(context, self._events.put, self._on_served)
        self._wanted: Spec | None = None
        self._change: Preparation | None = None

    def run(self) -> NoReturn:
        settings, metadata = self._context.settings, self._context.metadata
        # First, so that a better version arrives whatever is the matter here.
        Watch(settings, metadata, SUPERVISOR, self._later(self._replace_program)).start()
        MaintenanceWatch(settings, metadata, self._later(self._on_maintenance)).start()
        failures = 0
        while not self._lifecycle.find():
            failures += 1
            self._work(backoff(settings.retry_s, 10, failures))
        Watch(settings, metadata, SPEC, self._later(self._on_spec), self._on_metadata).start()
        while True:
            self._work(min(LOOK_UP_S, settings.restart_s))

    def halt(self) -> None:
        """Let go of everything that is being fetched; the container and its port stay as they are."""
        self._lifecycle.halt()
        if self._change:
            self._change.halt()

    def shut(self) -> None:
        """Close the port, because the machine goes down: a server that is ending answers everybody with errors."""
        self._lifecycle.shut()

    def _work(self, for_s: float) -> None:
        """Do what there is to do, for so long."""
        end = time.monotonic() + for_s
        while (left_s := end - time.monotonic()) > 0:
            self._show()
            with contextlib.suppress(queue.Empty):
                self._events.get(timeout=left_s)()
            self._lifecycle.on_time()
            self._state.save_again()

    def _later(self, act: Callable[[str | None], None]) -> Callable[[str | None], None]:
        """The same, on the main thread."""
        return lambda value: self._events.put(lambda: act(value))

    def _on_metadata(self, trouble: str) -> None:
        if trouble:
            self._context.status.trouble("metadata", f"{trouble}; what runs goes on, and changes wait.")
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
            spec = parse(text, self._context.settings.weights_root)
        except SpecError as error:
            self._context.status.trouble("spec", f"{error} What runs goes on.")
            return
        self._context.status.clear("spec")
        self._context.log.info("wanted", f"Wanted: {spec.hash}.", hash=spec.hash)
        self._wanted = spec
        if self._state.rejected not in ("", spec.digest):
            self._state.rejected = ""
            self._context.status.clear("rejected")
        self._pursue(spec)

    def _pursue(self, spec: Spec) -> None:
        """Begin to bring `spec` here, unless it is here, or has been given up in exactly this form."""
        if self._change and self._change.spec.digest == spec.digest:
            return
        if self._change:
            self._context.log.info("abandoned", f"{self._change.spec.hash} is abandoned for {spec.hash}.")
            self._change.abandon()
            self._change = None
            self._context.status.clear(*PLACES)
            self._context.status.set(weightsPercent=None)
        if self._lifecycle.current is None:
            self._lifecycle.adopt(spec)
        current = self._lifecycle.current
        if current and current.spec.fingerprint == spec.fingerprint:
            current.spec = spec  # what it may take in time can have changed
            self._state.save()
            if self._lifecycle.phase is Phase.WAITING:
                self._lifecycle.revive()
            elif self._lifecycle.phase is Phase.SERVING:
                self._on_served(current)
        elif spec.digest == self._state.rejected:
            self._context.status.trouble(
                "rejected", f"{spec.hash} was given up before; change anything to try it again."
            )
        else:
            self._lifecycle.stand_back()
            self._change = Preparation(self._context, spec, self._on_ready, self._on_trouble)
            self._change.start()

    def _on_ready(self, preparation: Preparation, run: Run) -> None:
        def switch() -> None:
            if preparation is not self._change:
                return
            self._change = None
            self._context.log.info("switch", f"{run.spec.hash} takes over.", hash=run.spec.hash)
            self._lifecycle.replace(run)

        self._events.put(switch)

    def _on_trouble(self, preparation: Preparation) -> None:
        def bridge() -> None:
            """The change may take long; meanwhile what ran before is better than nothing."""
            if preparation is self._change and self._lifecycle.phase is Phase.WAITING:
                self._lifecycle.revive()

        self._events.put(bridge)

    def _on_served(self, run: Run) -> None:
        """Where it is what is wanted, nothing is given up any more, and once it is good, nothing else is needed."""
        if not self._wanted or self._wanted.fingerprint != run.spec.fingerprint:
            return
        self._context.status.clear("rejected")
        if self._state.rejected:
            self._state.rejected = ""
            self._state.save()
        if self._state.is_good(run):
            clean(self._context, run)

    def _show(self) -> None:
        current, wanted = self._lifecycle.current, self._wanted
        self._context.status.set(
            stage=self._lifecycle.phase.value,
            wanted=wanted.hash if wanted else None,
            running=current.spec.hash if current else None,
            preparing=self._change.spec.hash if self._change else None,
            failures=current.failures if current else 0,
        )
