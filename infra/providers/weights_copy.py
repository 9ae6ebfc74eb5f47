"""Fills a folder of the weights' bucket by running the staging job, or checks a folder that somebody else has filled.

Deleting it deletes nothing: the bucket belongs to its own resource. The job is safe to run again, so an `up` that was
interrupted goes on where the last one ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, UpdateResult

from infra.errors import GoogleError
from infra.google.logs import LogSource, last_lines
from infra.google.run import CloudRun, Execution, ExecutionState
from infra.google.session import GoogleSession
from infra.google.storage import Bucket
from infra.providers.base import Progress, Provider, changed, fail, in_place, progress_on, urn_under

KIND = "WeightsCopy"
MANIFEST = "gemma4-manifest.json"
_INPUTS = ("project", "region", "bucket", "prefix", "repository", "revision", "job", "arguments", "script")
_JOB_LIMIT_S = 24 * 3600.0
_LOG_LINES = 12


@dataclass(frozen=True)
class WeightsCopyInputs:
    """What to copy and where. An empty `job` means that the folder is only checked; `script` is the job's own hash."""

    project: pulumi.Input[str]
    region: str
    bucket: pulumi.Input[str]
    prefix: str
    repository: str
    revision: str
    job: pulumi.Input[str]
    arguments: Sequence[str]
    script: str


class WeightsCopy(Resource, module="gemma4", name=KIND):
    """A checkpoint that stands whole in the bucket."""

    files: pulumi.Output[int]
    bytes: pulumi.Output[int]

    def __init__(self, name: str, args: WeightsCopyInputs, opts: pulumi.ResourceOptions) -> None:
        parent = opts.parent
        urn = None if parent is None else urn_under(parent, KIND, name)
        props: dict[str, Any] = {key: getattr(args, key) for key in _INPUTS}
        super().__init__(WeightsCopyProvider(), name, {**props, "urn": urn, "files": None, "bytes": None}, opts)


class WeightsCopyProvider(Provider):
    """Runs the job and follows it."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Copy or check; an error says what the job itself said last."""
        return CreateResult(f"{props['bucket']}/{props['prefix']}", self._filled(props))

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Anything that changes what should be in the folder runs the job again; it copies only what is missing."""
        return in_place(changed(olds, news, _INPUTS))

    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """As `create`."""
        return UpdateResult(self._filled(news))

    def _filled(self, props: Mapping[str, Any]) -> dict[str, Any]:
        session = GoogleSession(self.access)
        progress = progress_on(props.get("urn"))
        try:
            if props["job"]:
                _run(session, props, progress)
            manifest = check_manifest(Bucket(session, props["bucket"]), props["prefix"], props["repository"])
        except GoogleError as error:
            fail(str(error))
        return {**props, "files": len(manifest["files"]), "bytes": manifest["bytes"]}


def check_manifest(bucket: Bucket, prefix: str, repository: str) -> Mapping[str, Any]:
    """The folder's manifest, if every file that it lists is there in full size. Raises GoogleError."""
    place = f"gs://{bucket.name}/{prefix}"
    manifest = bucket.read_json(f"{prefix}/{MANIFEST}")
    if not isinstance(manifest, Mapping) or "files" not in manifest:
        raise GoogleError(
            f"{place} has no {MANIFEST}, so nobody knows whether the weights are whole; fill the folder with "
            "containers/weights/stage.py, or write weights.source: bucket."
        )
    if manifest.get("repo") != repository:
        raise GoogleError(
            f"{place} holds {manifest.get('repo')}, not {repository}: the server would load another model; "
            "write weights.bucket: another-bucket, or clear the folder."
        )
    there = {stored.name.removeprefix(f"{prefix}/"): stored.size_bytes for stored in bucket.objects(f"{prefix}/")}
    wrong = [row["name"] for row in manifest["files"] if there.get(row["name"]) != row["size"]]
    if wrong:
        raise GoogleError(
            f"{place}: {len(wrong)} of {len(manifest['files'])} files are missing or cut short, the first is {wrong[0]}; "
            "the server would stop while loading. Run the staging job again."
        )
    return manifest


def _run(session: GoogleSession, props: Mapping[str, Any], progress: Progress) -> None:
    run = CloudRun(session, props["region"])
    execution = run.start(props["job"], args=props["arguments"])
    progress(f"copying {props['repository']} into gs://{props['bucket']}: execution {execution.id}")
    source = LogSource.job(props["job"], props["region"], execution.id)
    ended = run.wait(execution.name, timeout_s=_JOB_LIMIT_S, progress=lambda now: _show(session, source, now, progress))
    if ended.state is not ExecutionState.SUCCEEDED:
        lines = _tail(session, source, _LOG_LINES)
        said = "\n".join(f"    {line}" for line in lines) or f"    (no log lines yet; see {ended.log_uri})"
        raise GoogleError(
            f"the weights of {props['repository']} were not copied: the staging job {ended.state.value}"
            f"{f' ({ended.message})' if ended.message else ''}. What is in the bucket stays; mend the cause and run "
            f"`pulumi up` again. The job's last lines:\n{said}"
        )


def _show(session: GoogleSession, source: LogSource, execution: Execution, progress: Progress) -> None:
    if not execution.done:
        for line in _tail(session, source, 1):
            progress(line)


def _tail(session: GoogleSession, source: LogSource, limit: int) -> tuple[str, ...]:
    """The job's last lines; reading them is a courtesy that must not fail the copy."""
    try:
        return last_lines(session, source, limit=limit)
    except GoogleError:
        return ()
