"""One run kept alive: started, looked after, its port closed while it is unwell, started again, or given up.

Whoever decides what ought to run is next door, in `keeper`; here is only what becomes of it.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable

from . import weights
from .containers import DockerError
from .journal import now
from .preparation import Preparation, Tools
from .probe import Condition, Finding, Prober
from .record import Record, Run
from .settings import backoff
from .slot import Slot
from .spec import Spec
from .web import Unreachable

SICK_STARTS = 3
"""Errors in a row after which a starting server that says it is healthy counts as failed."""
DOUBTS = 2
"""Silences in a row after which a serving server counts as unwell; an error counts at once."""

Later = Callable[[Callable[[], None]], None]
"""Has something done on the main thread."""


class Phase(enum.Enum):
    """`WAITING`: nothing runs, and nothing of its own accord will. `RETURNING`: fetching what a start again needs."""

    WAITING = "waiting"
    STARTING = "starting"
    SERVING = "serving"
    UNWELL = "unwell"
    RESTING = "resting"
    RETURNING = "returning"


class Service:
    """The current run, as `record` knows it. All methods run on the main thread; `came_up` is called when it serves."""

    def __init__(self, tools: Tools, record: Record, later: Later, came_up: Callable[[Run], None]) -> None:
        self._tools, self._record, self._later, self._came_up = tools, record, later, came_up
        self._slot = Slot(tools, lambda prober, finding: later(lambda: self._on_finding(prober, finding)))
        self._return: Preparation | None = None
        self.phase, self._since = Phase.WAITING, time.monotonic()
        self._doubts = 0

    @property
    def current(self) -> Run | None:
        return self._record.current

    def find(self) -> None:
        """At the supervisor's start: go on with the container where there is one, else bring it back.

        Waits for docker as long as it takes: a container that nobody can see must not be taken for none.
        """
        failures = 0
        while (running := self._running()) is None:
            failures += 1
            time.sleep(backoff(self._tools.settings.retry_s, 10, failures))
        for run in filter(None, (self._record.current, self._record.good)):
            if run.spec.fingerprint == running:
                self._take_over(run)
                return
        if self.current:
            self._slot.close(self.current)
            self.revive()

    def adopt(self, spec: Spec) -> None:
        """A container of this very specification may run although nothing is remembered of it."""
        if self._running() != spec.fingerprint:
            return
        try:
            self._take_over(Run(spec, "", self._tools.metadata.address()))
        except Unreachable:
            return  # then it is prepared and started like any other

    def replace(self, run: Run) -> None:
        """Stop what runs, in order, and start this."""
        self.stand_down()
        if self.current:
            self._slot.leave(self.current)
        self._start(run)

    def revive(self) -> None:
        """Start the current run again, with what is still here of it."""
        if self.current:
            self._come_back(self.current)

    def stand_down(self) -> None:
        """No further start of what is down: something else is to come."""
        if self._return:
            self._return.abandon()
            self._return = None
        if self.phase in (Phase.RESTING, Phase.RETURNING):
            self._enter(Phase.WAITING)

    def on_time(self) -> None:
        """To be called every second or so."""
        if self.current is None or self.phase is not Phase.RESTING:
            return
        settings = self._tools.settings
        if self._in_phase_s() >= backoff(settings.restart_s, settings.restart_cap_s, self.current.failures):
            self._come_back(self.current)

    def halt(self) -> None:
        """Fetch nothing any more; the container and its port stay as they are."""
        if self._return:
            self._return.halt()

    def shut(self) -> None:
        """The machine goes down: out of everybody's reach before docker ends the container."""
        if self.current:
            self._slot.close(self.current)

    # From start to start.

    def _running(self) -> str | None:
        """Fingerprint of the container that runs, blank where none does, None where docker does not say."""
        try:
            fingerprint = self._slot.fingerprint()
        except DockerError as error:
            self._tools.status.trouble("docker", f"{error} Nothing can be started.")
            return None
        self._tools.status.clear("docker")
        return fingerprint

    def _take_over(self, run: Run) -> None:
        self._tools.journal.info("adopted", f"{run.spec.hash} runs already and is left alone.", hash=run.spec.hash)
        self._remember(run)
        self._enter(Phase.SERVING if run.up else Phase.STARTING)
        self._slot.attach(run)

    def _start(self, run: Run) -> None:
        self._remember(run)
        self._enter(Phase.STARTING)
        self._tools.journal.info("start", f"{run.spec.hash} is started.", hash=run.spec.hash)
        try:
            weights.tidy(run.spec.weights)
            self._slot.start(run)
        except (DockerError, OSError) as error:
            self._fail(run, str(error).rstrip("."))

    def _come_back(self, run: Run) -> None:
        if run is not self.current:
            run.failures = 0
        self._remember(run)
        self._enter(Phase.RETURNING)
        self._return = Preparation(self._tools, run.spec, self._on_ready, lambda _: None, known=run)
        self._return.start()

    def _on_ready(self, preparation: Preparation, run: Run) -> None:
        def start() -> None:
            if preparation is self._return:
                self._return = None
                self._start(run)

        self._later(start)

    def _fail(self, run: Run, why: str, is_last: bool = False) -> None:
        """It has ended badly: rest and start it again, or go back to what was good."""
        run.failures += 1
        words = self._tools.docker.last_words()
        self._slot.leave(run)
        text = f"{run.spec.hash} failed, {run.failures} in a row: {why}."
        self._tools.status.trouble("start", f"{text} Its last words: {words}" if words else text)
        self._tools.status.clear("serving")
        good = self._record.good
        is_new = good is not None and good.spec.fingerprint != run.spec.fingerprint
        if good and is_new and (is_last or run.failures >= self._tools.settings.start_tries):
            self._record.rejected = run.spec.digest
            text = f"{run.spec.hash} did not come up, {run.failures} in a row: {why}. {good.spec.hash} comes back."
            self._tools.status.trouble("rejected", text)
            self._come_back(good)
        else:
            self._record.save()
            self._enter(Phase.RESTING)

    # What the probe finds.

    def _on_finding(self, prober: Prober, finding: Finding) -> None:
        run = self.current
        if prober is not self._slot.prober or run is None:
            return
        if finding.condition is Condition.GONE:
            self._fail(run, finding.detail)
        elif self.phase is Phase.STARTING:
            self._on_finding_at_start(run, finding)
        elif finding.condition is Condition.WELL:
            self._be_well(run)
        else:
            self._be_in_doubt(run, finding)

    def _on_finding_at_start(self, run: Run, finding: Finding) -> None:
        self._doubts = self._doubts + 1 if finding.condition is Condition.SICK else 0
        if finding.condition is Condition.WELL:
            self._come_up(run)
        elif self._doubts >= SICK_STARTS:
            self._fail(run, f"it says that it is healthy, but {finding.detail}")
        elif self._in_phase_s() > run.spec.ready_s:
            detail = f"{finding.condition.value}: {finding.detail}"
            self._fail(run, f"not ready within {run.spec.ready_s:g} s, {detail}", is_last=True)

    def _come_up(self, run: Run) -> None:
        seconds = round(self._in_phase_s(), 1)
        self._tools.journal.info("serving", f"{run.spec.hash} serves.", hash=run.spec.hash, startSeconds=seconds)
        run.up = True
        self._record.good = run
        self._record.save()
        self._open(run)
        self._tools.status.clear("start")
        self._came_up(run)

    def _be_well(self, run: Run) -> None:
        self._doubts = 0
        if self._slot.port != "open":  # it was unwell, or an earlier supervisor left the port in whatever state
            self._open(run)
        if run.failures and self._in_phase_s() > self._tools.settings.stable_s:
            run.failures = 0
            self._record.save()

    def _be_in_doubt(self, run: Run, finding: Finding) -> None:
        """Silence may be load and has to repeat itself; anything else is plain."""
        self._doubts += 1 if finding.condition is Condition.SLOW else DOUBTS
        if self._doubts < DOUBTS:
            return
        if self.phase is not Phase.UNWELL:
            self._enter(Phase.UNWELL)
            self._doubts = DOUBTS
        if self._slot.port != "closed":
            self._slot.close(run)
        self._tools.status.trouble("serving", f"{run.spec.hash} is unwell, {finding.condition.value}: {finding.detail}")
        if self._in_phase_s() > self._tools.settings.unwell_s:
            self._fail(run, f"unwell for {self._in_phase_s():.0f} s, {finding.detail}")

    def _open(self, run: Run) -> None:
        self._enter(Phase.SERVING)
        self._slot.open(run)
        self._tools.status.clear("serving")
        self._tools.status.set(servingSince=now())

    def _remember(self, run: Run) -> None:
        self._record.current = run
        self._record.save()

    def _enter(self, phase: Phase) -> None:
        self.phase, self._since, self._doubts = phase, time.monotonic(), 0

    def _in_phase_s(self) -> float:
        return time.monotonic() - self._since
