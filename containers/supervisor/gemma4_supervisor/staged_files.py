"""Remembers which weight files are on this machine and were checked, so that a restart does not fetch them again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from containers.shared.manifest import ManifestFile

from .whole_file import write_whole

STAGED_FILES = ".gemma4-staged.json"


class StagedFiles:
    """The checked files of one folder with their checksums; kept in a file of that folder."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.files: dict[str, str] = {}
        self.is_complete = False
        try:
            kept = json.loads((self.folder / STAGED_FILES).read_text())
            self.files, self.is_complete = dict(kept["files"]), bool(kept["complete"])
        except (OSError, ValueError, KeyError, TypeError):
            pass  # nothing is known of the folder, so everything is fetched

    def missing(self, files: Iterable[ManifestFile]) -> list[ManifestFile]:
        """Return those of `files` that are not here, or differ; the largest first."""

        def is_here(file: ManifestFile) -> bool:
            path = self.folder / file.name
            return self.files.get(file.name) == file.sha256 and path.is_file() and path.stat().st_size == file.size

        return sorted((file for file in files if not is_here(file)), key=lambda file: -file.size)

    def add(self, file: ManifestFile) -> None:
        """Remember a file that was checked."""
        self.files[file.name] = file.sha256
        self.is_complete = False
        self._write()

    def complete(self, files: Iterable[ManifestFile]) -> None:
        """Remember that exactly these files make up the folder, and that all are here."""
        self.files = {file.name: file.sha256 for file in files}
        self.is_complete = True
        self._write()

    def _write(self) -> None:
        write_whole(self.folder / STAGED_FILES, json.dumps({"files": self.files, "complete": self.is_complete}))
