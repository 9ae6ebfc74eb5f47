"""The Cloud Storage side: the objects below one prefix, and resumable uploads to it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urljoin

from containers.shared.manifest import MANIFEST, SHA256, read_manifest
from containers.shared.web import TRANSIENT_ERRORS, Reply, TransientError

from .connections import Connections, origin
from .exit_codes import CopyFailure, ExitCode
from .google_token import GoogleToken
from .hub import ListedFile
from .retries import Retries, retry

QUANTUM = 256 * 1024
"""Resumable uploads take chunks in multiples of this."""


class ExistingObject(NamedTuple):
    """One object of the bucket; its name is relative to the prefix."""

    name: str
    size: int
    generation: str
    metadata: Mapping[str, str]
    md5: str = ""
    """In hex digits; empty where the bucket keeps none, as of an object that was put together from parts."""

    def holds(self, file: ListedFile) -> bool:
        """Return True if size and checksum are those that the Hub lists."""
        right = self.size == file.size and self.metadata.get(file.algorithm) == file.digest
        return right and SHA256 in self.metadata


class UploadLost(Exception):
    """The bucket has forgotten an unfinished upload: that file has to start again."""


class DestinationBucket:
    """A bucket below one prefix. For one thread."""

    role = "roles/storage.objectUser"
    """What the job's service account needs on it."""

    def __init__(
        self, endpoint: str, bucket: str, prefix: str,
        token: GoogleToken, timeout_s: float, retries: Callable[[str], Retries],
    ) -> None:  # fmt: skip
        self.connections = Connections(timeout_s)
        self.token, self.retries, self.place = token, retries, f"gs://{bucket}/{prefix}".rstrip("/")
        self._bucket, self._prefix, self._endpoint = bucket, prefix, endpoint
        self.origin = origin(endpoint)
        self._objects = f"{endpoint}/storage/v1/b/{bucket}/o"

    def objects(self) -> dict[str, ExistingObject]:
        """Return every object below the prefix, by its name relative to it."""
        found: dict[str, ExistingObject] = {}
        page = ""
        while True:
            reply = self._call("GET", f"{self._objects}?prefix={quote(self._prefix, safe='')}{page}")
            listing = json.loads(reply.body)
            for item in listing.get("items", ()):
                name = item["name"][len(self._prefix) :]
                metadata = item.get("metadata") or {}
                md5 = base64.b64decode(item.get("md5Hash") or "").hex()
                found[name] = ExistingObject(name, int(item["size"]), str(item.get("generation", "")), metadata, md5)
            if not listing.get("nextPageToken"):
                return found
            page = f"&pageToken={quote(listing['nextPageToken'], safe='')}"

    def manifest(self, objects: Mapping[str, ExistingObject]) -> dict[str, Any] | None:
        """Return the manifest, None where there is none. Raises CopyFailure where it cannot be read as one."""
        if MANIFEST not in objects:
            return None
        try:
            document, files = read_manifest(self._call("GET", self._url(MANIFEST) + "?alt=media").body)
            if all(file.name and file.sha256 for file in files):
                return {"repo": "", "revision": "", **document}
        except ValueError:
            pass
        fact = f"{self.place}/{MANIFEST} cannot be read as a manifest."
        raise CopyFailure(ExitCode.MANIFEST, f"{fact} Delete it and copy again.")

    def check_writable(self) -> None:
        """Begin an upload and drop it: the one question that IAM, retention and soft limits all answer."""
        self.start(MANIFEST, QUANTUM, {}, "").cancel()

    def start(self, name: str, size: int, metadata: Mapping[str, str], generation: str) -> ResumableUpload:
        """Begin an upload that will only replace `generation` of the object ("0": only create it)."""
        url = f"{self._endpoint}/upload/storage/v1/b/{self._bucket}/o?uploadType=resumable"
        url += f"&name={quote(self._prefix + name, safe='')}"
        if generation:
            url += f"&ifGenerationMatch={generation}"
        kind = "application/json" if name.endswith(".json") else "application/octet-stream"
        body = json.dumps({"name": self._prefix + name, "contentType": kind, "metadata": dict(metadata)}).encode()
        headers = {"Content-Type": "application/json; charset=UTF-8", "X-Upload-Content-Type": kind}
        reply = self._call("POST", url, body, {**headers, "X-Upload-Content-Length": str(size)})
        address = reply.headers.get("location", "")
        if not address:
            fact = f"{self.place}: the storage endpoint began an upload without an address for it."
            raise CopyFailure(ExitCode.BUCKET, fact)
        return ResumableUpload(self, name, size, urljoin(url, address))

    def write(self, name: str, data: bytes) -> None:
        """Store a small object that must not exist yet."""
        upload = self.start(name, len(data), {SHA256: hashlib.sha256(data).hexdigest()}, "0")
        at = 0
        while not upload.finished:
            at = upload.put(at, len(data), [memoryview(data)[at:]])

    def delete(self, name: str) -> None:
        """Delete an object, where it exists."""
        self._call("DELETE", self._url(name), may_be_gone=True)

    def _url(self, name: str) -> str:
        return f"{self._objects}/{quote(self._prefix + name, safe='')}"

    def _call(
        self, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None,
        may_be_gone: bool = False,
    ) -> Reply:  # fmt: skip
        def ask() -> Reply:
            return self.connections.call(method, url, {**(headers or {}), **self.token.headers()}, body)

        retries = self.retries(f"{self.place}: {method}")
        reply = retry(retries, ask)
        if reply.status == 401 and self.token.renew():
            reply = retry(retries, ask)
        if reply.status in (200, 204) or (reply.status == 404 and may_be_gone):
            return reply
        raise self.refusal(reply)

    def refusal(self, reply: Reply) -> CopyFailure:
        """Return what to raise for an answer that refuses."""
        need = {
            401: "Google does not accept the access token; is the job's service account enabled?",
            403: f"grant the job's service account {self.role} on the bucket.",
            404: "there is no such bucket, or this account may not see it; check the name.",
            412: "an object changed during the copy. Is another run writing there? Let one finish, then run again.",
        }.get(reply.status, reply.text[:200])
        return CopyFailure(ExitCode.BUCKET, f"{self.place} cannot be used (HTTP {reply.status}): {need}")


