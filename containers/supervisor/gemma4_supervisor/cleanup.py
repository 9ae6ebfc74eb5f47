"""Removes weights, models, tokens and images that no specification needs any more."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from .context import Context
from .desired_spec import WeightsFolder
from .huggingface import token_file, token_files, unnamed_models
from .state import ServingRun


def remove_unneeded(context: Context, run: ServingRun) -> None:
    """Remove what only other specifications needed. `run` is the desired one and has proven itself."""
    settings, spec = context.settings, run.spec
    gone = remove_all_but(settings.weights_root, spec.weights)
    for folder in unnamed_models(spec, settings.memory):
        shutil.rmtree(folder, ignore_errors=True)
        gone.append(str(folder))
    kept = token_file(settings.run_dir, spec.token_secret) if spec.token_secret else None
    for path in token_files(settings.run_dir):
        if path != kept:
            path.unlink(missing_ok=True)
    old = [image for image in context.state.images if image not in ("", run.image_id)]
    removed = [image for image in old if context.docker.remove_image(image)]
    context.state.forget_images(removed)
    if gone or removed:
        context.log.info("cleaned", "Removed what is not needed any more.", weights=gone, images=removed)


def remove_all_but(root: Path, kept: Collection[WeightsFolder]) -> list[str]:
    """Remove everything below `root` but the folders of `kept`, whoever left it there; returns what was removed."""
    folders = {Path(weights.destination) for weights in kept}
    gone: list[str] = []
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if path in folders:
            continue
        if any(path in folder.parents for folder in folders):
            gone += remove_all_but(path, kept)
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        gone.append(str(path))
    return gone
