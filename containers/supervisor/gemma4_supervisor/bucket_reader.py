"""Reads the weights' bucket with the machine's own account: manifests, and the content of objects in ranges."""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from containers.shared.manifest import MANIFEST, ManifestFile, is_file_name, read_manifest
from containers.shared.web import TransientError, backoff, connect, reason_of, target

from .desired_spec import WeightsFolder
from .docker import Abandoned
from .metadata_server import MetadataServer
from .supervisor_settings import SupervisorSettings

PIECE = 1024 * 1024
RANGE_TRIES = 6
ANSWER_S = 60.0


class WeightsError(Exception):
    """The weights in the bucket are not what the manifest promises; says what is wrong and what to do."""


@dataclass(frozen=True)
class SourceFile:
    """One file of the bucket."""

    weights: WeightsFolder
    file: ManifestFile

    @property
    def place(self) -> str:
        """Return its address, as messages show it."""
        return f"{self.weights.place}/{self.file.name}"


class WeightsBucket:
    """Cloud Storage by its JSON API. Shared by all threads."""

    def __init__(self, settings: SupervisorSettings, metadata: MetadataServer) -> None:
        self._url, self._retry_s, self._metadata = settings.storage_url.rstrip("/"), settings.retry_s, metadata

    def manifest(self, weights: WeightsFolder) -> list[ManifestFile]:
        """Return the files that make up a checkpoint. Raises WeightsError, TransientError."""
        place = f"{weights.place}/{MANIFEST}"
        reply = self._metadata.ask_google("GET", self._address(weights, MANIFEST), timeout_s=ANSWER_S)
        self._check(reply.status, place)
        try:
            _, files = read_manifest(reply.body)
        except ValueError:
            raise WeightsError(f"{place} is not a manifest; run the weights copy again.") from None
        for file in files:
            if not is_file_name(file.name):
                raise WeightsError(f"{place} names {file.name!r}, which cannot be a file of the folder.")
        return files

    def read(self, source: SourceFile, start: int, end: int, abandoned: threading.Event) -> Iterator[memoryview]:
        """Yield bytes `start` to `end` in pieces, each valid until the next, and go on where a connection broke off.

        Raises WeightsError, TransientError after several failures at one place, Abandoned when told to stop.
        """
        failures = 0
        while start < end:
            try:
                for piece in self._stream(source, start, end):
                    if abandoned.is_set():
                        raise Abandoned
                    start += len(piece)
                    failures = 0
                    yield piece
            except (TransientError, OSError, http.client.HTTPException) as error:
                failures += 1
                if failures >= RANGE_TRIES:
                    raise TransientError(f"{source.place}: {reason_of(error)}, {failures} times at one place") from None
                if abandoned.wait(backoff(self._retry_s, 30, failures)):
                    raise Abandoned from None

    def _stream(self, source: SourceFile, start: int, end: int) -> Iterator[memoryview]:
        url, buffer = self._address(source.weights, source.file.name), memoryview(bytearray(PIECE))
        headers = {"Authorization": f"Bearer {self._metadata.token()}", "Range": f"bytes={start}-{end - 1}"}
        with contextlib.closing(connect(url, ANSWER_S)) as connection:
            connection.request("GET", target(url), headers=headers)
            response = connection.getresponse()
            total = (response.getheader("Content-Range") or "").rpartition("/")[2]
            if response.status == 416 or (response.status == 206 and total != str(source.file.size)):
                raise WeightsError(f"{source.place} is not as long as its manifest says; run the weights copy again.")
            if response.status != 206:
                self._check(response.status, source.place)
                raise TransientError("the bucket ignores ranges")
            while start < end:
                count = response.readinto(buffer[: min(PIECE, end - start)])
                if not count:
                    raise TransientError("the connection ended early")
                start += count
                yield buffer[:count]

    def _address(self, weights: WeightsFolder, name: str) -> str:
        return f"{self._url}/storage/v1/b/{weights.bucket}/o/{quote(f'{weights.prefix}/{name}', safe='')}?alt=media"

    def _check(self, status: int, place: str) -> None:
        """Raise WeightsError or TransientError for a status that is not content."""
        if status in (200, 206):
            return
        if status == 401:
            self._metadata.forget_token()
        if status == 404:
            raise WeightsError(f"{place} does not exist. Has the weights copy finished, and is the prefix right?")
        if status in (401, 403):
            fix = "grant the slice's service account roles/storage.objectViewer on the bucket."
            raise WeightsError(f"{place} may not be read (HTTP {status}): {fix}")
        raise TransientError(f"{place}: HTTP {status}")
