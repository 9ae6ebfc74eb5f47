"""Files copied a few at once, each checked against its checksum before its last bytes are sent."""

from __future__ import annotations

import hashlib
import queue
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from containers.shared.manifest import SHA256

from .bucket import QUANTUM, ExistingObject, UploadLost
from .exit_codes import CopyFailure, ExitCode
from .hub import GIT_SHA1, MD5, ListedFile
from .job_log import MIB, log, readable_size
from .request import CopyRequest
from .window import Window

MOST_UPLOADS = 3
"""Of one file, where the bucket loses them."""


def copy_files(
    request: CopyRequest, revision: str, files: Sequence[ListedFile], objects: Mapping[str, ExistingObject]
) -> dict[str, str]:
    """Copy `files` in their order; returns their SHA-256 by name. The first failure ends it."""
    work: queue.SimpleQueue[ListedFile] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[ListedFile, str] | BaseException] = queue.SimpleQueue()
    for file in files:
        work.put(file)
    progress = CopyProgress(files)
    largest = max(file.size for file in files)
    for _ in range(min(request.options.parallel, len(files))):
        copier = FileCopier(request, revision, objects, progress, largest)
        # Daemons: a run that ends early must not wait for a silent connection.
        threading.Thread(target=copier.run, args=(work, done), daemon=True).start()
    sums: dict[str, str] = {}
    next_line = time.monotonic() + request.options.progress_seconds
    while len(sums) < len(files):
        try:
            result = done.get(timeout=max(0.001, next_line - time.monotonic()))
        except queue.Empty:
            next_line += request.options.progress_seconds
            progress.log()
            continue
        if isinstance(result, BaseException):
            raise result
        file, sums[result[0].name] = result
        log("INFO", f"{file.name}: {readable_size(file.size)} stored, checksum right.", event="copied", file=file.name)
    return sums


class FileCopier:
    """Copies one file after another: its thread uploads, a second one downloads and hashes, a window is between them."""

    def __init__(
        self, request: CopyRequest, revision: str, objects: Mapping[str, ExistingObject], progress: CopyProgress, largest: int
    ) -> None:  # fmt: skip
        self._bucket, self._hub = request.bucket(), request.hub()
        self._revision, self._objects, self._progress = revision, objects, progress
        self._chunk = request.options.chunk_mib * MIB
        # Allocated once and reused; the pages that small files leave alone are never touched.
        self._memory = memoryview(bytearray(max(QUANTUM, min(2 * self._chunk, largest))))

    def run(
        self, work: queue.SimpleQueue[ListedFile], done: queue.SimpleQueue[tuple[ListedFile, str] | BaseException]
    ) -> None:
        """Copy files from `work` until there is none; puts each with its SHA-256 into `done`, or what went wrong."""
        try:
            while True:
                file = work.get_nowait()
                done.put((file, self._copy(file)))
        except queue.Empty:
            return
        except BaseException as error:
            done.put(error)

    def _copy(self, file: ListedFile) -> str:
        for _ in range(MOST_UPLOADS):
            try:
                return self._copy_once(file)
            except UploadLost:
                fact = f"{file.name}: the bucket lost the unfinished upload; this file starts again."
                log("WARNING", fact, event="retry")
        fact = f"{file.name}: the bucket lost {MOST_UPLOADS} unfinished uploads. Run again."
        raise CopyFailure(ExitCode.GAVE_UP, fact)

    def _copy_once(self, file: ListedFile) -> str:
        window, checksums = Window(self._memory, file.size), Checksums(file)
        reader = threading.Thread(target=self._download, args=(file, window, checksums), daemon=True)
        reader.start()
        try:
            self._upload(file, window, checksums)
        except BaseException as error:
            window.fail(error)
            if isinstance(error, UploadLost):
                reader.join()  # it writes into memory that the next attempt will use
            raise
        reader.join()
        return checksums.sha256()

    def _download(self, file: ListedFile, window: Window, checksums: Checksums) -> None:
        def wrote(view: memoryview) -> None:
            checksums.update(view)
            window.wrote(len(view))

        try:
            self._hub.read(self._revision, file, window.room, wrote)
        except BaseException as error:
            window.fail(error)

    def _upload(self, file: ListedFile, window: Window, checksums: Checksums) -> None:
        metadata = {file.algorithm: file.digest}
        if file.algorithm != SHA256 and file.size <= self._chunk:
            # The source lists no SHA-256 for these. Where they are small, learn it before the upload's metadata is set.
            window.wait_for(file.size)
            checksums.check()
            metadata[SHA256] = checksums.sha256()
        stored = self._objects.get(file.name)
        upload = self._bucket.start(file.name, file.size, metadata, stored.generation if stored else "0")
        try:
            at = 0
            while not upload.finished:
                end = min(at + self._chunk, file.size)
                if end == file.size:
                    # These bytes would complete the object: hold them back until all of it is known to be right.
                    window.wait_for(file.size)
                    checksums.check()
                else:
                    end -= end % QUANTUM
                at = upload.put(at, end, window.views(at, end))
                window.release(at)
                self._progress.stored(file, at)
        except CopyFailure:
            upload.cancel()
            raise


class Checksums:
    """Checksums of one file, kept up while it is read."""

    def __init__(self, file: ListedFile) -> None:
        self._file = file
        self._sums = {SHA256: hashlib.sha256()}
        if file.algorithm == GIT_SHA1:
            self._sums[GIT_SHA1] = hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
        if file.algorithm == MD5:
            self._sums[MD5] = hashlib.md5(usedforsecurity=False)

    def update(self, data: memoryview) -> None:
        """Add the next bytes of the file."""
        for digest in self._sums.values():
            digest.update(data)

    def check(self) -> None:
        """Raise CopyFailure unless the bytes are those that the Hub lists."""
        name, _, algorithm, expected = self._file
        got = self._sums[algorithm].hexdigest()
        if got != expected:
            raise CopyFailure(
                ExitCode.MISMATCH,
                f"{name}: {algorithm} expected {expected}, got {got}. Nothing was stored under this name. "
                "Run again; if it repeats, the file on the Hub is damaged.",
            )

    def sha256(self) -> str:
        """Return the SHA-256 of the bytes so far, in hex digits."""
        return self._sums[SHA256].hexdigest()


class CopyProgress:
    """How much the bucket has confirmed, and how fast."""

    def __init__(self, files: Iterable[ListedFile]) -> None:
        self._began = time.monotonic()
        self._total = sum(file.size for file in files)
        self._stored: dict[str, int] = {}
        self._percent: dict[str, float] = {}

    def stored(self, file: ListedFile, size: int) -> None:
        """Note that the bucket has so many bytes of a file."""
        self._stored[file.name] = size
        self._percent[file.name] = 100.0 * size / max(1, file.size)

    def log(self) -> None:
        """Print one line."""
        stored = sum(list(self._stored.values()))
        rate = stored / max(1e-3, time.monotonic() - self._began)
        eta = round((self._total - stored) / rate) if rate else None
        percent = 100.0 * stored / max(1, self._total)
        active = {name: round(share, 1) for name, share in list(self._percent.items()) if share < 100}
        log(
            "INFO",
            f"{percent:.1f} % of {readable_size(self._total)} at {rate / MIB:.0f} MiB/s, "
            + (f"{eta // 60} min {eta % 60} s left" if eta is not None else "time left unknown")
            + "".join(f"; {name} {share} %" for name, share in active.items()),
            event="progress", percent=round(percent, 1), bytes=stored, totalBytes=self._total,
            mibPerSecond=round(rate / MIB, 1), etaSeconds=eta, files=active,
        )  # fmt: skip
