"""One server from start to start: it is started, probed, kept out of reach while unhealthy, restarted or given up.

`server_group` decides which run it has.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from containers.shared.web import TransientError, backoff

from .accelerators import NoDeviceError
from .context import Context
from .desired_spec import Spec
from .docker import DockerError
from .log import now
from .preparation import PLACES, Preparation
from .probe import Finding, ServerCondition
from .server_container import Container
from .serving_slot import ServingSlot
from .state import ServingRun

FAILING_STARTS = 3
"""A starting server whose `/health` answers 200 has failed after so many errors in a row."""

FOREIGN_DRAIN_S = 45.0
"""How long a container may end of which nothing is known."""

T = TypeVar("T")


class Phase(enum.Enum):
    """`WAITING`: nothing runs until the group of servers starts something. `BACKOFF`: waiting for the next start.
    `RESTORING`: making sure that all that the next start needs is here."""

    WAITING = "waiting"
    STARTING = "starting"
    SERVING = "serving"
    UNHEALTHY = "unhealthy"
    BACKOFF = "backoff"
    RESTORING = "restoring"


class ServerLifecycle:
    """Keeps the current run of one server alive. All methods run on the main thread.

    What takes long (waiting for gateways, draining, starting) is done on a thread of its own, one thing after the other, so
    that the other servers of the machine are looked after meanwhile. Calls `served` when a run begins to serve, and from when
    it has served for long enough to be proven until it is the good one; calls `rejected` with the reason when a run that was
    never good has failed too often.
    """

    def __init__(
        self, context: Context, suffix: str, served: Callable[[ServingRun], None],
        rejected: Callable[[ServingRun, str], None],
    ) -> None:  # fmt: skip
        self.suffix = suffix
        self._context, self._state, self._served, self._rejected = context, context.state, served, rejected
        self._slot = ServingSlot(context, suffix, self._on_finding)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=f"server{suffix}")
        self._begun = 0
        """Pieces of work that are not done yet."""
        self._restart_preparation: Preparation | None = None
        self.phase, self._since = Phase.WAITING, time.monotonic()
        self.serving_since: str | None = None
        self._errors = 0
        self._slow_since: float | None = None

    @property
    def current(self) -> ServingRun | None:
        """The run that the container has, or is to have."""
        return self._state.servers.get(self.suffix)

    @property
    def is_busy(self) -> bool:
        """True while a container is being stopped or started."""
        return self._begun > 0

    def requests(self) -> float | None:
        """Return how many requests the server has, None where it does not say. Any thread may call this."""
        return self._slot.requests()

    def has_served_for(self, seconds: float) -> bool:
        """Return True if it serves, and has done so for so long without a break."""
        return self.phase is Phase.SERVING and self._in_phase_s() >= seconds

    def adopt(self) -> bool:
        """Go on with the container that runs, if it is known; returns whether it is. Raises DockerError."""
        running = self._slot.running()
        good = self._state.good
        for run in (self.current, good.at(self.suffix) if good and good.spec.place(self.suffix) else None):
            if run and running and running.fingerprint in (run.label, run.place.fingerprint) and running.fingerprint:
                self._take_over(run, running)
                return True
        if running:
            self._context.log.warning(
                "stop", "A container of an unknown specification runs; it goes on until another starts."
            )
        return False

    def adopt_container(self, spec: Spec) -> None:
        """Go on with a container of exactly this specification, which may run although the saved state does not know it."""
        place = spec.place(self.suffix)
        try:
            running = self._slot.running()
            if place and running and running.fingerprint == place.fingerprint:
                address = self._context.metadata.address()
                self._take_over(ServingRun(spec, "", address, self.suffix), running)
        except (DockerError, TransientError):
            return  # then the specification is prepared and started like any other

    def change_to(self, run: ServingRun) -> None:
        """Stop the current run in order, and start this one with what is on this machine."""
        self._abandon_restart()
        self._leave(f"{run.spec.hash} takes over")
        self._return_to(run)

    def give_way(self) -> None:
        """Stop the current run in order, and have none: another server needs its port or its devices."""
        self._abandon_restart()
        self._leave("another server takes its place")
        self._state.servers.pop(self.suffix, None)
        self._state.save()
        self._enter(Phase.WAITING)

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

    def collect_output(self) -> None:
        """Read what the server has printed. Any thread may call this."""
        self._slot.output.collect()

    # From start to start.

    def _take_over(self, run: ServingRun, container: Container) -> None:
        self._context.log.info("adopted", f"{run.spec.hash} runs already and goes on.", hash=run.spec.hash)
        run.label = container.fingerprint
        self._remember(run)
        self._enter(Phase.SERVING if run.up else Phase.STARTING)
        if run.up:  # the first finding may take a minute under load
            self._slot.accept()
        self._slot.watch(run, container.id)

    def _start(self, run: ServingRun) -> None:
        self._leave(f"{run.spec.hash} takes over")
        run.label = run.place.fingerprint
        self._remember(run)
        self._enter(Phase.STARTING)
        self._context.log.info("start", f"{run.spec.hash} is started.", hash=run.spec.hash)
        self._do(lambda: self._slot.start(run), lambda container_id, why: self._on_started(run, container_id, why))

    def _on_started(self, run: ServingRun, container_id: str | None, why: str) -> None:
        if run is not self.current or self.phase is not Phase.STARTING or self.is_busy:
            return  # something newer was begun meanwhile
        if container_id is None:
            self._fail(run, why)
            return
        self._enter(Phase.STARTING)
        self._slot.watch(run, container_id)

    def _leave(self, why: str, failure: str = "") -> None:
        """Take the current container out of every gateway, let it finish its answers, remove it, and report its failure."""
        run = self.current
        self._slot.leave(why)
        drain_s = run.spec.drain_s if run else FOREIGN_DRAIN_S
        name = run.spec.hash if run else "A container of an unknown specification"

        def stop() -> None:
            output = self._slot.container.last_output() if failure else ""
            try:
                self._slot.stop(drain_s)
            except DockerError as error:
                self._context.log.warning("stop", f"{name} was not stopped in order: {error}")
            if failure:
                self._context.status.trouble("start", f"{failure} Its last output: {output}" if output else failure)

        self._do(stop, lambda *_: None)

    def _do(self, work: Callable[[], T], then: Callable[[T | None, str], None]) -> None:
        """Have `work` done after what was begun before, and `then` called with its result, or with None and the error."""
        self._begun += 1

        def finish(done: Future[T]) -> None:
            self._begun -= 1
            result, problem = None, ""
            try:
                result = done.result()  # raises a bug here, on the main thread, where it is seen
            except (DockerError, NoDeviceError, OSError) as error:
                problem = str(error).rstrip(".")
            then(result, problem)

        self._worker.submit(work).add_done_callback(lambda done: self._context.on_main_thread(lambda: finish(done)))

    def _return_to(self, run: ServingRun) -> None:
        if run is not self.current:
            run.failures = 0
        self._remember(run)
        self._enter(Phase.RESTORING)
        self._restart_preparation = Preparation(self._context, run.spec, self._on_ready, known=run)
        self._restart_preparation.start()

    def _abandon_restart(self) -> None:
        if self._restart_preparation is None:
            return
        self._restart_preparation.abandon()
        self._restart_preparation = None
        self._context.status.clear(*PLACES)
        self._context.status.set(weightsPercent=None)
        self._enter(Phase.WAITING)

    def _on_ready(self, run: ServingRun) -> None:
        self._restart_preparation = None
        if self.current:
            run.spec = self.current.spec  # its time limits may have changed meanwhile
        self._start(run)

    def _fail(self, run: ServingRun, why: str, is_last: bool = False) -> None:
        """Stop a run that failed; then wait and restart it, or go back to the last good one."""
        run.failures += 1
        self._leave(f"{run.spec.hash} has failed", f"{run.spec.hash} failed, {run.failures} in a row: {why}.")
        self._context.status.clear("serving")
        self._enter(Phase.BACKOFF)
        is_new = self._state.good is not None and not self._state.is_good(run) and run.is_evidence
        if is_new and (is_last or run.failures >= self._context.settings.start_tries):
            self._enter(Phase.WAITING)
            self._rejected(run, f"{run.failures} failed in a row: {why}")
        else:
            self._state.save()

    # What follows from a finding of the probe.

    def _on_finding(self, finding: Finding) -> None:
        run = self.current
        if run is None:
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
        if run.failures:
            run.failures = 0
            self._state.save()
        if is_new:
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
        self.serving_since = now()

    def _remember(self, run: ServingRun) -> None:
        self._state.servers[self.suffix] = run
        self._state.save()

    def _enter(self, phase: Phase) -> None:
        self.phase, self._since = phase, time.monotonic()
        self._errors, self._slow_since = 0, None

    def _in_phase_s(self) -> float:
        return time.monotonic() - self._since
