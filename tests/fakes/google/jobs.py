"""Cloud Run jobs and their executions, which end as a test wants after as many looks as it wants."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tests.fakes.google import cloud_run_rules, schemas
from tests.fakes.google.product import Product, page, required, route
from tests.fakes.google.watch import Logging
from tests.fakes.google.wire import Request, already_exists
from tests.fakes.google.world import World

JOBS = "projects/{project}/locations/{location}/jobs"
EXECUTIONS = JOBS + "/{job}/executions"
PACKAGE = "type.googleapis.com/google.cloud.run.v2"


@dataclass(frozen=True)
class Outcome:
    """How an execution ends: after `polls` GETs, with `message` in its Completed condition, having logged `log`.

    `exit_code` is its container's where it fails; None: the container never ran.
    """

    succeeds: bool = True
    polls: int = 1
    message: str = ""
    log: Sequence[str] = ()
    exit_code: int | None = 1


Executor = Callable[[dict[str, Any], dict[str, Any]], Outcome]


class Jobs(Product):
    """`executor`, when a test sets it, does the job's work in a thread of its own, where it may call the fake again: it
    gets the job and the overrides and says the outcome."""

    prefix: ClassVar[str] = "run"
    controls: ClassVar[tuple[str, ...]] = (
        *Product.controls,
        "set_outcome",
    )

    def __init__(self, world: World, logging: Logging) -> None:
        super().__init__(world)
        self.logging = logging
        self.executions: dict[str, dict[str, Any]] = {}
        self.outcomes: dict[str, Outcome] = {}
        self.executor: Executor | None = None
        self._pending: dict[str, Outcome] = {}
        self._attempts: dict[str, dict[str, Any]] = {}

    def set_outcome(self, job: str = "", **fields: Any) -> None:
        """For one job, by its short name, or for all that have none of their own."""
        self.outcomes[job] = Outcome(**fields)

    @route("POST", JOBS)
    def create_job(self, request: Request, project: str, location: str) -> Any:
        parent = f"projects/{project}/locations/{location}"
        name = f"{parent}/jobs/{required(request.query.get('jobId'), 'jobId')}"
        if name in self.resources:
            raise already_exists(name)
        self.resources[name] = self._job(name, request, {"createTime": self.world.now(), "uid": self.world.etag()})
        return self.operation(parent, response={"@type": f"{PACKAGE}.Job", **self.resources[name]})

    @route("GET", JOBS)
    def index_jobs(self, request: Request, project: str, location: str) -> Any:
        start = f"projects/{project}/locations/{location}/jobs/"
        return page([one for name, one in self.resources.items() if name.startswith(start)], request, "jobs")

    @route("GET", JOBS + "/{job}")
    def get_job(self, request: Request, project: str, location: str, job: str) -> Any:
        return self.known(f"projects/{project}/locations/{location}/jobs/{job}")

    @route("PATCH", JOBS + "/{job}")
    def patch_job(self, request: Request, project: str, location: str, job: str) -> Any:
        parent = f"projects/{project}/locations/{location}"
        before = self.known(f"{parent}/jobs/{job}")
        kept = {key: before[key] for key in ("createTime", "uid", "executionCount", "generation")}
        self.resources[before["name"]] = self._job(before["name"], request, kept)
        return self.operation(parent, response={"@type": f"{PACKAGE}.Job", **self.resources[before["name"]]})

    @route("DELETE", JOBS + "/{job}")
    def delete_job(self, request: Request, project: str, location: str, job: str) -> Any:
        parent = f"projects/{project}/locations/{location}"
        gone = self.remove(f"{parent}/jobs/{job}")
        for name in [name for name in self.executions if name.startswith(f"{gone['name']}/")]:
            del self.executions[name]
        return self.operation(parent, response={"@type": f"{PACKAGE}.Job", **gone})

    @route("POST", JOBS + "/{job}:run")
    def run(self, request: Request, project: str, location: str, job: str) -> Any:
        parent = f"projects/{project}/locations/{location}"
        record = self.known(f"{parent}/jobs/{job}")
        schemas.check("run.v2", "RunJobRequest", request.json())
        overrides = request.json().get("overrides", {})
        execution = self._execution(record, overrides)
        self.executions[execution["name"]] = execution
        record["executionCount"] += 1
        record["latestCreatedExecution"] = {"name": execution["name"], "createTime": execution["createTime"]}
        if self.executor:
            work = (self.executor, execution["name"], copy.deepcopy(record), overrides)
            threading.Thread(target=self._execute, args=work, daemon=True).start()
        else:
            self._expect(execution["name"], self.outcomes.get(job) or self.outcomes.get("", Outcome()))
        metadata = {"@type": f"{PACKAGE}.Execution", **execution}
        return self.operation(parent, metadata=metadata, response=metadata, polls=1)

    @route("GET", EXECUTIONS)
    def index_executions(self, request: Request, project: str, location: str, job: str) -> Any:
        start = f"projects/{project}/locations/{location}/jobs/{job}/executions/"
        found = [one for name, one in self.executions.items() if name.startswith(start)]
        return page(found[::-1], request, "executions")

    @route("GET", EXECUTIONS + "/{execution}")
    def get_execution(self, request: Request, project: str, location: str, job: str, execution: str) -> Any:
        found = self._known_execution(project, location, job, execution)
        outcome = self._pending.get(found["name"])
        if outcome:
            left = outcome.polls - 1
            self._pending[found["name"]] = replace(outcome, polls=left)
            if left <= 0:
                self._finish(found)
        return found

    @route("GET", EXECUTIONS + "/{execution}/tasks")
    def index_tasks(self, request: Request, project: str, location: str, job: str, execution: str) -> Any:
        found = self._known_execution(project, location, job, execution)
        attempt = {"lastAttemptResult": self._attempts[found["name"]]} if found["name"] in self._attempts else {}
        return page([{"name": f"{found['name']}/tasks/0", "execution": execution, **attempt}], request, "tasks")

    @route("POST", EXECUTIONS + "/{execution}:cancel")
    def cancel(self, request: Request, project: str, location: str, job: str, execution: str) -> Any:
        found = self._known_execution(project, location, job, execution)
        if "completionTime" not in found:
            self._pending.pop(found["name"], None)
            self._end(found, "CONDITION_FAILED", "The execution was cancelled.", executionReason="CANCELLED")
            found["cancelledCount"] = 1
        return self.operation(f"projects/{project}/locations/{location}", response=found)

    @route("DELETE", EXECUTIONS + "/{execution}")
    def delete_execution(self, request: Request, project: str, location: str, job: str, execution: str) -> Any:
        del self.executions[self._known_execution(project, location, job, execution)["name"]]
        return self.operation(f"projects/{project}/locations/{location}")

    def _known_execution(self, project: str, location: str, job: str, execution: str) -> dict[str, Any]:
        name = f"projects/{project}/locations/{location}/jobs/{job}/executions/{execution}"
        if name not in self.executions:
            self.known(name)
        return self.executions[name]

    def _execute(self, executor: Executor, name: str, record: dict[str, Any], overrides: dict[str, Any]) -> None:
        outcome = executor(record, overrides)
        with self.world.lock:
            self._expect(name, outcome)

    def _expect(self, name: str, outcome: Outcome) -> None:
        self._pending[name] = outcome
        self._write_log(name, outcome.log)
        if outcome.polls == 0:
            self._finish(self.executions[name])

    def _job(self, name: str, request: Request, kept: dict[str, Any]) -> dict[str, Any]:
        body = request.json()
        schemas.check("run.v2", "Job", body)
        cloud_run_rules.check_job(body)
        task = body["template"]["template"]
        body["template"] = {"parallelism": 0, "taskCount": 1} | body["template"]
        body["template"]["template"] = {"timeout": "600s", "maxRetries": 3} | task
        generation = str(int(kept.get("generation", "0")) + 1)
        ready = {"type": "Ready", "state": "CONDITION_SUCCEEDED", "lastTransitionTime": self.world.now()}
        return (
            {"launchStage": "GA", "executionCount": 0}
            | body
            | kept
            | {
                "name": name,
                "generation": generation,
                "observedGeneration": generation,
                "updateTime": self.world.now(),
                "terminalCondition": ready,
                "conditions": [ready],
                "reconciling": False,
                "etag": self.world.etag(),
            }
        )

    def _execution(self, job: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
        now = self.world.now()
        task = copy.deepcopy(job["template"]["template"])
        for container, given in zip(task["containers"], overrides.get("containerOverrides", ()), strict=False):
            container.update({key: value for key, value in given.items() if key == "args"})
        return {
            "name": f"{job['name']}/executions/{job['name'].rsplit('/', 1)[-1]}-{self.world.serial():05d}",
            "uid": self.world.etag(),
            "job": job["name"].rsplit("/", 1)[-1],
            "createTime": now,
            "startTime": now,
            "taskCount": 1,
            "runningCount": 1,
            "reconciling": True,
            "template": task,
            "conditions": [{"type": "Completed", "state": "CONDITION_RECONCILING", "message": "Waiting for execution"}],
            "logUri": "https://console.cloud.google.com/logs/viewer",
            "etag": self.world.etag(),
        }

    def _finish(self, execution: dict[str, Any]) -> None:
        outcome = self._pending.pop(execution["name"])
        if outcome.succeeds:
            self._end(execution, "CONDITION_SUCCEEDED", outcome.message or "Execution completed successfully.")
            execution["succeededCount"] = 1
            return
        if outcome.exit_code is not None:
            self._attempts[execution["name"]] = {"exitCode": outcome.exit_code}
        message = outcome.message or "Task failed with message: The container exited with an error."
        self._end(execution, "CONDITION_FAILED", message, executionReason="NON_ZERO_EXIT_CODE")
        execution["failedCount"] = 1

    def _end(self, execution: dict[str, Any], state: str, message: str, **reason: str) -> None:
        now = self.world.now()
        condition = {"type": "Completed", "state": state, "message": message, "lastTransitionTime": now, **reason}
        execution.update({"completionTime": now, "runningCount": 0, "reconciling": False, "conditions": [condition]})

    def _write_log(self, execution: str, lines: Sequence[str]) -> None:
        _, project, _, location, _, job, _, short = execution.split("/")
        labels = {"job_name": job, "location": location, "project_id": project}
        for line in lines:
            self.logging.add(line, "cloud_run_job", labels, {"run.googleapis.com/execution_name": short})
