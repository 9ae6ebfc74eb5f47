"""One run kept alive: started, looked after, its port closed while it is unhealthy, started again, or given up.

Whoever decides what ought to run is next door, in `keeper`; here is only what becomes of it.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable

from containers.shared.web import TransientError, backoff

from .context import Context
from .desired_spec import Spec
from .docker import Container, DockerError
from .log import now
from .preparation import PLACES, Preparation
from .probe import Condition, Finding, Prober
from .serving_slot import ServingSlot
from .state import Run

FAILING_STARTS = 3
"""Errors in a row after which a starting server that says it is healthy counts as failed."""

Later = Callable[[Callable[[], None]], None]
"""Has something done on the main thread."""


class Phase(enum.Enum):
    """`WAITING`: nothing runs, and nothing of its own accord will. `RETURNING`: fetching what a start again needs."""

    WAITING = "waiting"
    STARTING = "starting"
    SERVING = "serving"
    UNHEALTHY = "unhealthy"
    RESTING = "resting"
    RETURNING = "returning"


class ServerLifecycle:
    """The current run, as the record knows it. All methods run on the main thread.

    `served` is called when a run begins to serve, and again when it has proven itself.
    """

    def __init__(self, context: Context, later: Later, served: Callable[[Run], None]) -> None:
        self._context, self._state, self._later, self._served = context, context.state, later, served
        self._slot = ServingSlot(context, lambda prober, finding: later(lambda: self._on_finding(prober, finding)))
        self._return: Preparation | None = None
        self.phase, self._since = Phase.WAITING, time.monotonic()
        self._errors = 0
        self._slow_since: float | None = None

    @property
    def current(self) -> Run | None:
        return self._state.current

    def find(self) -> bool:
        """At the supervisor's start: go on with the container where there is one, else bring it back.

        False where docker does not say: a container that nobody can see must not be taken for none.
        """
        try:
            running = self._slot.running()
        except DockerError as error:
            self._context.status.trouble("docker", f"{error} Nothing can be started.")
            return False
        self._context.status.clear("docker")
        for run in filter(None, (self._state.current, self._state.good)):
            if running and running.fingerprint and running.fingerprint == run.label:
                self._take_over(run, running)
                return True
        if running:
            self._context.log.warning(
                "stop", "A container that is not known here runs; it goes on until another starts."
            )
        elif self.current:
            self._slot.close(self.current)
        self.revive()
        return True

    def adopt(self, spec: Spec) -> None:
        """A container of this very specification may run although nothing is remembered of it."""
        try:
            running = self._slot.running()
            if running and running.fingerprint == spec.fingerprint:
                self._take_over(Run(spec, "", self._context.metadata.address(), label=spec.fingerprint), running)
        except (DockerError, TransientError):
            return  # then it is prepared and started like any other

    def replace(self, run: Run) -> None:
        """Stop what runs, in order, and start this."""
        self._drop_return()
        if self.current:
            self._leave(self.current)
        self._start(run)

    def revive(self) -> None:
        """Start the current run again, with what is still here of it."""
        if self.current:
            self._restart(self.current)

    def stand_back(self) -> None:
        """Another specification is about to be fetched: fetch nothing against it. What is here may still start."""
        if self._return and self._return.needs_weights:
            self._drop_return()

    def on_time(self) -> None:
        """To be called every second or so."""
        if self.current is None or self.phase is not Phase.RESTING:
            return
        settings = self._context.settings
        if self._in_phase_s() >= backoff(settings.restart_s, settings.restart_cap_s, self.current.failures):
            self._restart(self.current)

    def halt(self) -> None:
        """Fetch nothing any more; the container and its port stay as they are."""
        if self._return:
            self._return.halt()

    def shut(self) -> None:
        """The machine goes down: out of everybody's reach before docker ends the container."""
        if self.current:
            self._slot.close(self.current)

    # From start to start.

    def _take_over(self, run: Run, container: Container) -> None:
        self._context.log.info("adopted", f"{run.spec.hash} runs already and is left alone.", hash=run.spec.hash)
        self._remember(run)
        self._enter(Phase.SERVING if run.up else Phase.STARTING)
        self._slot.watch(run, container.id)

    def _start(self, run: Run) -> None:
        run.label = run.spec.fingerprint
        self._remember(run)
        self._enter(Phase.STARTING)
        self._context.log.info("start", f"{run.spec.hash} is started.", hash=run.spec.hash)
        try:
            self._slot.start(run)
        except (DockerError, OSError) as error:
            self._fail(run, str(error).rstrip("."))

    def _leave(self, run: Run) -> None:
        try:
            self._slot.leave(run)
        except DockerError as error:
            self._context.log.warning("stop", f"{run.spec.hash} was not stopped in order: {error}")

    def _restart(self, run: Run) -> None:
        if run is not self.current:
            run.failures = 0
        self._remember(run)
        self._enter(Phase.RETURNING)
        self._return = Preparation(self._context, run.spec, self._on_ready, lambda _: None, known=run)
        self._return.start()

    def _drop_return(self) -> None:
        if self._return is None:
            return
        self._return.abandon()
        self._return = None
        self._context.status.clear(*PLACES)
        self._context.status.set(weightsPercent=None)
        self._enter(Phase.WAITING)

    def _on_ready(self, preparation: Preparation, run: Run) -> None:
        def start() -> None:
            if preparation is not self._return:
                return
            self._return = None
            if self.current:
                run.spec = self.current.spec  # its times may have changed meanwhile
            self._start(run)

        self._later(start)

    def _fail(self, run: Run, why: str, is_last: bool = False) -> None:
        """It has ended badly: rest and start it again, or go back to what was good."""
        run.failures += 1
        words = self._context.docker.last_output()
        self._leave(run)
        text = f"{run.spec.hash} failed, {run.failures} in a row: {why}."
        self._context.status.trouble("start", f"{text} Its last words: {words}" if words else text)
        self._context.status.clear("serving")
        good = self._state.good
        if good and not self._state.is_good(run) and (is_last or run.failures >= self._context.settings.start_tries):
            self._state.rejected = run.spec.digest
            text = f"{run.spec.hash} is given up, {run.failures} failed in a row: {why}. {good.spec.hash} comes back."
            self._context.status.trouble("rejected", text)
            self._restart(good)
        else:
            self._state.save()
            self._enter(Phase.RESTING)

    # What the probe finds.

    def _on_finding(self, prober: Prober, finding: Finding) -> None:
        run = self.current
        if prober is not self._slot.prober or run is None:
            return
        if finding.condition is Condition.ENDED:
            self._fail(run, finding.detail)
        elif self.phase is Phase.STARTING:
            self._on_finding_at_start(run, finding)
        elif finding.condition is Condition.HEALTHY:
            self._on_healthy(run)
        elif finding.condition is Condition.SLOW and self.phase is Phase.SERVING:
            self._on_slow(run, finding)
        else:
            self._on_unhealthy(run, finding)

    def _on_finding_at_start(self, run: Run, finding: Finding) -> None:
        self._errors = self._errors + 1 if finding.condition is Condition.FAILING else 0
        if finding.condition is Condition.HEALTHY:
            self._on_generating(run)
        elif self._errors >= FAILING_STARTS:
            self._fail(run, f"it says that it is healthy, but {finding.detail}")
        elif self._in_phase_s() > run.spec.ready_s:
            detail = f"{finding.condition.value}: {finding.detail}"
            self._fail(run, f"not ready within {run.spec.ready_s:g} s, {detail}", is_last=True)

    def _on_generating(self, run: Run) -> None:
        seconds = round(self._in_phase_s(), 1)
        self._context.log.info("serving", f"{run.spec.hash} serves.", hash=run.spec.hash, startSeconds=seconds)
        run.up = True
        self._open(run)
        self._context.status.clear("start")
        if self._state.good is None or self._state.is_good(run):
            self._state.good = run
        self._state.save()
        self._served(run)

    def _on_healthy(self, run: Run) -> None:
        self._slow_since = None
        self._context.status.clear("serving")
        if self._slot.port != "open":  # it was unhealthy, or an earlier supervisor left the port in whatever state
            self._open(run)
        is_new = not self._state.is_good(run)
        if self._in_phase_s() < self._context.settings.stable_s or not (is_new or run.failures):
            return
        run.failures = 0
        self._state.good = run
        self._state.save()
        if is_new:
            self._context.log.info("proven", f"{run.spec.hash} has proven itself.", hash=run.spec.hash)
            self._served(run)

    def _on_slow(self, run: Run, finding: Finding) -> None:
        """Leave the port open, and let the clock decide: load and a server that hangs look alike for a while."""
        settings, seconds = self._context.settings, time.monotonic()
        if self._slow_since is None:
            self._slow_since = seconds
        silent_s = seconds - self._slow_since
        if silent_s > settings.unhealthy_s:
            self._fail(run, f"it generated nothing for {silent_s:.0f} s while a request waited, {finding.detail}")
            return
        text = f"{run.spec.hash} {finding.condition.value}: {finding.detail}. Its port stays open; if it generates"
        self._context.status.trouble("serving", f"{text} nothing for {settings.unhealthy_s:g} s, it is started afresh.")

    def _on_unhealthy(self, run: Run, finding: Finding) -> None:
        """Close the port at once, as errors are quick and would draw a gateway's load; it opens with the next token."""
        if self.phase is not Phase.UNHEALTHY:
            self._enter(Phase.UNHEALTHY)
        if self._slot.port != "closed":
            self._slot.close(run)
        self._context.status.trouble(
            "serving", f"{run.spec.hash} is unhealthy: {finding.condition.value}: {finding.detail}"
        )
        if self._in_phase_s() > self._context.settings.unhealthy_s:
            self._fail(run, f"unhealthy for {self._in_phase_s():.0f} s, {finding.detail}")

    def _open(self, run: Run) -> None:
        if self.phase is not Phase.SERVING:
            self._enter(Phase.SERVING)
        self._slot.open(run)
        self._context.status.clear("serving")
        self._context.status.set(servingSince=now())

    def _remember(self, run: Run) -> None:
        self._state.current = run
        self._state.save()

    def _enter(self, phase: Phase) -> None:
        self.phase, self._since = phase, time.monotonic()
        self._errors, self._slow_since = 0, None

    def _in_phase_s(self) -> float:
        return time.monotonic() - self._since
