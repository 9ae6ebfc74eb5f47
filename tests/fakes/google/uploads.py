"""`/upload/storage/v1`: objects in one request (media, multipart) or piece by piece (resumable)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tests.fakes.google.product import Product, required, route
from tests.fakes.google.storage import Storage
from tests.fakes.google.wire import ErrorAnswer, Request, Response, not_found
from tests.fakes.google.world import World

CHUNK = 256 * 1024  # every piece but the last is a multiple of this, or real Cloud Storage refuses it


@dataclass
class Session:
    bucket: str
    name: str
    metadata: dict[str, Any]
    received: bytearray = field(default_factory=bytearray)


class Uploads(Product):
    """Resumable sessions vanish when they finish; `leftovers` names those that never did."""

    prefix: ClassVar[str] = "upload"

    def __init__(self, world: World, storage: Storage) -> None:
        super().__init__(world)
        self.storage = storage
        self.sessions: dict[str, Session] = {}

    @route("POST", "b/{bucket}/o")
    def begin(self, request: Request, bucket: str) -> Any:
        self.storage.known(bucket)
        kind = request.query.get("uploadType", "media")
        if kind == "resumable":
            return self._resumable(request, bucket)
        metadata, content = ({}, request.body) if kind == "media" else _parts(request)
        name = required(request.query.get("name") or metadata.get("name"), "name")
        self.storage.check_generation(request, bucket, name)
        return self.storage.store(bucket, name, content, metadata)

    @route("PUT", "b/{bucket}/o")
    def piece(self, request: Request, bucket: str) -> Any:
        upload_id = request.query.get("upload_id", "")
        session = self.sessions.get(upload_id)
        if session is None:
            raise not_found(f"upload {upload_id}")
        first, total = _range(request.headers.get("content-range", ""), len(request.body))
        if request.body and first != len(session.received):
            # Real Cloud Storage keeps what it has; the client asks and goes on from there.
            return _progress(session)
        session.received += request.body
        if total is not None and len(session.received) >= total:
            del self.sessions[upload_id]
            return self.storage.store(session.bucket, session.name, bytes(session.received), session.metadata)
        if request.body and len(request.body) % CHUNK:
            raise ErrorAnswer(400, f"Chunks must be a multiple of {CHUNK} bytes.")
        return _progress(session)

    @route("DELETE", "b/{bucket}/o")
    def cancel(self, request: Request, bucket: str) -> Any:
        self.sessions.pop(request.query.get("upload_id", ""), None)
        return Response(b"", status=499)

    def leftovers(self) -> list[str]:
        return []

    def _resumable(self, request: Request, bucket: str) -> Response:
        metadata = request.json()
        name = required(request.query.get("name") or metadata.get("name"), "name")
        self.storage.check_generation(request, bucket, name)
        upload_id = f"upload-{self.world.serial()}"
        self.sessions[upload_id] = Session(bucket, name, metadata)
        target = f"http://{request.host}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={upload_id}"
        return Response(b"", headers={"Location": target, "X-GUploader-UploadID": upload_id})


def _parts(request: Request) -> tuple[dict[str, Any], bytes]:
    """The two parts of a multipart/related body: JSON metadata, then the content."""
    boundary = re.search(r'boundary="?([^";]+)', request.headers.get("content-type", ""))
    parts = request.body.split(b"--" + boundary[1].encode()) if boundary else []
    if len(parts) != 4:  # nothing, metadata, content, the closing dashes
        raise ErrorAnswer(400, "A multipart upload has two parts")
    metadata, content = (part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n") for part in parts[1:3])
    return json.loads(metadata), content


def _range(header: str, length: int) -> tuple[int, int | None]:
    """First byte and total of a Content-Range; the total is None while the client does not know it."""
    if not header:
        return 0, length
    match = re.fullmatch(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)", header)
    if not match:
        raise ErrorAnswer(400, f"Bad Content-Range: {header}")
    return int(match[1] or 0), None if match[3] == "*" else int(match[3])


def _progress(session: Session) -> Response:
    headers = {"Range": f"bytes=0-{len(session.received) - 1}"} if session.received else {}
    return Response(b"", status=308, headers=headers)
