"""What a reader of a plan with TPU slices should know: what moves with a zone, what may be taken back, what nobody has seen."""

from __future__ import annotations

from collections.abc import Iterator

from infra.planning.artifacts import ImageRef
from infra.planning.settings.declarations import Settings


def unseen_image_note(settings: Settings, image: ImageRef) -> Iterator[str]:
    """Yield that a slice is paid for before anybody knows whether its image exists: the catalog's tag is not pinned yet."""
    if settings.images.serving is None and settings.images.mode == "mirror" and not image.pinned:
        yield (
            f"Unverified: nobody has looked whether {image.upstream} exists, and a slice is paid for before its machine pulls "
            "it. `gemma4 pin tpu` looks, for nothing, and pins it; where it finds none, name another image under "
            "images.serving (docs/first-deployment.md)."
        )


def region_note(settings: Settings, region: str) -> Iterator[str]:
    """Yield what else moves with a zone that was chosen, unless the region is written out."""
    if settings.tpu.zone is not None and settings.region is None:
        yield (
            f"The region of gateway, images and weights follows tpu.zone. Write region: {region} before you look for "
            "capacity elsewhere, and they stay where they are."
        )


def spot_note(settings: Settings) -> Iterator[str]:
    """Yield that nothing keeps a spot slice."""
    if settings.tpu.provisioning == "spot":
        yield (
            "A spot slice may be taken back at any time, with the requests on it; the next `pulumi up` asks for another. "
            "Write tpu.provisioning: flex-start for one that stays until tpu.maxRunDuration."
        )
