"""`gemma4 pin`: resolves tags to digests and models to commits, and writes them into the catalog's lock file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from infra.catalog import Lock, catalog, write_lock
from infra.catalog.files import DATA
from infra.errors import GoogleError, SettingsError
from infra.google.upstream_versions import image_digest, model_revision


def pin(names: Iterable[str] = (), *, directory: Path = DATA) -> int:
    """Pin the images and models of those ids, or all; what cannot be resolved keeps its old pin. Returns failures."""
    facts = catalog()
    token = os.environ.get("HF_TOKEN", "")
    hub_ids = {row.id: row.hub_id for row in facts.models.values()}
    hub_ids |= {row.id: row.hub_id for row in facts.assistants.values()}

    def resolved(name: str) -> tuple[str, str]:
        if name in facts.images:
            return "images", image_digest(facts.images[name].repository, facts.images[name].tag)
        return "models", model_revision(hub_ids[name], token=token)

    known = [*facts.images, *hub_ids]
    wanted = list(names) or known
    if unknown := [name for name in wanted if name not in known]:
        raise SettingsError.of(unknown[0], "is no image or model of the catalog.", fix=f"Known: {', '.join(known)}.")
    print("asking the registries of the images, and Hugging Face …", file=sys.stderr, flush=True)
    lock, failed = facts.lock, 0
    pinned = {"images": dict(lock.images), "models": dict(lock.models)}
    silent: set[bool] = set()
    for name in wanted:
        image = name in facts.images
        if image in silent:  # the rest would be as silent, and each would be waited for
            failed += 1
            print(f"{name}: not asked, since nobody answered before", flush=True)
            continue
        try:
            section, value = resolved(name)
            pinned[section][name] = value
            print(f"{name}: {value}", flush=True)
        except GoogleError as error:
            failed += 1
            silent |= {image} if error.reason == "UNREACHABLE" else set()
            print(f"{name}: not pinned: {error}", flush=True)
    if failed == len(wanted):
        print(f"nothing was pinned; {directory / 'lock.json'} is as it was", file=sys.stderr)
        return failed
    path = write_lock(Lock(images=pinned["images"], models=pinned["models"]), directory)
    print(
        f"wrote {path}: {len(pinned['images'])} images and {len(pinned['models'])} models pinned; review and commit it"
    )
    return failed
