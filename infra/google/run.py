"""Cloud Run: run a job, follow its execution, read what a service serves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from infra.errors import GoogleError
from infra.google.access import Api
from infra.google.errors import is_ambiguous
from infra.google.session import GoogleSession

POLL_S = 5.0


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
class Service:
    """A service as it is now. Revisions are short names; `problem` says why the newest is not ready, or nothing."""

    name: str
    uri: str
    urls: tuple[str, ...]
    ready_revision: str
    created_revision: str
    ready: bool
    problem: str


class CloudRun:
    """One project's services and jobs in one region."""

    def __init__(self, session: GoogleSession, region: str) -> None:
        self._session = session
        self._parent = f"projects/{session.project}/locations/{region}"

    def service(self, name: str) -> Service:
        return _service(self._session.get(Api.CLOUD_RUN, f"{self._parent}/services/{name}"))

    def start(
        self, job: str, *, args: Sequence[str] = (), env: Mapping[str, str] | None = None, timeout_s: int = 0
    ) -> Execution:
        """Run a job once, with arguments, variables or a time-out of its own where they are given.

        The API knows no request id here. When the answer is lost, the execution that has appeared since is taken for
        ours, so that a broken connection neither starts a job twice nor forgets one.
        """
        before = {execution.name for execution in self.executions(job)}
        try:
            operation = self._session.post(
                Api.CLOUD_RUN, f"{self._parent}/jobs/{job}:run", _overrides(args, env or {}, timeout_s)
            )
        except GoogleError as error:
            appeared = self._appeared(job, before) if is_ambiguous(error) else None
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

    def _appeared(self, job: str, before: set[str]) -> Execution | None:
        return next((one for one in self.executions(job) if one.name not in before), None)


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
    ready = terminal.get("state") == "CONDITION_SUCCEEDED" and not raw.get("reconciling")
    return Service(
        name=raw.get("name", ""),
        uri=raw.get("uri", ""),
        urls=tuple(raw.get("urls", ())),
        ready_revision=_short(raw.get("latestReadyRevision", "")),
        created_revision=_short(raw.get("latestCreatedRevision", "")),
        ready=ready,
        problem="" if ready else terminal.get("message", "the newest revision is still on its way"),
    )


def _short(name: str) -> str:
    return name.rsplit("/", 1)[-1]
