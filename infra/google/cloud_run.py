"""Cloud Run: run a job, follow its execution, read what a service serves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from infra.errors import GoogleError
from infra.google.api_errors import is_ambiguous
from infra.google.provider_settings import Api
from infra.google.session import GoogleSession

POLL_S = 5.0
SUCCEEDED, FAILED = "CONDITION_SUCCEEDED", "CONDITION_FAILED"


class ExecutionState(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Execution:
    """One run of a job. `name` is the full resource name; times are RFC 3339, empty while they lie ahead.

    `args` are those that its container got, whether the job's own or this run's.
    """

    name: str
    job: str
    state: ExecutionState
    message: str
    created: str
    completed: str
    log_uri: str
    args: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.name.rsplit("/", 1)[-1]

    @property
    def done(self) -> bool:
        return self.state is not ExecutionState.RUNNING


@dataclass(frozen=True)
class Condition:
    """One step of a revision's start. `state` as the API spells it; `message` in Google's words, or empty."""

    state: str
    message: str


@dataclass(frozen=True)
class Revision:
    """A revision as it is now, by its short name. `conditions` by type, such as ContainerReady; `Ready` sums them up."""

    name: str
    created: str
    """RFC 3339."""
    annotations: Mapping[str, str]
    conditions: Mapping[str, Condition]

    def succeeded(self, condition: str) -> bool:
        """Whether the step of this type is done."""
        return condition in self.conditions and self.conditions[condition].state == SUCCEEDED

    @property
    def ready(self) -> bool:
        return self.succeeded("Ready")

    @property
    def failed(self) -> bool:
        """Whether Cloud Run has given it up, as opposed to: is still at it."""
        return self._ready.state == FAILED

    @property
    def problem(self) -> str:
        """Google's reason for a revision that failed; a step's own where `Ready` has none."""
        said = (one.message for one in (self._ready, *self.conditions.values()) if one.state == FAILED)
        return next(filter(None, said), "Cloud Run gave no reason.") if self.failed else ""

    @property
    def _ready(self) -> Condition:
        return self.conditions.get("Ready", Condition("", ""))


@dataclass(frozen=True)
class Service:
    """A service as it is now. Revisions are short names; `problem` says why the newest is not ready, or nothing."""

    name: str
    uri: str
    urls: tuple[str, ...]
    ready_revision: str
    created_revision: str
    ready: bool
    problem: str
    failed: bool = False
    """Whether Cloud Run has given up on what was asked last, as opposed to: is still at it."""
    generation: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of the template that was asked last."""
    pinned_to: tuple[str, ...] = ()
    """The revisions that take the traffic where somebody has taken it away from the newest."""

    @property
    def failed_revision(self) -> str:
        """Which attempt failed: the newest revision's name, or the generation's where none came about. Empty while the
        newest serves or is on its way."""
        if not self.failed or (self.created_revision and self.created_revision == self.ready_revision):
            return ""
        return self.created_revision or f"generation-{self.generation}"


class CloudRun:
    """One project's services and jobs in one region."""

    def __init__(self, session: GoogleSession, region: str) -> None:
        self._session = session
        self._parent = f"projects/{session.project}/locations/{region}"

    def service(self, name: str) -> Service:
        return _service(self._session.get(Api.CLOUD_RUN, f"{self._parent}/services/{name}"))

    def revision(self, service: str, name: str) -> Revision:
        """`name` is short."""
        return _revision(self._session.get(Api.CLOUD_RUN, f"{self._parent}/services/{service}/revisions/{name}"))

    def start(
        self, job: str, *, args: Sequence[str] = (), env: Mapping[str, str] | None = None, timeout_s: int = 0
    ) -> Execution:
        """Run a job once, with arguments, variables or a time-out of its own where they are given.

        The API knows no request id here. When the answer is lost, the execution with these arguments that has appeared
        since is taken for ours, so that a broken connection neither starts a job twice nor forgets one.
        """
        before = {execution.name for execution in self.executions(job)}
        try:
            operation = self._session.post(
                Api.CLOUD_RUN, f"{self._parent}/jobs/{job}:run", _overrides(args, env or {}, timeout_s)
            )
        except GoogleError as error:
            appeared = self._appeared(job, before, args) if is_ambiguous(error) else None
            if appeared is None:
                raise
            return appeared
        return _execution(operation.get("metadata", {}))

    def executions(self, job: str) -> tuple[Execution, ...]:
        """Newest first."""
        pages = self._session.pages(Api.CLOUD_RUN, f"{self._parent}/jobs/{job}/executions")
        found = [_execution(raw) for page in pages for raw in page.get("executions", ())]
        return tuple(sorted(found, key=lambda execution: execution.created, reverse=True))

    def running(self, job: str, args: Sequence[str]) -> Execution | None:
        """The newest execution of a job that has these arguments and has not ended; None where there is none."""
        same = (one for one in self.executions(job) if not one.done and one.args == tuple(args))
        return next(same, None)

    def exit_code(self, execution: str) -> int | None:
        """What the container of a single-task execution ended with last; None where it never ran or was killed."""
        tasks = self._session.get(Api.CLOUD_RUN, f"{execution}/tasks").get("tasks", ())
        code = tasks[0].get("lastAttemptResult", {}).get("exitCode") if tasks else None
        return None if code is None else int(code)

    def execution(self, name: str) -> Execution:
        """`name` is an execution's full name."""
        return _execution(self._session.get(Api.CLOUD_RUN, name))

    def cancel(self, name: str) -> None:
        self._session.post(Api.CLOUD_RUN, f"{name}:cancel", {}, repeatable=True)

    def wait(
        self,
        name: str,
        *,
        timeout_s: float,
        poll_s: float = POLL_S,
        progress: Callable[[Execution], None] = lambda _: None,
    ) -> Execution:
        """Follow an execution to its end, whatever that is; GoogleError when it outlasts `timeout_s`.

        `progress` hears of every look. The execution goes on after a time-out.
        """
        deadline = self._session.clock() + timeout_s
        while True:
            execution = self.execution(name)
            progress(execution)
            if execution.done:
                return execution
            if self._session.clock() + poll_s > deadline:
                raise GoogleError(
                    f"The job execution {execution.id} has not ended within {timeout_s:.0f} s; it goes on, and running "
                    f"the command again goes on waiting. Its log: {execution.log_uri}",
                    reason="STILL_RUNNING",
                )
            self._session.sleep(poll_s)

    def _appeared(self, job: str, before: set[str], args: Sequence[str]) -> Execution | None:
        new = (one for one in self.executions(job) if one.name not in before)
        return next((one for one in new if not args or one.args == tuple(args)), None)


