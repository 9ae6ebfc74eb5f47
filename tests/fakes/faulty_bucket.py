"""Cloud Storage's JSON API, as far as the weights copy goes, and the metadata server that hands out its tokens.

The fake Google next door has the whole API for the gcp provider; this one breaks off in the middle of a body, keeps
part of a chunk, forgets sessions and loses answers, and can hash what arrives instead of keeping it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.loopback import Exchange, Loopback, Seen

QUANTUM = 256 * 1024
PIECE = 1024 * 1024


@dataclass
class Object:
    """`data` stays empty, and `md5` that of nothing, where the fake keeps no data."""

    data: bytes
    size: int
    sha256: str
    md5: str
    generation: str
    metadata: Mapping[str, str]

    def row(self, name: str) -> dict[str, Any]:
        md5 = base64.b64encode(bytes.fromhex(self.md5)).decode()
        row = {"kind": "storage#object", "name": name, "size": str(self.size), "generation": self.generation}
        return {**row, "md5Hash": md5, **({"metadata": dict(self.metadata)} if self.metadata else {})}


@dataclass
class Upload:
    """A resumable session. `state` is open, finished, cancelled or lost."""

    name: str
    metadata: Mapping[str, str]
    if_generation: str
    received: int = 0
    data: bytearray = field(default_factory=bytearray)
    sha256: Any = field(default_factory=hashlib.sha256)
    md5: Any = field(default_factory=lambda: hashlib.md5(usedforsecurity=False))
    state: str = "open"


@dataclass(frozen=True)
class BucketTrouble:
    """What happens to one request that carries content.

    `takes` bytes of it are stored first (None: all). Then the answer is `status`, or none at all where that is 0.
    """

    status: int = 0
    takes: int | None = 0
    headers: Mapping[str, str] = field(default_factory=dict)


class FakeStorage:
    """One bucket. `on_finish` is called with the name of each object as it appears."""

    def __init__(self, *, bucket: str = "weights", keeps_data: bool = True) -> None:
        self.bucket, self.keeps_data = bucket, keeps_data
        self.objects: dict[str, Object] = {}
        self.uploads: dict[str, Upload] = {}
        self.issued: list[str] = []
        self.valid: set[str] = set()
        self.refuses_uploads = 0
        self.cuts_lists = 0
        """How many of the next lists end in the middle, with the connection."""
        self.on_finish: Callable[[str], None] = lambda name: None
        self._troubles: dict[str, list[BucketTrouble]] = {}
        self._server, self._metadata = Loopback(self._answer), Loopback(self._answer_metadata)
        self.url = self._server.url
        self.metadata_host = self._metadata.url.removeprefix("http://")

    def close(self) -> None:
        self._server.close()
        self._metadata.close()

    @property
    def requests(self) -> list[Seen]:
        return self._server.seen

    def trouble(self, name: str, *troubles: BucketTrouble) -> None:
        """Lay troubles in the way of the next requests that carry content of `name`, one each."""
        self._troubles.setdefault(name, []).extend(troubles)

    def put(self, name: str, data: bytes, metadata: Mapping[str, str] | None = None) -> None:
        """Place an object by hand."""
        upload = Upload(name, metadata or {}, "")
        self._take(upload, data)
        self._finish(upload)

    def uploads_of(self, name: str) -> list[Upload]:
        return [upload for upload in self.uploads.values() if upload.name == name]

    def _answer(self, exchange: Exchange) -> None:
        path, method = exchange.seen.path, exchange.seen.method
        if path.startswith("/session/"):
            return self._session(exchange, self.uploads[path])
        if exchange.seen.bearer not in self.valid:
            return exchange.reply(401, {"error": {"code": 401, "message": "Invalid Credentials"}})
        match = re.fullmatch(r"(/upload)?/storage/v1/b/([^/]+)/o(?:/(.+))?", path)
        if not match or match[2] != self.bucket:
            return exchange.reply(404, {"error": {"code": 404, "message": "The specified bucket does not exist."}})
        if method == "POST" and match[1]:
            return self._start(exchange)
        if method == "GET" and not match[3]:
            return self._list(exchange)
        return self._object(exchange, match[3])

    def _list(self, exchange: Exchange) -> None:
        """List two objects a page, so that a client that reads only the first page fails."""
        names = sorted(name for name in self.objects if name.startswith(exchange.query.get("prefix", "")))
        start = int(exchange.query.get("pageToken", 0))
        answer: dict[str, Any] = {"kind": "storage#objects"}
        if names:
            answer["items"] = [self.objects[name].row(name) for name in names[start : start + 2]]
        if start + 2 < len(names):
            answer["nextPageToken"] = str(start + 2)
        if self.cuts_lists:
            self.cuts_lists -= 1
            exchange.begin(200, 4096)
            exchange.wfile.write(json.dumps(answer).encode()[:20])
            return exchange.cut()
        return exchange.reply(200, answer)

    def _object(self, exchange: Exchange, name: str) -> None:
        if name not in self.objects:
            exchange.reply(404, {"error": {"code": 404, "message": f"No such object: {self.bucket}/{name}"}})
        elif exchange.seen.method == "DELETE":
            del self.objects[name]
            exchange.reply(204)
        elif exchange.query.get("alt") == "media":
            exchange.reply(200, self.objects[name].data)
        else:
            exchange.reply(200, self.objects[name].row(name))

    def _start(self, exchange: Exchange) -> None:
        body = exchange.json() or {}
        if self.refuses_uploads:
            message = "storage.objects.create denied"
            return exchange.reply(self.refuses_uploads, {"error": {"code": self.refuses_uploads, "message": message}})
        name = exchange.query.get("name") or body["name"]
        path = f"/session/{len(self.uploads)}"
        self.uploads[path] = Upload(name, body.get("metadata", {}), exchange.query.get("ifGenerationMatch", ""))
        return exchange.reply(200, headers={"Location": self.url + path})

    def _session(self, exchange: Exchange, upload: Upload) -> None:
        if exchange.seen.method == "DELETE":
            upload.state = "cancelled"
            return exchange.reply(499)
        if upload.state in ("cancelled", "lost"):
            return exchange.reply(410)
        match = re.fullmatch(r"bytes (?:(\d+)-(\d+)|\*)/(\d+)", exchange.seen.headers["content-range"])
        if not match or upload.state == "finished":
            return exchange.reply(200 if match else 400, {"name": upload.name})
        length, total = int(exchange.seen.headers["content-length"]), int(match[3])
        if match[1] is not None:
            if int(match[1]) != upload.received or length != int(match[2]) + 1 - int(match[1]):
                return exchange.reply(400, b"not where this upload stands")
            if length % QUANTUM and int(match[2]) + 1 < total:
                return exchange.reply(400, b"not a multiple of 256 KiB")
            if not self._receive(exchange, upload, length):
                return None
        return self._settle(exchange, upload, total)

    def _receive(self, exchange: Exchange, upload: Upload, length: int) -> bool:
        """Take content off the connection; false where trouble came in between and has been answered."""
        waiting = self._troubles.get(upload.name)
        trouble = waiting.pop(0) if waiting else None
        keep = length if trouble is None or trouble.takes is None else trouble.takes
        left = keep
        while left:
            piece = exchange.rfile.read(min(PIECE, left))
            if not piece:
                return False  # the client went away; what came stays
            self._take(upload, piece)
            left -= len(piece)
        if trouble is None:
            return True
        if trouble.status == 410:
            upload.state = "lost"
        if keep == length and "/" in exchange.seen.headers["content-range"]:
            total = int(exchange.seen.headers["content-range"].rpartition("/")[2])
            if upload.received == total:
                self._finish(upload)
        if trouble.status:
            exchange.reply(trouble.status, headers=trouble.headers)
        exchange.cut()
        return False

    def _settle(self, exchange: Exchange, upload: Upload, total: int) -> None:
        if upload.received < total:
            held = {"Range": f"bytes=0-{upload.received - 1}"} if upload.received else {}
            return exchange.reply(308, headers=held)
        if upload.if_generation and upload.if_generation != self._generation(upload.name):
            upload.state = "lost"
            return exchange.reply(412, {"error": {"code": 412, "message": "conditionNotMet"}})
        self._finish(upload)
        return exchange.reply(200, self.objects[upload.name].row(upload.name))

    def _take(self, upload: Upload, data: bytes) -> None:
        upload.received += len(data)
        upload.sha256.update(data)
        if self.keeps_data or upload.name.endswith(".json"):
            upload.md5.update(data)
            upload.data += data

    def _finish(self, upload: Upload) -> None:
        upload.state = "finished"
        sums = upload.sha256.hexdigest(), upload.md5.hexdigest()
        generation = str(int(self._generation(upload.name)) + 1)
        data = bytes(upload.data)
        self.objects[upload.name] = Object(data, upload.received, *sums, generation, upload.metadata)
        self.on_finish(upload.name)

    def _generation(self, name: str) -> str:
        return self.objects[name].generation if name in self.objects else "0"

    def _answer_metadata(self, exchange: Exchange) -> None:
        path = "/computeMetadata/v1/instance/service-accounts/default/token"
        if exchange.seen.path != path or exchange.seen.headers.get("metadata-flavor") != "Google":
            return exchange.reply(403)
        token = f"ya29.access-token-number-{len(self.issued)}"
        self.issued.append(token)
        self.valid.add(token)
        return exchange.reply(200, {"access_token": token, "expires_in": 3599, "token_type": "Bearer"})
