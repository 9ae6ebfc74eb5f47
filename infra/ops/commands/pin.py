"""`gemma4 pin`: resolves tags to digests and models to commits, and writes them into the catalog's lock file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from infra.catalog import Lock, catalog, write_lock
from infra.catalog.file_reader import DATA
from infra.errors import GoogleError, SettingsError
from infra.google.upstream_versions import image_digest, model_revision
from infra.ops.terminal.json_output import print_json
from infra.planning.units import counted


def pin(names: Iterable[str] = (), *, directory: Path = DATA, as_json: bool = False) -> int:
    """Pin the images and models of those ids, or all, and return how many could not be; these keep their old pin."""
    facts = catalog()
    token = os.environ.get("HF_TOKEN", "")
    hub_ids = {row.id: row.hub_id for row in facts.models.values()}
    hub_ids |= {row.id: row.hub_id for row in facts.assistants.values()}
    known = [*facts.images, *hub_ids]
    wanted = list(names) or known
    if unknown := [name for name in wanted if name not in known]:
        raise SettingsError.of(
            unknown[0], "is not an image or a model of the catalog.", fix=f"Known: {', '.join(known)}."
        )
    print("asking the registries of the images, and Hugging Face …", file=sys.stderr, flush=True)
    pins = {"images": dict(facts.lock.images), "models": dict(facts.lock.models)}
    pinned: dict[str, str] = {}
    failed: dict[str, str] = {}
    silent: set[str] = set()
    for name in wanted:
        section = "images" if name in facts.images else "models"
        if section in silent:  # the rest would be as silent, and each would be waited for
            failed[name] = "not asked, since nobody answered before"
        else:
            try:
                image = facts.images.get(name)
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
    if as_json:
        print_json({"pinned": pinned, "failed": failed, "file": None if path is None else str(path)})
    elif path is None:
        print(f"nothing was pinned; {directory / 'lock.json'} is as it was", file=sys.stderr)
    else:
        count = f"{counted(len(pins['images']), 'image')} and {counted(len(pins['models']), 'model')}"
        print(f"wrote {path}: {count} pinned; review and commit it")
    return len(failed)