def _overrides(args: Sequence[str], env: Mapping[str, str], timeout_s: int) -> dict[str, Any]:
    container: dict[str, Any] = {}
    if args:
        container["args"] = list(args)
    if env:
        container["env"] = [{"name": name, "value": value} for name, value in env.items()]
    overrides: dict[str, Any] = {"containerOverrides": [container]} if container else {}
    if timeout_s:
        overrides["timeout"] = f"{timeout_s}s"
    return {"overrides": overrides} if overrides else {}


def _execution(raw: Mapping[str, Any]) -> Execution:
    ended = [one for one in raw.get("conditions", ()) if one.get("type") == "Completed"]
    completed: Mapping[str, Any] = ended[0] if ended else {}
    containers = raw.get("template", {}).get("containers", ())
    return Execution(
        name=raw.get("name", ""),
        job=raw.get("job", ""),
        state=_execution_state(raw, completed),
        message=completed.get("message", ""),
        created=raw.get("createTime", ""),
        completed=raw.get("completionTime", ""),
        log_uri=raw.get("logUri", ""),
        args=tuple(containers[0].get("args", ())) if containers else (),
    )


def _execution_state(raw: Mapping[str, Any], completed: Mapping[str, Any]) -> ExecutionState:
    state = completed.get("state")
    if state == "CONDITION_SUCCEEDED":
        return ExecutionState.SUCCEEDED
    if completed.get("executionReason") == "CANCELLED" or raw.get("cancelledCount", 0):
        return ExecutionState.CANCELLED
    return ExecutionState.FAILED if state == "CONDITION_FAILED" else ExecutionState.RUNNING


def _service(raw: Mapping[str, Any]) -> Service:
    terminal = raw.get("terminalCondition", {})
    reconciling = bool(raw.get("reconciling"))  # not by observedGeneration, which a failure leaves behind
    ready = terminal.get("state") == SUCCEEDED and not reconciling
    targets = raw.get("traffic", ())
    newest = any(target.get("type", "").endswith("LATEST") and target.get("percent") for target in targets)
    return Service(
        name=raw.get("name", ""),
        uri=raw.get("uri", ""),
        urls=tuple(raw.get("urls", ())),
        ready_revision=_short(raw.get("latestReadyRevision", "")),
        created_revision=_short(raw.get("latestCreatedRevision", "")),
        ready=ready,
        problem="" if ready else _said(terminal) or "the newest revision is still on its way",
        failed=terminal.get("state") == FAILED and not reconciling,
        generation=str(raw.get("generation", "")),
        annotations=raw.get("template", {}).get("annotations", {}),
        pinned_to=() if newest else tuple(_short(one.get("revision", "")) for one in targets if one.get("percent")),
    )


def _revision(raw: Mapping[str, Any]) -> Revision:
    conditions = {one.get("type", ""): Condition(one.get("state", ""), _said(one)) for one in raw.get("conditions", ())}
    return Revision(_short(raw.get("name", "")), raw.get("createTime", ""), raw.get("annotations", {}), conditions)


def _said(condition: Mapping[str, Any]) -> str:
    """A condition's message on one line, without the links that Google appends."""
    return " ".join(condition.get("message", "").partition("Logs URL")[0].split())


def _short(name: str) -> str:
    return name.rsplit("/", 1)[-1]
