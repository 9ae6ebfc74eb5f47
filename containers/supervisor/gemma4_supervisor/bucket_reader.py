"""Reads the weights' bucket with the machine's own account: manifests, and the content of objects in ranges."""

from __future__ import annotations

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

    def __init__(self, url: str, metadata: MetadataServer) -> None:
        self._url, self._metadata = url.rstrip("/"), metadata

    def manifest(self, weights: WeightsFolder) -> list[ManifestFile]:
        """Return the files that make up a checkpoint. Raises WeightsError, TransientError."""
        place = f"{weights.place}/{MANIFEST}"
        reply = self._metadata.ask_google("GET", self.url(weights, MANIFEST), timeout_s=ANSWER_S)
        self.check(reply.status, place)
        try:
            _, files = read_manifest(reply.body)
        except ValueError:
            raise WeightsError(f"{place} is not a manifest; run the weights copy again.") from None
        for file in files:
            if not is_file_name(file.name):
                raise WeightsError(f"{place} names {file.name!r}, which cannot be a file of the folder.")
        return files

    def url(self, weights: WeightsFolder, name: str) -> str:
        """Return the address of a file's content."""
        return f"{self._url}/storage/v1/b/{weights.bucket}/o/{quote(f'{weights.prefix}/{name}', safe='')}?alt=media"

    def headers(self) -> dict[str, str]:
        """Return the headers that every request needs. Raises TransientError."""
        return {"Authorization": f"Bearer {self._metadata.token()}"}

    def check(self, status: int, place: str) -> None:
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


class RangeReader:
    """One connection to the bucket, for one thread."""

    def __init__(self, bucket: WeightsBucket, retry_s: float, abandoned: threading.Event) -> None:
        self._bucket, self._retry_s, self._abandoned = bucket, retry_s, abandoned
        self._connection: http.client.HTTPConnection | None = None
        self._buffer = memoryview(bytearray(PIECE))

    def close(self) -> None:
        """Close the connection; the next range opens one again."""
        if self._connection:
            self._connection.close()
        self._connection = None

    def read(self, source: SourceFile, start: int, end: int) -> Iterator[memoryview]:
        """Yield bytes `start` to `end` in pieces, each valid until the next, and go on where a connection broke off.

        Raises WeightsError, TransientError after several failures at one place, Abandoned when told to stop.
        """
        failures = 0
        while start < end:
            try:
                for piece in self._stream(source, start, end):
                    start += len(piece)
                    failures = 0
                    yield piece
            except (TransientError, OSError, http.client.HTTPException) as error:
                self.close()
                failures += 1
                if failures >= RANGE_TRIES:
                    raise TransientError(f"{source.place}: {reason_of(error)}, {failures} times at one place") from None
                if self._abandoned.wait(backoff(self._retry_s, 30, failures)):
                    raise Abandoned from None

    def _stream(self, source: SourceFile, start: int, end: int) -> Iterator[memoryview]:
        response = self._open(source, start, end)
        while start < end:
            if self._abandoned.is_set():
                self.close()
                raise Abandoned
            count = response.readinto(self._buffer[: min(PIECE, end - start)])
            if not count:
                raise TransientError("the connection ended early")
            start += count
            yield self._buffer[:count]
        response.read()  # nothing is left to read, but this makes the connection usable again

    def _open(self, source: SourceFile, start: int, end: int) -> http.client.HTTPResponse:
        url = self._bucket.url(source.weights, source.file.name)
        if self._connection is None:
            self._connection = connect(url, ANSWER_S)
        headers = {**self._bucket.headers(), "Range": f"bytes={start}-{end - 1}"}
        self._connection.request("GET", target(url), headers=headers)
        response = self._connection.getresponse()
        total = (response.getheader("Content-Range") or "").rpartition("/")[2]
        if response.status == 416 or (response.status == 206 and total != str(source.file.size)):
            raise WeightsError(f"{source.place} is not as long as its manifest says; run the weights copy again.")
        if response.status != 206:
            self.close()
            self._bucket.check(response.status, source.place)
            raise TransientError("the bucket ignores ranges")
        return response
