"""Waits for one revision of a Cloud Run service: for a limited time, with progress. It fails only where the revision failed."""

from __future__ import annotations

from dataclasses import dataclass, field

from infra.errors import GoogleError, ServingError
from infra.google.cloud_run import CloudRun, Revision, Service
from infra.google.logs import LogSource, last_lines
from infra.google.session import GoogleSession
from infra.google.times import timestamp_s
from infra.planning.units import read_duration
from infra.providers.base import Progress
from infra.serving.diagnosis import start_failure
from infra.serving.loading_log import current_activity

ASKED_S = 90.0
"""How long the service may take to show the template of this `up`, and Google to answer. Where it never shows it, Google
refused the request, and the service's own row says why."""
SURE_S = 30.0
"""How long a failure must last before it counts, unless the service itself has failed: it may belong to an older revision,
and Cloud Run may try once more by itself."""
FIRST_POLL_S, POLL_S = 1.0, 5.0
LOG_EVERY_S = 15.0
_SHOW_EVERY_S = 30.0
_LOG_LINES = 300
"""An engine that fails writes some forty lines after its first error."""
_EARLIER_S = 20.0
"""A revision older than this at the start of the wait is not of this `up`; clocks usually differ by less."""


@dataclass(frozen=True)
class AwaitedRevision:
    """The revision of `service` whose `annotation` is `mark`. `timeout_s` is the longest wait. `first`: the state knows no
    revision yet."""

    region: str
    service: str
    annotation: str
    mark: str
    timeout_s: float
    first: bool


def follow_revision(session: GoogleSession, awaited: AwaitedRevision, *, progress: Progress, warn: Progress) -> str:
    """Wait for a revision, and return its short name once it is ready; empty where it could not be followed to its end.

    Raises ServingError where it failed: with Google's reason, the likely cause and the server's last log lines.
    """
    return _Watch(session, awaited, progress, warn).until_ready()


