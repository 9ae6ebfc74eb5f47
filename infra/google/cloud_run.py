"""Cloud Run: runs a job, follows its execution, reads a service and its revisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from infra.errors import GoogleError
from infra.google.api_errors import is_ambiguous
from infra.google.gcp_settings import Api
from infra.google.session import GoogleSession

POLL_S = 5.0
SUCCEEDED, FAILED = "CONDITION_SUCCEEDED", "CONDITION_FAILED"


_TRAFFIC = "TRAFFIC_TARGET_ALLOCATION_TYPE"


class ExecutionState(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Execution:
    """One run of a job. `name` is the full resource name, `created` an RFC 3339 timestamp.

    `args` are the arguments of its container, whether the job's own or this run's.
    """

    name: str
    job: str
    state: ExecutionState
    message: str
    created: str
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
    """One step of a revision's start. `state` is the API's value; `message` is Google's, or empty."""

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
    words: tuple[str, ...] = ()
    """What its first container runs: command, then arguments."""
    accelerator: str = ""
    """The GPU by Cloud Run's name, such as nvidia-l4; empty without one."""
    limits: Mapping[str, str] = field(default_factory=dict)
    """Of its first container, as Kubernetes writes them: cpu, memory, nvidia.com/gpu."""

    def succeeded(self, condition: str) -> bool:
        """Return whether the condition of this type is fulfilled."""
        return condition in self.conditions and self.conditions[condition].state == SUCCEEDED

    @property
    def ready(self) -> bool:
        return self.succeeded("Ready")

    @property
    def failed(self) -> bool:
        """True once Cloud Run has given up on the revision; False while it still starts it."""
        return self._ready.state == FAILED

    @property
    def problem(self) -> str:
        """Google's reason for a revision that failed: that of `Ready`, else that of the first condition that failed."""
        said = (one.message for one in (self._ready, *self.conditions.values()) if one.state == FAILED)
        return next(filter(None, said), "Cloud Run gave no reason.") if self.failed else ""

    @property
    def _ready(self) -> Condition:
        return self.conditions.get("Ready", Condition("", ""))


@dataclass(frozen=True)
class Service:
    """A service as it is now. Revisions are short names. `problem` says why the newest is not ready; empty where it is."""

    uri: str
    ready_revision: str
    created_revision: str
    ready: bool
    problem: str
    failed: bool = False
    """True once Cloud Run has given up on the newest template; False while it still works on it."""
    generation: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """The annotations of the newest template."""
    pinned_to: tuple[str, ...] = ()
    """The revisions that get the traffic, where somebody has taken it away from the newest; else empty."""
    traffic: Mapping[str, int] = field(default_factory=dict)
    """Percent of the requests by revision, the newest ready one by its name."""
    min_instances: int = 0
    """Of service and template the larger one: that many are kept."""
    max_instances: int = 0
    """Of the template; 0 where it does not say."""
    created: str = ""
    """RFC 3339, as the next."""
    updated: str = ""

    @property
    def failed_revision(self) -> str:
        """The newest revision where it failed, or `generation-N` where no revision was made; empty where none failed."""
        if not self.failed or (self.created_revision and self.created_revision == self.ready_revision):
            return ""
        return self.created_revision or f"generation-{self.generation}"


