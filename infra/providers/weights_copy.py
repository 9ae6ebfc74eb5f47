"""Copies a checkpoint into a folder of the bucket by running the staging job, or checks a folder that somebody else filled.

Its deletion deletes nothing: the bucket belongs to its own resource. The job may run again at any time: after an
interruption the next `up` follows the execution that is still running, or starts one that continues the copy. The job does
not retry by itself: this resource does, because the exit code says whether that can help.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, UpdateResult

from infra.errors import GoogleError
from infra.google.cloud_run import CloudRun, Execution, ExecutionState
from infra.google.logs import LogSource, last_lines
from infra.google.session import GoogleSession
from infra.google.storage import Bucket
from infra.google.weights_manifest import check_adapter, check_manifest
from infra.providers.base import DynamicResource, Progress, Provider, changed, fail, in_place, progress_on, warning_on

_INPUTS = ("project", "region", "bucket", "prefix", "repository", "revision", "job", "arguments", "program_hash")
_JOB_LIMIT_S = 24 * 3600.0
_LOG_LINES = 12
NEWER = "newer commit"
"""The words in the job's log that tell that a branch has a newer commit."""
_PERMANENT = frozenset({4, 5, 6, 8, 9, 10})
"""Exit codes of the staging job that would come again: token, licence, name, folder, an adapter that cannot be served."""
_UNSETTLED = frozenset({None, 2, 7})
"""Exit codes while fresh grants do not count yet: not started, no program in the mount, bucket refused."""
_EXECUTIONS = 4
_SETTLING_S = 600.0
_PAUSE_S = 30.0


@dataclass(frozen=True)
class WeightsCopyArgs:
    """What to copy and where. With an empty `job` the folder is only checked; `program_hash` is that of the job's program."""

    project: pulumi.Input[str]
    region: str
    bucket: pulumi.Input[str]
    prefix: str
    repository: str
    revision: str
    job: pulumi.Input[str]
    arguments: Sequence[str]
    program_hash: str


class WeightsCopy(DynamicResource):
    """A checkpoint that is complete in the bucket."""

    files: pulumi.Output[int]
    bytes: pulumi.Output[int]
    commit: pulumi.Output[str]
    """The commit in the folder, also where a branch was asked for."""

    def __init__(self, name: str, args: WeightsCopyArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(WeightsCopyProvider(), name, args, opts)


class WeightsCopyProvider(Provider):
    """Runs the staging job and follows it."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Copy or check. An error ends with the job's last log lines."""
        return CreateResult(f"{props['bucket']}/{props['prefix']}", self._filled(props))

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return an update for every changed input. The job then copies only what is missing."""
        return in_place(changed(olds, news, _INPUTS))

    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Copy or check again."""
        return UpdateResult(self._filled(news))

    def _filled(self, props: Mapping[str, Any]) -> dict[str, Any]:
        session = GoogleSession(self.gcp)
        progress = progress_on(props.get("urn"))
        try:
            if props["job"]:
                _run(session, props, progress, warning_on(props.get("urn")))
            bucket = Bucket(session, props["bucket"])
            manifest = check_manifest(bucket, props["prefix"], props["repository"], props["revision"])
            check_adapter(manifest, f"gs://{props['bucket']}/{props['prefix']}", props["arguments"])
        except GoogleError as error:
            fail(str(error))
        found = {"files": len(manifest["files"]), "bytes": manifest["bytes"], "commit": manifest.get("revision", "")}
        return {**props, **found}


def _run(session: GoogleSession, props: Mapping[str, Any], progress: Progress, warn: Progress) -> None:
    """Run the job until an execution succeeds; first join one that is running already. Raises GoogleError."""
    run = CloudRun(session, props["region"])
    left_behind = run.running(props["job"], props["arguments"])
    if left_behind:
        progress(
            f"execution {left_behind.id} of an earlier `pulumi up` copies {props['repository']} already; joining it"
        )
        if _followed(session, run, props, left_behind, progress, warn).state is ExecutionState.SUCCEEDED:
            return
    began, attempt = session.clock(), 0
    while True:
        attempt += 1
        execution = run.start(props["job"], args=props["arguments"])
        progress(f"copying {props['repository']} into gs://{props['bucket']}: execution {execution.id}")
        ended = _followed(session, run, props, execution, progress, warn)
        if ended.state is ExecutionState.SUCCEEDED:
            return
        code: int | None = None
        with suppress(GoogleError):
            code = run.exit_code(ended.name)
        if not _may_help(ended.state, code, attempt, session.clock() - began):
            raise _not_copied(session, props, ended, code)
        progress(
            f"execution {ended.id} {ended.state.value} ({_why(ended, code)}), which may be temporary; trying again"
        )
        session.sleep(_PAUSE_S)


def _may_help(state: ExecutionState, code: int | None, attempt: int, elapsed_s: float) -> bool:
    """Return whether another execution may succeed."""
    if state is ExecutionState.CANCELLED or code in _PERMANENT:
        return False
    return attempt < _EXECUTIONS or (code in _UNSETTLED and elapsed_s < _SETTLING_S)


def _followed(
    session: GoogleSession,
    run: CloudRun,
    props: Mapping[str, Any],
    execution: Execution,
    progress: Progress,
    warn: Progress,
) -> Execution:
    source = LogSource.job(props["job"], props["region"], execution.id)

    def show(now: Execution) -> None:
        for line in () if now.done else _tail(session, source, 1):
            progress(line)

    ended = run.wait(execution.name, timeout_s=_JOB_LIMIT_S, progress=show)
    if ended.state is ExecutionState.SUCCEEDED:
        for line in _tail(session, source, _LOG_LINES):
            if NEWER in line:
                warn(line)
    return ended


def _why(ended: Execution, code: int | None) -> str:
    return ", ".join(filter(None, (ended.message.rstrip("."), "" if code is None else f"exit code {code}")))


def _not_copied(session: GoogleSession, props: Mapping[str, Any], ended: Execution, code: int | None) -> GoogleError:
    lines = _tail(session, LogSource.job(props["job"], props["region"], ended.id), _LOG_LINES)
    said = "\n".join(f"    {line}" for line in lines) or f"    (no log lines yet; see {ended.log_uri})"
    why = _why(ended, code)
    return GoogleError(
        f"the weights of {props['repository']} were not copied: the staging job {ended.state.value}"
        f"{f' ({why})' if why else ''}. What is in the bucket stays; fix the cause and run "
        f"`pulumi up` again. The job's last lines:\n{said}"
    )


def _tail(session: GoogleSession, source: LogSource, limit: int) -> tuple[str, ...]:
    """Return the job's last log lines; none where the log cannot be read, which must not fail the copy."""
    try:
        return last_lines(session, source, limit=limit)
    except GoogleError:
        return ()