@dataclass
class _Watch:
    session: GoogleSession
    awaited: AwaitedRevision
    progress: Progress
    warn: Progress
    run: CloudRun = field(init=False)
    began: float = field(init=False)
    service: Service | None = None
    """As read last; None where there is none yet."""
    name: str = ""
    """The revision's name, once it exists."""
    left_behind: bool = False
    """True where the revision is older than this `up`, and the state knows of none."""
    busy: str = ""
    """What the server does, by its log."""
    unread: str = ""
    """Why the log cannot be read; empty where it can."""
    answered_at: float = 0.0
    """Seconds into the wait at which Google last answered."""
    unasked_at: float = 0.0
    """Seconds into the wait at which the service last did not show the template of this `up`."""
    unfailed_at: float = 0.0
    """Seconds into the wait at which the revision was last seen without a failure."""
    log_read: float = float("-inf")
    shown: str = ""
    shown_at: float = 0.0

    def __post_init__(self) -> None:
        self.run = CloudRun(self.session, self.awaited.region)
        self.began = self.session.clock()

    def until_ready(self) -> str:
        """Do what `follow_revision` says."""
        poll_s = FIRST_POLL_S
        while True:
            revision, trouble = self._read()
            if trouble and self._waited - self.answered_at >= ASKED_S:
                self.progress(f"cannot be followed, which does not change the service: {trouble}")
                return ""
            if self.left_behind:
                self._warn_of_a_killed_creation()
                return ""
            if revision is not None and revision.ready:
                self.progress(f"{self.name} is ready")
                return self.name
            if revision is not None and revision.failed and self._given_up():
                raise self._failure(revision.problem)
            if not self.name and self.service is not None and self.service.failed and self._long_since(self.unasked_at):
                raise self._failure(self.service.problem)
            if self._waited >= (self.awaited.timeout_s if self._asked else ASKED_S):
                self._end()
                return ""
            self._show(f"no answer yet: {trouble}" if trouble else self._stage(revision))
            self.session.sleep(poll_s)
            poll_s = min(2 * poll_s, POLL_S)

    @property
    def _waited(self) -> float:
        return self.session.clock() - self.began

    @property
    def _asked(self) -> bool:
        """True once the service shows the template of this `up`."""
        template = self.service.annotations if self.service else {}
        return template.get(self.awaited.annotation) == self.awaited.mark

    def _read(self) -> tuple[Revision | None, str]:
        """Return the revision, None while there is none, and the error where Google did not answer."""
        try:
            found = self.run.revision(self.awaited.service, self.name) if self.name else self._newest()
        except GoogleError as error:
            if self.name or error.status != 404:
                return None, str(error)
            found = None
        self.answered_at = self._waited
        if not self._asked:
            self.unasked_at = self._waited
        if found is None or not found.failed:
            self.unfailed_at = self._waited
        return found, ""

    def _given_up(self) -> bool:
        """Return whether the failure of the revision is final."""
        try:
            self.service = self.run.service(self.awaited.service)
        except GoogleError:
            return self._long_since(self.unfailed_at)
        return self.service.failed or self._long_since(self.unfailed_at)

    def _long_since(self, waited: float) -> bool:
        return self._waited - waited >= SURE_S

    def _newest(self) -> Revision | None:
        """Return the service's newest revision where that is the awaited one. Raises GoogleError."""
        self.service = self.run.service(self.awaited.service)
        if not self.service.created_revision:
            return None
        newest = self.run.revision(self.awaited.service, self.service.created_revision)
        if newest.annotations.get(self.awaited.annotation) != self.awaited.mark:
            return None
        self.name = newest.name
        created = timestamp_s(newest.created)
        self.left_behind = self.awaited.first and created is not None and self.began - created > _EARLIER_S
        return newest

    def _stage(self, revision: Revision | None) -> str:
        if revision is None:
            return "waiting for the revision" if self._asked else "waiting for Cloud Run to take the request"
        if not revision.succeeded("ContainerReady"):
            return f"{self.name}: importing the image"
        self._read_log()
        if told := self.unread or self.busy:
            return f"{self.name}: {told}"
        if not revision.succeeded("ResourcesAvailable"):
            return f"{self.name}: image imported, starting an instance"
        return f"{self.name}: container started, waiting for its first healthy answer"

    def _read_log(self) -> None:
        """Read from the log what the server does. A log that cannot be read is reported and changes nothing."""
        if self.session.clock() - self.log_read < LOG_EVERY_S:
            return
        self.log_read = self.session.clock()
        try:
            self.busy, self.unread = current_activity(self._lines(20)) or self.busy, ""
        except GoogleError as error:
            self.unread = f"starting; its log cannot be read: {error}"

    def _lines(self, limit: int) -> tuple[str, ...]:
        source = LogSource.service(self.awaited.service, self.awaited.region, self.name)
        return last_lines(self.session, source, limit=limit)

    def _show(self, stage: str) -> None:
        now = self.session.clock()
        if stage == self.shown and now - self.shown_at < _SHOW_EVERY_S:
            return
        self.shown, self.shown_at = stage, now
        timeout_s = self.awaited.timeout_s if self._asked else ASKED_S
        self.progress(f"{stage} ({read_duration(self._waited)} of at most {read_duration(timeout_s)})")

    def _failure(self, problem: str) -> ServingError:
        lines: tuple[str, ...] = ()
        if self.name:
            self.session.sleep(POLL_S)  # entries show up some seconds after they were written
            try:
                lines = self._lines(_LOG_LINES)
            except GoogleError as error:
                lines = (f"(its log cannot be read: {error})",)
        about = f"revision {self.name}" if self.name else f"service {self.awaited.service}"
        serving = self.service.ready_revision if self.service else ""
        return start_failure(about, problem, lines, busy=self.busy, serving=serving)

    def _end(self) -> None:
        """Say why this wait ends without a result; the service's own row says the rest."""
        if self._asked:
            self.progress(f"{self.name or 'no revision'} is not ready yet; the next `pulumi up` follows it again")
            return
        self.progress("Cloud Run was not asked for a revision, or refused: see the service's own row")
        if self.awaited.first and self.service is not None:
            self._warn_of_a_killed_creation()

    def _warn_of_a_killed_creation(self) -> None:
        """Warn of a service that a killed `up` left: the state does not know it, and Google's 409 does not say why."""
        name, region, project = self.awaited.service, self.awaited.region, self.session.project
        self.warn(
            f"The service {name} is older than this `up`. If its row says that it already exists (409), an earlier `up` was "
            f"killed while it made the service, and the state does not know it. Nobody can call it yet: run `gcloud run "
            f"services delete {name} --region {region} --project {project}`, then `pulumi up`."
        )
