"""Whether the weights can be read: on Hugging Face, with a token where one is needed, or in a bucket that is filled."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from infra.errors import GoogleError
from infra.google.gcp_settings import Api
from infra.google.hub_files import HubRepository
from infra.google.storage import Bucket
from infra.google.weights_manifest import check_manifest
from infra.planning.checkpoint import BUCKET_SCHEME
from infra.preflight.preflight_check import PreflightResult, failed, not_needed, ok, unknown
from infra.preflight.subject import Subject

_PROBE = "config.json"


def check_token(subject: Subject) -> PreflightResult:
    """Return whether the secret of the Hugging Face token exists and its newest version is enabled."""
    settings = subject.plan.settings
    if settings.hf_token_secret:
        return _check_secret(subject, settings.hf_token_secret, "hfTokenSecret")
    if settings.hf_token:
        return ok("is in the stack file, encrypted; up makes a secret of it")
    return not_needed("no token is set")


def check_hub_login(subject: Subject) -> PreflightResult:
    """Return whether the secret of the Docker Hub login exists and its newest version is enabled."""
    images = subject.plan.settings.images
    if not images.docker_hub_secret:
        return not_needed("the mirror pulls as nobody")
    return _check_secret(subject, images.docker_hub_secret, "images.dockerHubSecret")


def check_model(subject: Subject) -> PreflightResult:
    """Return whether the files of every checkpoint and adapter that come from Hugging Face can be read."""
    wanted = dict(_repositories(subject))
    if not wanted:
        return not_needed("nothing comes from Hugging Face")
    token = subject.hub_token or _stored_token(subject)
    for name, revision in wanted.items():
        if (problem := _unreadable(subject, name, revision, token)) is not None:
            return problem
    return ok(", ".join(f"{name}@{revision[:12]}" for name, revision in wanted.items()))


def check_bucket_content(subject: Subject) -> PreflightResult:
    """Return whether an existing bucket holds, complete, every folder that the server will read."""
    plan = subject.plan
    if plan.settings.weights.source != "existing":
        return not_needed("the stack fills its own bucket" if plan.staging else "no bucket is read")
    bucket = Bucket(subject.session, plan.names.bucket)
    folders = [(one.prefix, one.hub_id, one.revision) for one in plan.weights]
    folders += [(one.prefix, one.source, one.revision) for one in plan.adapters]
    try:
        subject.session.get(Api.STORAGE, f"b/{plan.names.bucket}", fields="name,location")
        sizes = [int(check_manifest(bucket, *folder)["bytes"]) for folder in folders]
    except GoogleError as error:
        if error.status not in (0, 403, 404) or error.reason in ("UNREACHABLE", "NOT_SENT"):
            raise
        fact = f"gs://{plan.names.bucket} does not exist" if error.status == 404 else str(error)
        if error.status == 403:
            fact = f"gs://{plan.names.bucket} cannot be read by {subject.member}"
        return failed(
            fact, "The server would find no weights and never become ready.", subject.config("weights.source", "bucket")
        )
    return ok(f"gs://{plan.names.bucket} holds {len(folders)} folders, {sum(sizes) / 1024**3:.1f} GiB, complete")


def check_adapter_sources(subject: Subject) -> PreflightResult:
    """Return whether the buckets exist that adapters are copied from."""
    plan = subject.plan
    sources = sorted({one.source_bucket for one in plan.adapters} - {"", plan.names.bucket})
    if not sources or plan.staging is None:
        return not_needed("no adapter is copied from a bucket")
    for one in sources:
        try:
            subject.session.get(Api.STORAGE, f"b/{one}", fields="name")
        except GoogleError as error:
            if error.status not in (403, 404):
                raise
            problem = "does not exist" if error.status == 404 else f"cannot be seen by {subject.member}"
            return failed(
                f"gs://{one} {problem}", "The staging job could not copy the adapter.", f"gcloud storage ls gs://{one}"
            )
    return ok(", ".join(f"gs://{one}" for one in sources))


def _check_secret(subject: Subject, setting: str, key: str) -> PreflightResult:
    secret = subject.plan.names.secret(setting)
    project, name = secret.split("/")[1], secret.rsplit("/", 1)[-1]
    add = f"gcloud secrets versions add {name} --project {project} --data-file=-"
    late = "The copy of the weights would fail." if key == "hfTokenSecret" else "The mirror could not log in."
    try:
        version = subject.session.get(Api.SECRET_MANAGER, f"{secret}/versions/latest")
    except GoogleError as error:
        if error.status != 404:
            raise
        return _missing_secret(subject, secret, name, project, add, late)
    if version.get("state") != "ENABLED":
        number = str(version.get("name", "")).rsplit("/", 1)[-1]
        state = str(version.get("state", "")).lower()
        fix = f"gcloud secrets versions enable {number} --secret {name} --project {project}"
        return failed(f"the newest version of {name} is {state}", late, add if state == "destroyed" else fix)
    return ok(f"{name} has an enabled version")


def _missing_secret(subject: Subject, secret: str, name: str, project: str, add: str, late: str) -> PreflightResult:
    try:
        subject.session.get(Api.SECRET_MANAGER, secret)
    except GoogleError as error:
        if error.status != 404:
            raise
        make = f"gcloud secrets create {name} --project {project} --data-file=-"
        return failed(f"there is no secret {name} in project {project}", late, make)
    return failed(f"the secret {name} has no version", late, add)


def _repositories(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield repository and revision of what is copied or loaded from Hugging Face."""
    plan = subject.plan
    if plan.settings.weights.source == "existing":
        return
    yield from ((one.hub_id, one.revision) for one in plan.weights if not one.hub_id.startswith(BUCKET_SCHEME))
    yield from ((one.source, one.revision) for one in plan.adapters if not one.source_bucket)


def _unreadable(subject: Subject, name: str, revision: str, token: str) -> PreflightResult | None:
    """Return why a repository cannot be read, None where it can. Everybody may list a gated one: a file is read."""
    late = "The weights would not be copied, and no server could start."
    try:
        found = HubRepository(name, revision, token=token, hub=subject.hub)
        small = [file for file in found.sizes if file.endswith(".json")]
        if found.closed and small:
            found.read(_PROBE if _PROBE in small else small[0], 0, 1)
    except GoogleError as error:
        if error.status not in (401, 403, 404):
            raise
        if subject.plan.settings.hf_token and not token:
            return unknown(f"{error} The stack's own token is encrypted and was not tried.", "export HF_TOKEN=hf_…")
        if error.status == 404:
            return failed(str(error), late, subject.config("weights.revision", "COMMIT"))
        return failed(str(error), late, f"pulumi config set --secret gemma4:hfToken -s {subject.plan.stack}")
    return None


def _stored_token(subject: Subject) -> str:
    """Return the token of an existing secret where the caller may read it, else an empty text. It is never printed."""
    setting = subject.plan.settings.hf_token_secret
    if not setting:
        return ""
    try:
        path = f"{subject.plan.names.secret(setting)}/versions/latest:access"
        payload = subject.session.get(Api.SECRET_MANAGER, path).get("payload") or {}
        return base64.b64decode(str(payload.get("data", ""))).decode().strip()
    except (GoogleError, ValueError):
        return ""
