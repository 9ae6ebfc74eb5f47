"""Pins one checkpoint by the name that a stack file gives it: finds its files, counts them, and says at which commit."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from infra.catalog import Architecture
from infra.catalog.checkpoint_lock import PinnedCheckpoint
from infra.errors import Gemma4Error, SettingsError
from infra.google.hub_files import HubRepository
from infra.google.storage import Bucket
from infra.google.upstream_versions import HUGGING_FACE
from infra.ops.google_access import google_session
from infra.ops.pinning.checkpoint_sources import BucketSource, CheckpointSource, FolderSource
from infra.ops.pinning.count_checkpoint import count_checkpoint
from infra.ops.pinning.folder_manifest import write_manifest
from infra.planning.artifacts import MANIFEST
from infra.planning.checkpoint import BUCKET_SCHEME
from infra.planning.settings.declarations import CHECKPOINT
from infra.planning.settings.stackfile import StackFile

_MOST_MANIFEST_BYTES = 4 * 1024**2


def is_checkpoint(name: str) -> bool:
    """Return whether a word of `gemma4 pin` names a checkpoint: OWNER/NAME, OWNER/NAME@COMMIT or gs://BUCKET/PREFIX.

    Raises SettingsError for a word that can only mean one and has another form.
    """
    if "/" in name and not re.fullmatch(rf"({CHECKPOINT})(@[A-Za-z0-9_][A-Za-z0-9._-]*)?", name):
        fix = "Write it like acme/gemma-4-12b-support, acme/gemma-4-12b-support@0123abc or gs://my-bucket/gemma-4-12b-support."
        raise SettingsError.of(name, "has the form of no checkpoint's name.", fix=fix)
    return "/" in name


def pin_from_hub(name: str, architectures: Mapping[str, Architecture]) -> PinnedCheckpoint:
    """Count OWNER/NAME, or OWNER/NAME@REVISION, on Hugging Face, with the token of HF_TOKEN if there is one."""
    repository, _, revision = name.partition("@")
    hub, token = os.environ.get("HF_ENDPOINT") or HUGGING_FACE, os.environ.get("HF_TOKEN", "").strip()
    found = HubRepository(repository, revision or "main", token=token, hub=hub)
    return _pinned(repository, found, architectures, origin="hub", revision=found.commit, gated=found.closed)


def pin_from_bucket(name: str, architectures: Mapping[str, Architecture], stack: StackFile | None) -> PinnedCheckpoint:
    """Count gs://BUCKET/PREFIX with the credentials of `stack`, else of the environment."""
    bucket, _, prefix = name.removeprefix(BUCKET_SCHEME).partition("/")
    source = BucketSource(Bucket(google_session(stack), bucket), prefix)
    if MANIFEST not in source.sizes:
        fact = f"{name} has no {MANIFEST}, by which a server's machine could check what it loads."
        fix = (
            "Where the files are, `gemma4 pin --folder DIR OWNER/NAME` writes it into the folder; copy it beside them."
        )
        raise Gemma4Error(f"{fact} {fix}")
    try:
        manifest = json.loads(source.read(MANIFEST, 0, min(source.sizes[MANIFEST], _MOST_MANIFEST_BYTES)))
        listed = {str(row["name"]): int(row["size"]) for row in manifest["files"]}
        repository, revision = str(manifest["repo"]), str(manifest["revision"])
    except (ValueError, KeyError, TypeError):
        raise Gemma4Error(f"{MANIFEST} of {name} is no list of files. Write it anew, beside the files.") from None
    if wrong := sorted(file for file, size in listed.items() if source.sizes.get(file) != size):
        raise Gemma4Error(
            f"{name}: {len(wrong)} of {len(listed)} files are missing or cut short, the first is {wrong[0]}."
        )
    return _pinned(repository, source, architectures, origin="bucket", revision=revision)


def pin_from_folder(name: str, folder: Path, architectures: Mapping[str, Architecture]) -> PinnedCheckpoint:
    """Count a folder that shall be served as OWNER/NAME, and write the list of its files' checksums into it."""
    if name.startswith(BUCKET_SCHEME) or "@" in name:
        fix = f"Write for example: gemma4 pin --folder {folder} acme/gemma-4-12b-support"
        raise SettingsError.of("--folder", f"takes a name like OWNER/NAME beside it, not {name}.", fix=fix)
    source = FolderSource(folder)
    pinned = _pinned(name, source, architectures, origin="folder", revision="0" * 40)
    files = [file for file in source.sizes if file != MANIFEST]
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def tell(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    return pinned.model_copy(update={"revision": write_manifest(folder, name, files, now, tell)})


def _pinned(
    name: str,
    source: CheckpointSource,
    architectures: Mapping[str, Architecture],
    *,
    origin: str,
    revision: str,
    gated: bool = False,
) -> PinnedCheckpoint:
    counted = count_checkpoint(name, source, architectures)
    try:
        return PinnedCheckpoint.model_validate(
            {
                "name": name,
                "origin": origin,
                "revision": revision,
                "architecture": counted.architecture,
                "weight_format": counted.weight_format,
                "gated": gated,
                "checkpoint_bytes": counted.checkpoint_bytes,
                "sizes": counted.sizes,
                "read": dt.datetime.now(dt.UTC).date(),
            }
        )
    except ValueError:
        raise Gemma4Error(
            f"{name} has a name or a commit ({revision!r}) of an unknown form. It was not pinned."
        ) from None
