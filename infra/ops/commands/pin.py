"""`gemma4 pin`: resolves tags to digests and models to commits, counts a user's own checkpoints, and writes the lock files."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from infra.catalog import GIB, Lock, catalog, write_lock
from infra.catalog.checkpoint_lock import NAME, PinnedCheckpoint, read_checkpoints, write_checkpoints
from infra.catalog.file_reader import DATA
from infra.errors import Gemma4Error, GoogleError, SettingsError
from infra.google.upstream_versions import image_digest, model_revision
from infra.ops.pinning.pin_checkpoint import (
    is_checkpoint,
    pin_from_bucket,
    pin_from_folder,
    pin_from_hub,
)
from infra.ops.plan_inputs import project_root
from infra.ops.terminal.json_output import print_json
from infra.planning.checkpoint import BUCKET_SCHEME
from infra.planning.settings.stackfile import StackFile, read_stack, stack_names
from infra.planning.units import counted


def pin(
    names: Iterable[str] = (),
    *,
    directory: Path = DATA,
    root: Path | None = None,
    folder: str | None = None,
    as_json: bool = False,
) -> int:
    """Pin the images, models and checkpoints of those names, or all, and return how many could not be; these keep their
    old pin.

    Pins of the catalog go into `directory`, those of checkpoints beside the stack files of the project folder `root`.
    `folder` is where the one checkpoint that is named lies on this machine.
    """
    facts = catalog()
    hub_ids = {row.id: row.hub_id for row in facts.models.values()}
    hub_ids |= {row.id: row.hub_id for row in facts.assistants.values()}
    known = [*facts.images, *hub_ids]
    wanted = list(names)
    if folder is not None and (len(wanted) != 1 or not is_checkpoint(wanted[0])):
        fix = f"Write for example: gemma4 pin --folder {folder} acme/gemma-4-12b-support"
        raise SettingsError.of("--folder", "takes the name that its checkpoint shall be served by.", fix=fix)
    rows = [name for name in wanted if not is_checkpoint(name)]
    if unknown := [name for name in rows if name not in known]:
        fix = f"Known: {', '.join(known)}. A checkpoint of your own is named OWNER/NAME or gs://BUCKET/PREFIX."
        raise SettingsError.of(unknown[0], "is not an image or a model of the catalog.", fix=fix)
    print("asking the registries of the images, and Hugging Face …", file=sys.stderr, flush=True)
    pins = {"images": dict(facts.lock.images), "models": dict(facts.lock.models)}
    pinned: dict[str, str] = {}
    failed: dict[str, str] = {}
    silent: set[str] = set()
    for name in rows if wanted else known:
        section = "images" if name in facts.images else "models"
        if section in silent:  # the rest would be as silent, and each would be waited for
            failed[name] = "not asked, since nobody answered before"
        else:
            try:
                image, token = facts.images.get(name), os.environ.get("HF_TOKEN", "")
                value = (
                    image_digest(image.repository, image.tag) if image else model_revision(hub_ids[name], token=token)
                )
                pins[section][name] = pinned[name] = value
            except GoogleError as error:
                failed[name] = f"not pinned: {error}"
                silent |= {section} if error.reason == "UNREACHABLE" else set()
        if not as_json:
            print(f"{name}: {pinned.get(name) or failed[name]}", flush=True)
    path = write_lock(Lock(**pins), directory) if pinned else None
    counted_ones, checkpoints_file = _pin_checkpoints(
        [one for one in wanted if is_checkpoint(one)], folder, root, failed
    )
    if as_json:
        print_json(
            {
                "pinned": {**pinned, **{name: one.revision for name, one in counted_ones.items()}},
                "failed": failed,
                "file": None if path is None else str(path),
                "checkpointsFile": None if checkpoints_file is None else str(checkpoints_file),
            }
        )
        return len(failed)
    for name, one in counted_ones.items():
        print("\n".join(_told(name, one, folder)), flush=True)
    for name in (one for one in wanted if one in failed and is_checkpoint(one)):
        print(f"{name}: {failed[name]}", flush=True)
    if path is not None:
        count = f"{counted(len(pins['images']), 'image')} and {counted(len(pins['models']), 'model')}"
        print(f"wrote {path}: {count} pinned; review and commit it")
    if checkpoints_file is not None:
        print(f"wrote {checkpoints_file}; review and commit it with the stack file that names the checkpoint")
    if path is None and checkpoints_file is None:
        kept = directory / "lock.json" if rows or not wanted else (root or project_root()) / NAME
        print(f"nothing was pinned; {kept} is as it was", file=sys.stderr)
    return len(failed)


def _pin_checkpoints(
    names: list[str], folder: str | None, root: Path | None, failed: dict[str, str]
) -> tuple[dict[str, PinnedCheckpoint], Path | None]:
    """Return what was counted by the name that a stack file gives, and the file it was written into; add to `failed`."""
    if not names:
        return {}, None
    here, architectures = root or project_root(), catalog().architectures
    found: dict[str, PinnedCheckpoint] = {}
    for name in names:
        try:
            if folder is not None:
                found[name] = pin_from_folder(name, Path(folder).expanduser(), architectures)
            elif name.startswith(BUCKET_SCHEME):
                found[name] = pin_from_bucket(name, architectures, _stack_that_names(here, name))
            else:
                one = pin_from_hub(name, architectures)
                found[one.name] = one
        except SettingsError:
            raise
        except (Gemma4Error, OSError) as error:
            failed[name] = f"not pinned: {error}"
    return found, write_checkpoints({**read_checkpoints(here), **found}, here) if found else None


def _stack_that_names(root: Path, checkpoint: str) -> StackFile | None:
    """Return the stack file that serves a checkpoint, for its project and credentials; None where none can be read."""
    for stack in stack_names(root):
        with suppress(Gemma4Error):
            file = read_stack(root, stack)
            if file.settings.get("checkpoint") == checkpoint:
                return file
    return None


def _told(name: str, one: PinnedCheckpoint, folder: str | None) -> list[str]:
    """Return what was read of a checkpoint, and what to write."""
    model = next(row.id for row in catalog().models.values() if row.architecture == one.architecture)
    gated = ", gated or private" if one.gated else ""
    lines = [
        f"{name}: {one.architecture} in {one.weight_format}, {one.checkpoint_bytes / GIB:.2f} GiB, commit {one.revision}{gated}"
    ]
    if folder is not None:
        place = f"gs://BUCKET/{one.name}/{one.revision}"
        lines.append(f"  copy it:     gcloud storage cp -r {shlex.quote(folder.rstrip('/'))}/* {place}/")
        lines.append("  stack file:  gemma4:weights: {source: existing, bucket: BUCKET}")
    lines.append(f"  stack file:  gemma4:model: {model}")
    lines.append(f"               gemma4:checkpoint: {name.partition('@')[0]}")
    return lines
