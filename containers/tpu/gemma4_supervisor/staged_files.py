"""Which weights stand on this machine, checked: so that a restart costs no second reading."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path

from containers.shared.manifest import ManifestFile

STAGED_FILES = ".gemma4-staged.json"


class StagedFiles:
    """Which files of a folder were checked, by checksum; kept in the folder, and gone with it."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.files: dict[str, str] = {}
        self.is_complete = False
        self._lock = threading.Lock()
        try:
            kept = json.loads((self.folder / STAGED_FILES).read_text())
            self.files, self.is_complete = dict(kept["files"]), bool(kept["complete"])
        except (OSError, ValueError, KeyError, TypeError):
            pass  # nothing is known, so everything is fetched

    def missing(self, files: Iterable[ManifestFile]) -> list[ManifestFile]:
        """Those that are not here, or not as they should be; the largest first."""
        return sorted((file for file in files if not self._has(file)), key=lambda file: -file.size)

    def add(self, file: ManifestFile) -> None:
        with self._lock:
            self.files[file.name] = file.sha256
            self.is_complete = False
            self._write()

    def complete(self, files: Iterable[ManifestFile]) -> None:
        """All of these are here, and nothing else counts."""
        with self._lock:
            self.files = {file.name: file.sha256 for file in files}
            self.is_complete = True
            self._write()

    def _has(self, file: ManifestFile) -> bool:
        path = self.folder / file.name
        return self.files.get(file.name) == file.sha256 and path.is_file() and path.stat().st_size == file.size

    def _write(self) -> None:
        fresh = self.folder / f"{STAGED_FILES}.new"
        fresh.write_text(json.dumps({"files": self.files, "complete": self.is_complete}))
        fresh.replace(self.folder / STAGED_FILES)
