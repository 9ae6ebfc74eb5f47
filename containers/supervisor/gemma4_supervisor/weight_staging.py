"""Copies weights from the bucket into memory: parallel range reads, every file checked before it gets its name.

The manifest is the one that the weights copy writes last. `StagedFiles` remembers which files were checked. Beside the
files themselves this takes one piece of memory for each connection.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from containers.shared.manifest import ManifestFile

from .bucket_reader import PIECE, SourceFile, WeightsBucket, WeightsError
from .desired_spec import WeightsFolder
from .docker import Abandoned
from .metadata_server import MetadataServer
from .supervisor_settings import SupervisorSettings
from .whole_file import write_whole

PARTIAL = ".gemma4-part"
MIB, GIB = 1024**2, 1024**3
PROGRESS_S = 5.0
STAGED_FILES = ".gemma4-staged.json"

_staging = threading.Lock()
"""Held while weights are written: an abandoned staging may still be at it, and both may write the same files."""


class Stager:
    """Brings folders to what their manifests list. Calls `progress` with done and total bytes every few seconds."""

    def __init__(
        self, settings: SupervisorSettings, metadata: MetadataServer, progress: Callable[[int, int], None]
    ) -> None:
        self._bucket = WeightsBucket(settings, metadata)
        self._streams, self._range = settings.streams, settings.range_mib * MIB
        self._progress = progress

    def stage(
        self, sets: Sequence[WeightsFolder], abandoned: threading.Event, make_room: Callable[[], None] = lambda: None
    ) -> None:
        """Bring the folders of `sets` here, after a call of `make_room`. Files that are complete stay, whatever happens.

        Raises WeightsError, TransientError, OSError, and Abandoned when told to stop.
        """
        while not _staging.acquire(timeout=0.1):
            if abandoned.is_set():
                raise Abandoned
        try:
            if abandoned.is_set():
                raise Abandoned
            make_room()
            wanted = [(weights, StagedFiles(weights.destination), self._bucket.manifest(weights)) for weights in sets]
            downloads = [
                Download(SourceFile(weights, file), staged)
                for weights, staged, files in wanted
                for file in staged.missing(files)
            ]
            _check_room(downloads)
            self._fetch(downloads, abandoned)
            for _, staged, files in wanted:
                staged.complete(files)
        finally:
            _staging.release()

    def _fetch(self, downloads: Sequence[Download], abandoned: threading.Event) -> None:
        """Fetch parts of files side by side, and check each file while its later parts arrive."""

        def fetch(download: Download, start: int, end: int) -> None:
            download.write(start, self._bucket.read(download.source, start, end, abandoned))

        pool, parts = ThreadPoolExecutor(self._streams, thread_name_prefix="weights"), []
        total, done, reported = sum(download.size for download in downloads), 0, time.monotonic()
        try:
            for download in downloads:
                download.open()
                for start, end in download.parts(self._range):
                    parts.append((download, start, end, pool.submit(fetch, download, start, end)))
            for download, start, end, part in parts:
                part.result()
                download.check(end)
                done += end - start
                if time.monotonic() - reported >= PROGRESS_S:
                    reported = time.monotonic()
                    self._progress(done, total)
        finally:
            pool.shutdown(cancel_futures=True)
            for download in downloads:
                download.close()


def is_staged(sets: Iterable[WeightsFolder]) -> bool:
    """Return True if the record of every folder says that it is complete. The files are not looked at."""
    return all(StagedFiles(weights.destination).is_complete for weights in sets)


def remove_unlisted_files(sets: Iterable[WeightsFolder]) -> None:
    """Remove files that the manifests do not list. Only to be called while no server may still read them."""
    for weights in sets:
        staged = StagedFiles(weights.destination)
        for path in [path for path in staged.folder.rglob("*") if path.is_file()]:
            name = str(path.relative_to(staged.folder))
            if name != STAGED_FILES and name not in staged.files:
                path.unlink()


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


class Download:
    """One file that is being fetched. Its parts arrive in any order, and are checked from the first to the last."""

    def __init__(self, source: SourceFile, staged: StagedFiles) -> None:
        self.source, self.size, self.folder = source, source.file.size, staged.folder
        self._staged = staged
        self._path = staged.folder / source.file.name
        self._partial = self._path.with_name(self._path.name + PARTIAL)
        self._partial.unlink(missing_ok=True)
        self._descriptor = -1
        self._hash, self._hashed = hashlib.sha256(), 0

    def open(self) -> None:
        """Make the file, as long as it will be."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self._partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        os.ftruncate(self._descriptor, self.size)

    def parts(self, size: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges to fetch; an empty file is one empty range."""
        for start in range(0, max(1, self.size), size):
            yield start, min(start + size, self.size)

    def write(self, start: int, pieces: Iterable[memoryview]) -> None:
        """Store one part. Any thread may call this."""
        for piece in pieces:
            start += os.pwrite(self._descriptor, piece, start)

    def check(self, end: int) -> None:
        """Hash what has arrived up to `end`; a whole file gets its name. Raises WeightsError for a wrong checksum."""
        while self._hashed < end:
            piece = os.pread(self._descriptor, min(PIECE, end - self._hashed), self._hashed)
            self._hash.update(piece)
            self._hashed += len(piece)
        if end < self.size:
            return
        if self._hash.hexdigest() != self.source.file.sha256:
            self._partial.unlink()
            raise WeightsError(
                f"{self.source.place} does not have the SHA-256 that its manifest names, so it is not served. It is fetched "
                "again; if that does not help, the object is damaged: delete it and run the weights copy again."
            )
        self._partial.replace(self._path)
        self._staged.add(self.source.file)

    def close(self) -> None:
        """Close the file; what has arrived of it stays."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


def _check_room(downloads: Sequence[Download]) -> None:
    if not downloads:
        return
    need = sum(download.size for download in downloads)
    folder = downloads[0].folder
    while not folder.exists():
        folder = folder.parent
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if need > free:
        raise WeightsError(
            f"{need / GIB:.1f} GiB of weights do not fit into the {free / GIB:.1f} GiB that are free at {folder}, beside "
            "what is served now, which goes on. Choose a smaller model, or replace the slice."
        )
