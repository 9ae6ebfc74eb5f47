"""Checkpoints of a user's own as `gemma4 pin` read them: format, sizes and commit, in a file beside the stack files.

They are the user's and not the catalog's: the file is reviewed and committed with the stack files that name them, stays out
of the way of newer versions of this program, and is found where the program itself is installed and not copied.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from infra.catalog.lock import Revision
from infra.catalog.schema import CheckpointSizes, Row
from infra.errors import CatalogError

NAME = "checkpoints.lock.json"


def _plain(name: str) -> str:
    if not name or not name.isprintable() or {"", ".", ".."} & set(name.split("/")):
        raise ValueError("is no path within a repository or a bucket")
    return name


class PinnedCheckpoint(Row):
    """A checkpoint whose tensors were counted from the headers of its files."""

    name: Annotated[str, AfterValidator(_plain)]
    """Its repository, OWNER/NAME; requests name the served model by it."""
    origin: Literal["hub", "folder", "bucket"]
    """Where it lies: on Hugging Face, in a folder whose files were counted, or in a bucket."""
    revision: Revision
    """The commit; of a folder the first 40 digits of a SHA-256 of its files."""
    architecture: str
    """Catalog id of the architecture that its configuration describes."""
    weight_format: str
    """Catalog id of the format of its weights."""
    gated: bool = False
    """Whether Hugging Face gives the files only to a token: gated or private."""
    checkpoint_bytes: int = Field(gt=0)
    """Size of the safetensors files."""
    sizes: CheckpointSizes
    read: dt.date


Checkpoints = Mapping[str, PinnedCheckpoint]
"""By the name that a stack file gives under `checkpoint`: OWNER/NAME or gs://BUCKET/PREFIX."""

_FORM = TypeAdapter(dict[str, PinnedCheckpoint])


def read_checkpoints(folder: Path) -> Checkpoints:
    """Read the file of a project folder; empty where there is none. Raises CatalogError where it is not what was written."""
    path = folder / NAME
    try:
        return _FORM.validate_json(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        what = f"{error.error_count()} of its values are wrong" if isinstance(error, ValidationError) else str(error)
        fix = "Run `gemma4 pin` with the name of each checkpoint to write it anew, or take it back from git."
        raise CatalogError(f"{path} cannot be read: {what}. {fix}") from None


def write_checkpoints(checkpoints: Checkpoints, folder: Path) -> Path:
    """Write the file sorted, without what is at its default, and return its path."""
    path = folder / NAME
    rows = {
        name: row.model_dump(mode="json", exclude_defaults=True, exclude={"sizes"})
        | {"sizes": row.sizes.model_dump(exclude_defaults=True)}
        for name, row in sorted(checkpoints.items())
    }
    path.write_text(json.dumps(rows, indent=2) + "\n", "utf-8")
    return path
