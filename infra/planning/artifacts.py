"""What a stack is made from: its container images and its checkpoints, where they come from, and which are not pinned."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from infra.catalog import Accelerator, Assistant, Catalog
from infra.image_names import DOCKER_HUB, parse_image_name
from infra.planning.checkpoint import BUCKET_SCHEME, ServedCheckpoint
from infra.planning.names import Names
from infra.planning.server.implementations import implementation_of
from infra.planning.settings.declarations import Settings

MANIFEST = "gemma4-manifest.json"
"""Name of the list of files, with their checksums, in the folder of a checkpoint in a bucket."""


@dataclass(frozen=True)
class ImageRef:
    """A container image as the registry names it, and where the deployed resource pulls it from."""

    role: str
    upstream: str
    """Reference at its origin, with tag or digest."""
    pull: str
    """Reference that the platform pulls: through the stack's Artifact Registry repository, or the upstream itself."""
    pinned: bool
    vllm_version: str | None = None
    """As the catalog or the name says; None where neither does, and for images without vLLM."""


@dataclass(frozen=True)
class RepositoryPlan:
    """The stack's Artifact Registry repository, and how long it keeps images."""

    keep_versions: int = 3
    """The latest ones are never deleted."""
    delete_after_s: int = 30 * 86_400


@dataclass(frozen=True)
class StagingPlan:
    """The job that copies the weights from Hugging Face into the stack's bucket, once."""

    cpu: int = 2
    memory_gib: int = 1
    timeout_s: int = 6 * 3600
    retries: int = 0
    """The resource that runs the job repeats it where that can help: a retry of the job would repeat a wrong token, too."""


@dataclass(frozen=True)
class WeightSet:
    """One checkpoint to stage: the repository, its revision, and its folder in the bucket."""

    hub_id: str
    revision: str
    pinned: bool
    size_bytes: int
    folder: str | None = None
    """Its folder where somebody else chose it."""

    @property
    def prefix(self) -> str:
        """Folder of the checkpoint in the bucket, and below the mount."""
        return self.folder or f"{self.hub_id}/{self.revision}"


@dataclass(frozen=True)
class AdapterSet:
    """One LoRA adapter to stage: the name that requests use, where it comes from, and its folder in the bucket."""

    name: str
    source: str
    """A repository on the Hub, or a folder as gs://BUCKET/FOLDER."""
    revision: str
    """Commit or branch of the repository; empty for a folder of a bucket."""
    pinned: bool
    prefix: str
    """Folder of the adapter in the bucket that the server reads, and below the mount."""

    @property
    def source_bucket(self) -> str:
        """The bucket that holds the source; empty for a repository."""
        return (
            self.source.removeprefix(BUCKET_SCHEME).partition("/")[0] if self.source.startswith(BUCKET_SCHEME) else ""
        )


def images_of(
    settings: Settings, accelerator: Accelerator, names: Names, region: str, facts: Catalog, further: Iterable[str] = ()
) -> dict[str, ImageRef]:
    """Return the images by role: serving, for the kind of device; staging; and what the platform needs further."""
    roles = {"serving": implementation_of(accelerator).image, "staging": "staging", **{role: role for role in further}}
    repository = f"{region}-docker.pkg.dev/{names.project}/{names.prefix}"
    return {role: _image(settings, facts, role, image_id, repository, names.stack) for role, image_id in roles.items()}


def weights_of(
    settings: Settings, checkpoint: ServedCheckpoint, assistant: Assistant | None, facts: Catalog
) -> tuple[WeightSet, ...]:
    """Return the checkpoint that is served, then its assistant's where one drafts."""
    revisions, model = facts.lock.models, checkpoint.model
    of_catalog = next((row.id for row in facts.models.values() if row.hub_id == model.hub_id), "")
    read = checkpoint.pinned.revision if checkpoint.pinned else revisions.get(of_catalog)
    own = _weight_set(model.hub_id, settings.weights.revision or read, model.checkpoint_bytes)
    sets = [replace(own, folder=checkpoint.folder)]
    if settings.serving.speculation.method == "mtp" and assistant is not None:
        size = 2 * assistant.parameters  # bfloat16
        sets.append(_weight_set(assistant.hub_id, revisions.get(assistant.id), size))
    return tuple(sets)


def adapters_of(settings: Settings) -> tuple[AdapterSet, ...]:
    """Return the LoRA adapters in the order in which the settings name them."""
    return tuple(_adapter_set(name, written, settings) for name, written in settings.serving.adapters.items())


def unpinned(
    images: Mapping[str, ImageRef], weights: Iterable[WeightSet], adapters: Iterable[AdapterSet] = ()
) -> list[str]:
    """Return what may be something else tomorrow, in words."""
    loose = [f"image {image.upstream}" for image in images.values() if not image.pinned]
    loose += [f"weights {one.hub_id}@{one.revision}" for one in weights if not one.pinned]
    loose += [f"adapter {one.source}@{one.revision}" for one in adapters if not one.pinned]
    return list(dict.fromkeys(loose))


def _image(settings: Settings, facts: Catalog, role: str, image_id: str, repository: str, tag: str) -> ImageRef:
    image, digest = facts.images[image_id], facts.lock.images.get(image_id)
    upstream, version = (
        f"{image.repository}@{digest}" if digest else f"{image.repository}:{image.tag}",
        image.vllm_version,
    )
    if role == "serving" and settings.images.serving:
        upstream = settings.images.serving
        version = parse_image_name(upstream).vllm_version
    name = parse_image_name(upstream)
    if role == "serving" and settings.images.mode == "build":
        pull = f"{repository}/{role}:{tag}"
    elif not name.on_docker_hub:
        pull = upstream
    elif settings.images.mode == "build":  # then there is no mirror; Cloud Run pulls Docker Hub by itself
        pull = f"{DOCKER_HUB}/{name.within}"
    else:
        pull = f"{repository}/{name.within}"
    return ImageRef(role, upstream, pull, pinned=bool(name.digest), vllm_version=version)


def _weight_set(hub_id: str, revision: str | None, size: int) -> WeightSet:
    return WeightSet(hub_id, revision or "main", pinned=revision is not None and revision != "main", size_bytes=size)


def _adapter_set(name: str, written: str, settings: Settings) -> AdapterSet:
    if not written.startswith(BUCKET_SCHEME):
        source, _, revision = written.partition("@")
        pinned = re.fullmatch(r"[0-9a-f]{7,40}", revision) is not None  # a branch or a tag may move
        return AdapterSet(name, source, revision or "main", pinned, f"{source}/{revision or 'main'}")
    path = written.removeprefix(BUCKET_SCHEME)
    # In an existing bucket an adapter is read where it lies; into the stack's own it is copied.
    read_there = settings.weights.source == "existing" and path.startswith(f"{settings.weights.bucket}/")
    return AdapterSet(name, written, "", True, path.partition("/")[2] if read_there else f"adapters/{path}")
