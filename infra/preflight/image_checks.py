"""Whether the images exist, by tag or digest, where they are pulled from."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from infra.errors import GoogleError
from infra.google.gcp_settings import Api
from infra.google.upstream_versions import image_digest
from infra.image_names import ImageName, parse_image_name
from infra.planning.artifacts import ImageRef
from infra.planning.plan import Plan
from infra.preflight.preflight_check import PreflightCheck, PreflightResult, failed, ok
from infra.preflight.subject import Subject


def image_checks(plan: Plan) -> Iterator[PreflightCheck]:
    """Yield a check for each image that the stack pulls."""
    for role, image in plan.images.items():
        if role == "staging" and plan.staging is None:
            continue

        def ask(subject: Subject, image: ImageRef = image) -> PreflightResult:
            return _check(subject, image)

        google = parse_image_name(image.upstream).host.endswith("-docker.pkg.dev")
        yield PreflightCheck(f"image-{role}", f"Image: {role}", ask, seconds=1.0, google=google, key="images.serving")


def _check(subject: Subject, image: ImageRef) -> PreflightResult:
    name = parse_image_name(image.upstream)
    try:
        digest = _digest(subject, name)
    except GoogleError as error:
        if error.status not in (401, 403, 404):
            raise
        problem = "does not exist" if error.status == 404 else "cannot be read"
        fix = f"write another tag in infra/catalog/images.toml, then: gemma4 pin {image.role}"
        if image.role == "serving":
            fix = subject.config("images.serving", "REPOSITORY:TAG")
        late = "No server could start: Cloud Run refuses the service, a slice waits in vain."
        return failed(f"{image.upstream} {problem}: {error}", late, fix)
    return ok(f"{name.path.rpartition('/')[2]}{_version(name)} is {digest[:19]}…")


def _version(name: ImageName) -> str:
    return f":{name.tag}" if name.tag else ""


def _digest(subject: Subject, name: ImageName) -> str:
    """Return the image's digest. Artifact Registry is asked with the caller's credentials, every other registry as nobody."""
    if name.host.endswith("-docker.pkg.dev"):
        return _in_artifact_registry(subject, name)
    repository = name.path if name.on_docker_hub else f"{name.host}/{name.path}"
    return image_digest(repository, name.digest or name.tag or "latest", registry=subject.registry or None)


def _in_artifact_registry(subject: Subject, name: ImageName) -> str:
    project, repository, *package = name.path.split("/")
    place = f"projects/{project}/locations/{name.host.removesuffix('-docker.pkg.dev')}/repositories/{repository}"
    image = f"{place}/packages/{quote('/'.join(package), safe='')}"
    if name.digest:
        subject.session.get(Api.ARTIFACT_REGISTRY, f"{image}/versions/{name.digest}")
        return name.digest
    tag = subject.session.get(Api.ARTIFACT_REGISTRY, f"{image}/tags/{name.tag or 'latest'}")
    return str(tag.get("version", "")).rpartition("/")[2]
