"""Decides which specification is to run: follows the metadata, prepares a change, and switches to it when it is ready.

Two things go on side by side, both driven by events from one queue:

* the *group* of servers keeps the current runs alive, whatever the metadata ask for meanwhile;
* a *change* to the desired specification is prepared beside it, and is rolled out only once everything is here.

So a specification that cannot be fetched never stops the server that runs, the newest specification wins however many
come, and one that does not stay up gives way to the last one that did. A supervisor that was killed finds the container
as it was.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import time
from collections.abc import Callable
from typing import NoReturn

from containers.shared.web import backoff

from .cleanup import remove_unneeded
from .context import Context
from .desired_spec import Spec, SpecError, parse_spec
from .membership import Membership
from .metadata_server import MAINTENANCE, SPEC, SUPERVISOR, AttributeWatch, announced
from .preparation import PLACES, Preparation
from .server_group import ServerGroup
from .state import ServingRun

TICK_S = 1.0
"""Longest time between two looks at what is due, such as a restart."""


class Controller:
    """One object for the life of the process; all methods run on the main thread."""

    def __init__(
        self, context: Context, events: queue.Queue[Callable[[], None]], replace_program: Callable[[str | None], None]
    ) -> None:
        self._context, self._state, self._replace_program = context, context.state, replace_program
        self._events = events
        """What is to be called on the main thread."""
        self._group = ServerGroup(context, self._on_served, self._on_rejected)
        self._membership = Membership(context, self._group.requests)
        self._wanted: Spec | None = None
        self._change: Preparation | None = None
        self._program: str | None = None
        """The newest value of gemma4-supervisor, until it is looked at."""

    def run(self) -> NoReturn:
        """Follow the metadata until the process ends."""
        settings = self._context.settings
        # First, so that a better version arrives whatever else fails.
        watch = functools.partial(AttributeWatch, settings, self._context.metadata, self._context.on_main_thread)
        watch(SUPERVISOR, self._on_program).start()
        watch(MAINTENANCE, self._on_maintenance, forgets=True).start()
        self._membership.start()
        failures = 0
        while not self._group.adopt_or_restart():
            failures += 1
            self._work(backoff(settings.retry_s, 10, failures))
        watch(SPEC, self._on_spec, self._on_metadata).start()
        while True:
            self._work(min(TICK_S, settings.restart_s))

    def halt(self) -> None:
        """Stop everything that is being fetched; the containers stay as they are."""
        self._group.halt()
        if self._change:
            self._change.halt()

    def leave_gateways(self) -> None:
        """Take no requests any more, because the machine goes down: a server that is ending answers each with an error."""
        self._membership.leave_for_good()

    def collect_output(self) -> None:
        """Read what the servers have printed. Any thread may call this."""
        self._group.collect_output()

    def _work(self, for_s: float) -> None:
        """Handle events for so many seconds."""
        end = time.monotonic() + for_s
        while (left_s := end - time.monotonic()) > 0:
            self._report_status()
            self._context.readiness.turned()
            with contextlib.suppress(queue.Empty):
                self._events.get(timeout=left_s)()
            self._group.tick()
            self._state.save_again()
            if (
                self._program and not self._group.is_busy
            ):  # the next one must not take a server that ends for one that serves
                program, self._program = self._program, None
                self._replace_program(program)

    def _on_program(self, value: str | None) -> None:
        self._program = value

    def _on_metadata(self, trouble: str) -> None:
        if trouble:
            self._context.status.trouble("metadata", f"{trouble}; the server that runs goes on, and changes wait.")
        else:
            self._context.status.clear("metadata")

    def _on_maintenance(self, text: str | None) -> None:
        notice = announced(text)
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
        self._group.adopt_containers(spec)
        if self._group.has(spec):
            self._group.keep(spec)  # its time limits can have changed
            for run in [*self._state.servers.values()]:
                self._clean_up_after(run)
        elif spec.digest == self._state.rejected:
            self._context.status.trouble(
                "rejected", f"{spec.hash} was rejected before; change anything in it to try it again."
            )
            if self._state.good:
                self._group.roll_out(self._state.good)
        else:
            self._group.stay()
            # What is fetched may take long; until it is here the last specification is better than none.
            self._change = Preparation(self._context, spec, self._on_ready, self._group.bring_back)
            self._change.start()

    def _on_ready(self, run: ServingRun) -> None:
        self._change = None
        self._context.log.info("switch", f"{run.spec.hash} takes over.", hash=run.spec.hash)
        self._group.roll_out(run)

    def _on_served(self, run: ServingRun) -> None:
        """Remember a specification that is good: at its first token where none was, else once all servers have proven it."""
        state, group = self._state, self._group
        is_first_or_good = state.good is None or state.is_good(run)
        if is_first_or_good or (group.has(run.spec) and group.has_served_for(self._context.settings.stable_s)):
            state.good = run
            state.save()
            if not is_first_or_good:
                self._context.log.info("proven", f"{run.spec.hash} has proven itself.", hash=run.spec.hash)
        self._clean_up_after(run)

    def _clean_up_after(self, run: ServingRun) -> None:
        """Clear an earlier rejection and, if `run` is proven, remove all else: once all servers serve what is desired."""
        wanted = self._wanted
        if not wanted or wanted.servers != run.spec.servers:
            return
        if not self._group.has(wanted) or not self._group.has_served_for(0):
            return
        self._context.status.clear("rejected")
        if self._state.rejected:
            self._state.rejected = ""
            self._state.save()
        if self._state.is_good(run):
            remove_unneeded(self._context, run)

    def _on_rejected(self, run: ServingRun, why: str) -> None:
        """Bring every server back to the last good specification."""
        good = self._state.good
        if good is None:
            return
        self._state.rejected = run.spec.digest
        self._state.save()
        text = f"{run.spec.hash} is rejected, {why}. {good.spec.hash} comes back."
        self._context.status.trouble("rejected", text)
        self._group.roll_out(good)

    def _report_status(self) -> None:
        self._context.status.set(
            **self._group.fields(self._wanted, self._membership.stage),
            wanted=self._wanted.hash if self._wanted else None,
            preparing=self._change.spec.hash if self._change else None,
        )