class ResumableUpload:
    """One upload. Nothing appears in the bucket before its last byte has arrived."""

    def __init__(self, bucket: DestinationBucket, name: str, size: int, url: str) -> None:
        self._bucket, self._name, self._size, self._url = bucket, name, size, url
        self._retries = bucket.retries(f"{name}: upload")
        self._stored = 0
        self.finished = False

    def put(self, start: int, end: int, body: Iterable[memoryview]) -> int:
        """Send bytes `start` to `end`; returns how many of the whole are stored now, fewer after an error."""
        span = f"bytes {start}-{end - 1}/{self._size}" if end > start else f"bytes */{self._size}"
        asking = False
        while True:
            try:
                headers = {**self._headers(), "Content-Range": span, "Content-Length": str(end - start)}
                reply = self._bucket.connections.call("PUT", self._url, headers, body)
                return self._stored_after(reply, asking)
            except TRANSIENT_ERRORS as error:
                self._bucket.connections.close()
                self._retries.wait_after(error)
            # From now on: ask how much has arrived.
            asking, span, end, start, body = True, f"bytes */{self._size}", 0, 0, ()

    def cancel(self) -> None:
        """Abandon the upload. Where that fails, Cloud Storage forgets it by itself; it never becomes an object."""
        try:
            self._bucket.connections.close()
            self._bucket.connections.call("DELETE", self._url, self._headers())
        except (CopyFailure, *TRANSIENT_ERRORS):
            pass

    def _stored_after(self, reply: Reply, asking: bool) -> int:
        """Return how many bytes are stored, after the answer to a chunk or, if `asking`, to the question for them."""
        if reply.status in (200, 201):
            self.finished = True
            return self._size
        if reply.status == 308:
            held = reply.headers.get("range", "")
            stored = int(held.rpartition("-")[2]) + 1 if held else 0
            if stored < self._stored:
                raise UploadLost
            if stored > self._stored:
                self._retries.progressed()
            elif not asking:
                raise TransientError("the bucket took none of it")
            self._stored = stored
            return stored
        if reply.status in (404, 410, 499):
            raise UploadLost
        if reply.status == 401 and self._bucket.token.renew():
            raise TransientError("the access token had expired")
        raise self._bucket.refusal(reply)

    def _headers(self) -> dict[str, str]:
        # The upload's address is a credential by itself; the token only goes along to the endpoint that it is for.
        return self._bucket.token.headers() if origin(self._url) == self._bucket.origin else {}
