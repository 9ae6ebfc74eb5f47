"""Memory and disk are made free of what no specification needs any more."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from .context import Context
from .desired_spec import WeightSet
from .huggingface import token_file, token_files, unnamed_models
from .state import Run


def clean(context: Context, run: Run) -> None:
    """`run` is what is wanted, and has proven itself: take away everything that was only there for others."""
    settings, spec = context.settings, run.spec
    gone = sweep(settings.weights_root, spec.weights)
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


def sweep(root: Path, kept: Iterable[WeightSet]) -> list[str]:
    """Take away everything below `root` but the folders of those, whoever left it there; returns what went."""
    return _sweep(root, {Path(weights.destination) for weights in kept})


def _sweep(folder: Path, keep: set[Path]) -> list[str]:
    gone: list[str] = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path in keep:
            continue
        if any(path in each.parents for each in keep):
            gone += _sweep(path, keep)
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        gone.append(str(path))
    return gone
