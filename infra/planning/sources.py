"""What a stack is made from: its container images and its checkpoints, where they come from, and which are not pinned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from infra.catalog import Accelerator, Assistant, Backend, Catalog, Model
from infra.planning.names import Names
from infra.planning.settings import Settings


@dataclass(frozen=True)
class ImageRef:
    """A container image as the registry names it, and where the deployed resource pulls it from."""

    role: str
    upstream: str
    """Reference at its origin, with tag or digest."""
    pull: str
    """Reference that the platform pulls: through our Artifact Registry repository, or the upstream itself."""
    pinned: bool


@dataclass(frozen=True)
class WeightSet:
    """One checkpoint to stage: the repository, its revision, and its folder in the bucket."""

    hub_id: str
    revision: str
    pinned: bool
    size_bytes: int

    @property
    def prefix(self) -> str:
        """Folder of the checkpoint in the bucket, and below the mount."""
        return f"{self.hub_id}/{self.revision}"


def images_of(
    settings: Settings, accelerator: Accelerator, names: Names, region: str, facts: Catalog
) -> dict[str, ImageRef]:
    """Images by role: serving, staging, and gateway where there are slices."""
    on_tpu = accelerator.backend is Backend.TPU
    roles = {"serving": "tpu" if on_tpu else "gpu", "staging": "staging"}
    if on_tpu:
        roles["gateway"] = "gateway"
    repository = f"{region}-docker.pkg.dev/{names.project}/{names.prefix}"
    return {role: _image(settings, facts, role, image_id, repository, names.stack) for role, image_id in roles.items()}


def weights_of(settings: Settings, model: Model, assistant: Assistant | None, facts: Catalog) -> tuple[WeightSet, ...]:
    """The model's checkpoint, then its assistant's where one drafts."""
    revisions = facts.lock.models
    own = settings.weights.revision or revisions.get(model.id)
    sets = [_weight_set(model.hub_id, own, model.checkpoint_bytes)]
    if settings.serving.speculation.method == "mtp" and assistant is not None:
        size = 2 * assistant.parameters  # bfloat16
        sets.append(_weight_set(assistant.hub_id, revisions.get(assistant.id), size))
    return tuple(sets)


def unpinned(images: Mapping[str, ImageRef], weights: Iterable[WeightSet]) -> list[str]:
    """What may be something else tomorrow, in words."""
    loose = [f"image {image.upstream}" for image in images.values() if not image.pinned]
    return loose + [f"weights {one.hub_id}@{one.revision}" for one in weights if not one.pinned]


def _image(settings: Settings, facts: Catalog, role: str, image_id: str, repository: str, tag: str) -> ImageRef:
    image, digest = facts.images[image_id], facts.lock.images.get(image_id)
    upstream = f"{image.repository}@{digest}" if digest else f"{image.repository}:{image.tag}"
    if role == "serving" and settings.images.serving:
        upstream = settings.images.serving
    if image.registry != "docker-hub":
        pull = upstream
    elif settings.images.mode == "build":  # then there is no mirror; Cloud Run pulls Docker Hub by itself
        pull = f"{repository}/{role}:{tag}" if role == "serving" else f"docker.io/{upstream}"
    else:
        pull = f"{repository}/{upstream.removeprefix('docker.io/')}"
    return ImageRef(role, upstream, pull, pinned="@sha256:" in upstream)


def _weight_set(hub_id: str, revision: str | None, size: int) -> WeightSet:
    return WeightSet(hub_id, revision or "main", pinned=revision is not None and revision != "main", size_bytes=size)
