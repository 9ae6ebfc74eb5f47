"""One run from start to start: its server is started, probed, kept out of reach while unhealthy, restarted or rejected.

`controller` decides which run that is.
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
from .probe import Finding, Prober, ServerCondition
from .serving_slot import ServingSlot
from .state import ServingRun

FAILING_STARTS = 3
"""A starting server whose `/health` answers 200 has failed after so many errors in a row."""

OnMainThread = Callable[[Callable[[], None]], None]
"""Has a function called on the main thread."""


class Phase(enum.Enum):
    """`WAITING`: nothing runs until the controller starts something. `BACKOFF`: waiting for the next start.
    `RESTORING`: fetching what a restart needs."""

    WAITING = "waiting"
    STARTING = "starting"
    SERVING = "serving"
    UNHEALTHY = "unhealthy"
    BACKOFF = "backoff"
    RESTORING = "restoring"


class ServerLifecycle:
    """Keeps the current run alive. All methods run on the main thread.

    Calls `served` when a run begins to serve, and again when it has proven itself.
    """

    def __init__(self, context: Context, on_main_thread: OnMainThread, served: Callable[[ServingRun], None]) -> None:
        self._context, self._state, self._on_main_thread = context, context.state, on_main_thread
        self._served = served
        self._slot = ServingSlot(
            context, lambda prober, finding: on_main_thread(lambda: self._on_finding(prober, finding))
        )
        self._restart_preparation: Preparation | None = None
        self.phase, self._since = Phase.WAITING, time.monotonic()
        self._errors = 0
        self._slow_since: float | None = None

    @property
    def current(self) -> ServingRun | None:
        """The run that the container has, or is to have."""
        return self._state.current

    def requests(self) -> float | None:
        """Return how many requests the server has, None where it does not say. Any thread may call this."""
        return self._slot.requests()

    def adopt_or_restart(self) -> bool:
        """Go on with the container that runs, or restart the current run: what the supervisor does first.

        Returns False where docker does not answer: then it is not known whether a container runs.
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
                "stop", "A container of an unknown specification runs; it goes on until another starts."
            )
        self.restart()
        return True

    def adopt_container(self, spec: Spec) -> None:
        """Go on with a container of exactly this specification, which may run although the saved state does not know it."""
        try:
            running = self._slot.running()
            if running and running.fingerprint == spec.fingerprint:
                self._take_over(ServingRun(spec, "", self._context.metadata.address(), label=spec.fingerprint), running)
        except (DockerError, TransientError):
            return  # then the specification is prepared and started like any other

    def replace(self, run: ServingRun) -> None:
        """Stop the current run in order, and start this one."""
        self._abandon_restart()
        if self.current:
            self._stop(self.current, f"{run.spec.hash} takes over")
        self._start(run)

    def restart(self) -> None:
        """Start the current run again, with what is still on this machine."""
        if self.current:
            self._return_to(self.current)

    def stop_downloads(self) -> None:
        """Give up a restart that has weights to fetch: another specification's are fetched now. Any other restart goes on."""
        if self._restart_preparation and self._restart_preparation.needs_weights:
            self._abandon_restart()

    def tick(self) -> None:
        """Do what is due. To be called about every second."""
        if self.current is None or self.phase is not Phase.BACKOFF:
            return
        settings = self._context.settings
        if self._in_phase_s() >= backoff(settings.restart_s, settings.restart_cap_s, self.current.failures):
            self._return_to(self.current)

    def halt(self) -> None:
        """Stop fetching; the container stays as it is."""
        if self._restart_preparation:
            self._restart_preparation.halt()

    # From start to start.

    def _take_over(self, run: ServingRun, container: Container) -> None:
        self._context.log.info("adopted", f"{run.spec.hash} runs already and goes on.", hash=run.spec.hash)
        self._remember(run)
        self._enter(Phase.SERVING if run.up else Phase.STARTING)
        if run.up:  # the first finding may take a minute under load
            self._slot.accept()
        self._slot.watch(run, container.id)

    def _start(self, run: ServingRun) -> None:
        run.label = run.spec.fingerprint
        self._remember(run)
        self._enter(Phase.STARTING)
        self._context.log.info("start", f"{run.spec.hash} is started.", hash=run.spec.hash)
        try:
            self._slot.start(run)
        except (DockerError, OSError) as error:
            self._fail(run, str(error).rstrip("."))

    def _stop(self, run: ServingRun, why: str) -> None:
        try:
            self._slot.stop(run, why)
        except DockerError as error:
            self._context.log.warning("stop", f"{run.spec.hash} was not stopped in order: {error}")

    def _return_to(self, run: ServingRun) -> None:
        if run is not self.current:
            run.failures = 0
        self._remember(run)
        self._enter(Phase.RESTORING)
        self._restart_preparation = Preparation(self._context, run.spec, self._on_ready, lambda _: None, known=run)
        self._restart_preparation.start()

    def _abandon_restart(self) -> None:
        if self._restart_preparation is None:
            return
        self._restart_preparation.abandon()
        self._restart_preparation = None
        self._context.status.clear(*PLACES)
        self._context.status.set(weightsPercent=None)
        self._enter(Phase.WAITING)

    def _on_ready(self, preparation: Preparation, run: ServingRun) -> None:
        def start() -> None:
            if preparation is not self._restart_preparation:
                return
            self._restart_preparation = None
            if self.current:
                run.spec = self.current.spec  # its time limits may have changed meanwhile
            self._start(run)

        self._on_main_thread(start)

    def _fail(self, run: ServingRun, why: str, is_last: bool = False) -> None:
        """Stop a run that failed; then wait and restart it, or go back to the last good one."""
        run.failures += 1
        output = self._context.docker.last_output()
        self._stop(run, f"{run.spec.hash} has failed")
        text = f"{run.spec.hash} failed, {run.failures} in a row: {why}."
        self._context.status.trouble("start", f"{text} Its last output: {output}" if output else text)
        self._context.status.clear("serving")
        good = self._state.good
        if good and not self._state.is_good(run) and (is_last or run.failures >= self._context.settings.start_tries):
            self._state.rejected = run.spec.digest
            text = f"{run.spec.hash} is rejected, {run.failures} failed in a row: {why}. {good.spec.hash} comes back."
            self._context.status.trouble("rejected", text)
            self._return_to(good)
        else:
            self._state.save()
            self._enter(Phase.BACKOFF)

    # What follows from a finding of the probe.

    def _on_finding(self, prober: Prober, finding: Finding) -> None:
        run = self.current
        if prober is not self._slot.prober or run is None:
            return
        if finding.condition is ServerCondition.ENDED:
            self._fail(run, finding.detail)
        elif self.phase is Phase.STARTING:
            self._on_finding_at_start(run, finding)
        elif finding.condition is ServerCondition.HEALTHY:
            self._on_healthy(run)
        elif finding.condition is ServerCondition.SLOW and self.phase is Phase.SERVING:
            self._on_slow(run, finding)
        else:
            self._on_unhealthy(run, finding)

    def _on_finding_at_start(self, run: ServingRun, finding: Finding) -> None:
        self._errors = self._errors + 1 if finding.condition is ServerCondition.FAILING else 0
        if finding.condition is ServerCondition.HEALTHY:
            seconds = round(self._in_phase_s(), 1)
            self._context.log.info("serving", f"{run.spec.hash} serves.", hash=run.spec.hash, startSeconds=seconds)
            run.up = True
            self._accept()
            self._context.status.clear("start")
            if self._state.good is None or self._state.is_good(run):
                self._state.good = run
            self._state.save()
            self._served(run)
        elif self._errors >= FAILING_STARTS:
            self._fail(run, f"/health answers 200, but {finding.detail}")
        elif self._in_phase_s() > run.spec.ready_s:
            detail = f"{finding.condition.value}: {finding.detail}"
            self._fail(run, f"not ready within {run.spec.ready_s:g} s, {detail}", is_last=True)

    def _on_healthy(self, run: ServingRun) -> None:
        self._slow_since = None
        self._context.status.clear("serving")
        if self.phase is not Phase.SERVING:
            self._accept()
        is_new = not self._state.is_good(run)
        if self._in_phase_s() < self._context.settings.stable_s or not (is_new or run.failures):
            return
        run.failures = 0
        self._state.good = run
        self._state.save()
        if is_new:
            self._context.log.info("proven", f"{run.spec.hash} has proven itself.", hash=run.spec.hash)
            self._served(run)

    def _on_slow(self, run: ServingRun, finding: Finding) -> None:
        """Go on taking requests, and restart after a while: load and a server that hangs look alike at first."""
        settings, seconds = self._context.settings, time.monotonic()
        if self._slow_since is None:
            self._slow_since = seconds
        silent_s = seconds - self._slow_since
        if silent_s > settings.unhealthy_s:
            self._fail(run, f"it generated nothing for {silent_s:.0f} s while a request waited, {finding.detail}")
            return
        text = (
            f"{run.spec.hash} {finding.condition.value}: {finding.detail}. It goes on taking requests; if it generates"
        )
        self._context.status.trouble("serving", f"{text} nothing for {settings.unhealthy_s:g} s, it is restarted.")

    def _on_unhealthy(self, run: ServingRun, finding: Finding) -> None:
        """Take no requests until the next token: errors are quick and would draw a gateway's load."""
        if self.phase is not Phase.UNHEALTHY:
            self._enter(Phase.UNHEALTHY)
        self._slot.refuse(f"{run.spec.hash} is unhealthy, {finding.condition.value}")
        self._context.status.trouble(
            "serving", f"{run.spec.hash} is unhealthy, {finding.condition.value}: {finding.detail}"
        )
        if self._in_phase_s() > self._context.settings.unhealthy_s:
            self._fail(run, f"unhealthy for {self._in_phase_s():.0f} s, {finding.detail}")

    def _accept(self) -> None:
        self._enter(Phase.SERVING)
        self._slot.accept()
        self._context.status.clear("serving")
        self._context.status.set(servingSince=now())

    def _remember(self, run: ServingRun) -> None:
        self._state.current = run
        self._state.save()

    def _enter(self, phase: Phase) -> None:
        self.phase, self._since = phase, time.monotonic()
        self._errors, self._slow_since = 0, None

    def _in_phase_s(self) -> float:
        return time.monotonic() - self._since
