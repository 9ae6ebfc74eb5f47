"""The manifest of a copied model: the weights copy writes it last, so its presence says that every file is there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

MANIFEST = "gemma4-manifest.json"
"""Name of the manifest's object below the model's prefix."""
SHA256 = "sha256"
"""Key of a checksum, in the manifest and in the metadata of each object."""


class ManifestFile(NamedTuple):
    """One file; its name is relative to the prefix."""

    name: str
    size: int
    sha256: str


def read_manifest(text: bytes) -> tuple[Mapping[str, Any], list[ManifestFile]]:
    """Return the document and its files. Raises ValueError for anything that is not a manifest."""
    try:
        document = json.loads(text)
        files = [ManifestFile(str(row["name"]), int(row["size"]), str(row[SHA256])) for row in document["files"]]
    except (KeyError, TypeError, RecursionError):
        raise ValueError("not a manifest") from None
    return document, files


def is_file_name(name: object) -> bool:
    """Return True if an object may have this name below a prefix, and a file below a folder: no way out, nothing odd."""
    return isinstance(name, str) and name.isprintable() and not {"", ".", ".."} & set(name.split("/"))
