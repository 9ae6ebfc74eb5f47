"""The lock file: image digests and model revisions as resolved online, written by `gemma4 pin` and read by plans.

An id without an entry is not pinned, and the plan says so. Nothing here uses the network.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import Field, StringConstraints, ValidationError

from infra.catalog.file_reader import DATA
from infra.catalog.schema import Row
from infra.errors import CatalogError

NAME = "lock.json"

Digest: TypeAlias = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Revision: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]


class Lock(Row):
    """What was pinned: digests by image id, and commits of Hugging Face repositories by model or assistant id."""

    images: dict[str, Digest] = Field(default_factory=dict)
    models: dict[str, Revision] = Field(default_factory=dict)


def read_lock(directory: Path, *, images: Collection[str], repositories: Collection[str]) -> Lock:
    """Read the lock file of `directory`. Raises CatalogError for a malformed pin or an id that the catalog does not have."""
    path = directory / NAME
    try:
        lock = Lock.model_validate_json(path.read_text("utf-8"))
    except (OSError, ValidationError) as error:
        raise CatalogError(f"{NAME} cannot be read: {error}. Run `gemma4 pin` to write it anew.") from error
    unknown = [*(lock.images.keys() - set(images)), *(lock.models.keys() - set(repositories))]
    if unknown:
        raise CatalogError(f"{NAME} pins what the catalog does not have: {', '.join(sorted(unknown))}")
    return lock


def lock_stamp(directory: Path) -> object:
    """Return what is another after each change of the lock file; None where it cannot be looked at."""
    try:
        seen = (directory / NAME).stat()
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_size, seen.st_ino


def write_lock(lock: Lock, directory: Path = DATA) -> Path:
    """Write `lock` sorted, so that a new pin is a small diff, and return the file's path."""
    path = directory / NAME
    pins = {section: dict(sorted(entries.items())) for section, entries in lock.model_dump().items()}
    path.write_text(json.dumps(pins, indent=2) + "\n", "utf-8")
    return path
