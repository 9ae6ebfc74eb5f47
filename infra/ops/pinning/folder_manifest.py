"""The checksums of a folder with a checkpoint, in the form that the weights copy writes.

With them in the bucket that the folder is copied into, every file is checked before a server loads it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from infra.planning.artifacts import MANIFEST

_PIECE = 16 * 1024**2


def write_manifest(folder: Path, name: str, files: list[str], completed: str, tell: Callable[[str], None]) -> str:
    """Write the manifest of `files` of a folder that shall be checkpoint `name`, and return its revision: 40 digits that
    change with any byte of any file. `completed` is the time of writing."""
    rows: list[dict[str, Any]] = []
    for file in sorted(files):
        tell(f"reading {file} for its checksum …")
        rows.append({"name": file, "size": (folder / file).stat().st_size, "sha256": _sha256(folder / file)})
    revision = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:40]
    manifest = {
        "schema": 1,
        "tool": "gemma4 pin",
        "repo": name,
        "revision": revision,
        "requested": revision,
        "completed": completed,
        "bytes": sum(row["size"] for row in rows),
        "files": rows,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
    return revision


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