class CloudRun:
    """One project's services and jobs in one region."""

    def __init__(self, session: GoogleSession, region: str) -> None:
        self._session = session
        self._parent = f"projects/{session.project}/locations/{region}"

    def service(self, name: str) -> Service:
        """Return a service by its short name. Raises GoogleError."""
        return _service(self._session.get(Api.CLOUD_RUN, f"{self._parent}/services/{name}"))

    def most_gpus(self, accelerator: str) -> Mapping[str, int]:
        """Return to how many GPUs of a kind (nvidia-l4) each service of the region may grow, by its short name. One that sets
        no maximum is left out."""
        found: dict[str, int] = {}
        for page in self._session.pages(Api.CLOUD_RUN, f"{self._parent}/services"):
            for raw in page.get("services", ()):
                template = raw.get("template", {})
                most = int(template.get("scaling", {}).get("maxInstanceCount") or 0)
                if most and template.get("nodeSelector", {}).get("accelerator") == accelerator:
                    found[_short(raw.get("name", ""))] = most  # an instance has one GPU
        return found

    def revision(self, service: str, name: str) -> Revision:
        """Return a revision by its short name. Raises GoogleError."""
        return _revision(self._session.get(Api.CLOUD_RUN, f"{self._parent}/services/{service}/revisions/{name}"))

    def revisions(self, service: str) -> tuple[Revision, ...]:
        """Return the revisions of a service, the newest first. Raises GoogleError."""
        pages = self._session.pages(Api.CLOUD_RUN, f"{self._parent}/services/{service}/revisions")
        found = (_revision(raw) for page in pages for raw in page.get("revisions", ()))
        return tuple(sorted(found, key=lambda one: one.created, reverse=True))

    def send_traffic(self, service: str, revision: str | None) -> None:
        """Give all requests of a service to a revision, by its short name; None: to whichever is the newest that is ready.
        Raises GoogleError. What it does may take some seconds: `service` shows it."""
        target = {"type": f"{_TRAFFIC}_REVISION", "revision": revision, "percent": 100}
        target = target if revision else {"type": f"{_TRAFFIC}_LATEST", "percent": 100}
        body = {"traffic": [target]}
        self._session.patch(Api.CLOUD_RUN, f"{self._parent}/services/{service}", body, updateMask="traffic")

    def start(self, job: str, *, args: Sequence[str] = ()) -> Execution:
        """Run a job once, with `args` instead of its own where they are given.

        The API has no request id here. When the answer is lost, a new execution with these arguments is taken for the one
        that was asked for, so that a broken connection neither starts a job twice nor loses one.
        """
        before = {execution.name for execution in self.executions(job)}
        try:
            overrides = {"overrides": {"containerOverrides": [{"args": list(args)}]}} if args else {}
            operation = self._session.post(Api.CLOUD_RUN, f"{self._parent}/jobs/{job}:run", overrides)
        except GoogleError as error:
            if not is_ambiguous(error):
                raise
            for execution in self.executions(job):
                if execution.name not in before and (not args or execution.args == tuple(args)):
                    return execution
            raise
        return _execution(operation.get("metadata", {}))

    def executions(self, job: str) -> tuple[Execution, ...]:
        """Return the executions of a job, newest first."""
        pages = self._session.pages(Api.CLOUD_RUN, f"{self._parent}/jobs/{job}/executions")
        found = [_execution(raw) for page in pages for raw in page.get("executions", ())]
        return tuple(sorted(found, key=lambda execution: execution.created, reverse=True))

    def running(self, job: str, args: Sequence[str]) -> Execution | None:
        """Return the newest execution of a job that has these arguments and has not ended; None where there is none."""
        same = (one for one in self.executions(job) if not one.done and one.args == tuple(args))
        return next(same, None)

    def exit_code(self, execution: str) -> int | None:
        """Return the last exit code of a single-task execution; None where its container never ran or was killed."""
        tasks = self._session.get(Api.CLOUD_RUN, f"{execution}/tasks").get("tasks", ())
        code = tasks[0].get("lastAttemptResult", {}).get("exitCode") if tasks else None
        return None if code is None else int(code)

    def execution(self, name: str) -> Execution:
        """Return an execution by its full name."""
        return _execution(self._session.get(Api.CLOUD_RUN, name))

    def wait(
        self,
        name: str,
        *,
        timeout_s: float,
        poll_s: float = POLL_S,
        progress: Callable[[Execution], None] = lambda _: None,
    ) -> Execution:
        """Follow an execution until it ends, successfully or not. Raises GoogleError when it takes longer than `timeout_s`.

        `progress` gets the execution each time it is read. The execution goes on after a time-out.
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
        log_uri=raw.get("logUri", ""),
        args=tuple(containers[0].get("args", ())) if containers else (),
    )


def _execution_state(raw: Mapping[str, Any], completed: Mapping[str, Any]) -> ExecutionState:
    state = completed.get("state")
    if state == SUCCEEDED:
        return ExecutionState.SUCCEEDED
    if completed.get("executionReason") == "CANCELLED" or raw.get("cancelledCount", 0):
        return ExecutionState.CANCELLED
    return ExecutionState.FAILED if state == FAILED else ExecutionState.RUNNING


def _revision(raw: Mapping[str, Any]) -> Revision:
    conditions = {
        one.get("type", ""): Condition(one.get("state", ""), _message(one)) for one in raw.get("conditions", ())
    }
    container: Mapping[str, Any] = next(iter(raw.get("containers", ())), {})
    return Revision(
        _short(raw.get("name", "")),
        raw.get("createTime", ""),
        raw.get("annotations", {}),
        conditions,
        words=(*container.get("command", ()), *container.get("args", ())),
        accelerator=raw.get("nodeSelector", {}).get("accelerator", ""),
        limits=container.get("resources", {}).get("limits", {}),
    )


def _service(raw: Mapping[str, Any]) -> Service:
    terminal = raw.get("terminalCondition", {})
    reconciling = bool(raw.get("reconciling"))  # not by observedGeneration, which a failure leaves behind
    ready = terminal.get("state") == SUCCEEDED and not reconciling
    targets = raw.get("traffic", ())
    newest = any(target.get("type", "").endswith("LATEST") and target.get("percent") for target in targets)
    ready_revision = _short(raw.get("latestReadyRevision", ""))
    traffic: dict[str, int] = {}
    for target in targets:
        name = _short(target.get("revision", "")) or ready_revision
        traffic[name] = traffic.get(name, 0) + int(target.get("percent") or 0)
    scaling, kept = raw.get("template", {}).get("scaling", {}), raw.get("scaling", {})
    return Service(
        uri=raw.get("uri", ""),
        ready_revision=ready_revision,
        created_revision=_short(raw.get("latestCreatedRevision", "")),
        ready=ready,
        problem="" if ready else _message(terminal) or "the newest revision is still starting",
        failed=terminal.get("state") == FAILED and not reconciling,
        generation=str(raw.get("generation", "")),
        annotations=raw.get("template", {}).get("annotations", {}),
        pinned_to=() if newest else tuple(_short(one.get("revision", "")) for one in targets if one.get("percent")),
        traffic={name: percent for name, percent in traffic.items() if percent},
        min_instances=max(int(one.get("minInstanceCount") or 0) for one in (scaling, kept)),
        max_instances=int(scaling.get("maxInstanceCount") or 0),
        created=raw.get("createTime", ""),
        updated=raw.get("updateTime", ""),
    )


def _message(condition: Mapping[str, Any]) -> str:
    """Return a condition's message on one line, without the links that Google appends."""
    return " ".join(condition.get("message", "").partition("Logs URL")[0].split())


def _short(name: str) -> str:
    return name.rsplit("/", 1)[-1]
