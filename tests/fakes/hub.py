"""A Hugging Face Hub of two servers: the Hub itself, and a CDN on another port to which LFS files are redirected."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.loopback import Exchange, Loopback, Seen

PIECE = 256 * 1024
COMMIT = "5e4d3c2b1a0f5e4d3c2b1a0f5e4d3c2b1a0f5e4d"


class Pattern:
    """Content of any size that takes no memory: one block over and over. Slices like bytes."""

    def __init__(self, size: int, block: bytes = bytes(range(256)) * 1024) -> None:
        self._size, self._block = size, block

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, wanted: slice) -> bytes:
        start, stop, _ = wanted.indices(self._size)
        first = start // len(self._block)
        blocks = self._block * (-(-stop // len(self._block)) - first)
        return blocks[start - first * len(self._block) :][: stop - start]


Content = bytes | Pattern


@dataclass
class HubFile:
    """`listed` is what the Hub says of it, `served` what it sends: they differ once a test has damaged it."""

    listed: Content
    lfs: bool
    served: Content = b""
    lost: bool = False

    def __post_init__(self) -> None:
        self.served = self.listed

    def digest(self) -> str:
        """SHA-256 of an LFS file, git's blob id of any other."""
        digest = hashlib.sha256() if self.lfs else hashlib.sha1(b"blob %d\0" % len(self.listed), usedforsecurity=False)
        for start in range(0, len(self.listed), PIECE):
            digest.update(self.listed[start : start + PIECE])
        return digest.hexdigest()

    def row(self, name: str) -> dict[str, Any]:
        size = len(self.listed)
        row: dict[str, Any] = {"rfilename": name, "size": size, "blobId": self.digest()}
        if self.lfs:
            row |= {"blobId": "0" * 40, "lfs": {"sha256": self.digest(), "size": size, "pointerSize": 134}}
        return row


@dataclass(frozen=True)
class HubTrouble:
    """What happens to one request for a file's content: a status, or the end of the connection after some bytes.

    With `hold` the connection stays open and silent instead, until the test calls `FakeHub.let_go`.
    """

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    after: int = 0
    hold: bool = False


class FakeHub:
    """One repository. `token` is the one that has accepted the licence, `other_token` is valid but has not."""

    token = "hf_AcceptedTheLicence000001"
    other_token = "hf_KnownButWithoutAccess0002"

    def __init__(self, files: Mapping[str, Content], *, repo: str = "google/gemma-4-tiny", gated: bool = False) -> None:
        self.repo, self.gated, self.branch = repo, gated, {"main": COMMIT}
        self.files = {name: HubFile(content, name.endswith(".safetensors")) for name, content in files.items()}
        self.ignores_range = False
        self.rows: list[dict[str, Any]] = []
        """What is listed beside the files, whatever it is."""
        self.listing_at = ""
        """Where a request for the list is redirected to."""
        self.files_at = ""
        """Where requests for the content of LFS files are redirected to, instead of the CDN."""
        self.padding = 0
        """Blanks at the end of the list, in bytes."""
        self._troubles: dict[str, list[HubTrouble]] = {}
        self._go = threading.Event()
        self._hub, self._cdn = Loopback(self._answer_hub), Loopback(self._answer_cdn)
        self.url = self._hub.url

    def close(self) -> None:
        self.let_go()
        self._hub.close()
        self._cdn.close()

    @property
    def hub_requests(self) -> list[Seen]:
        return self._hub.seen

    @property
    def cdn_requests(self) -> list[Seen]:
        return self._cdn.seen

    def reads(self, name: str) -> list[str]:
        """The Range headers of all requests for the content of a file, but for the one-byte access check."""
        where = self._cdn if self.files[name].lfs else self._hub
        ranges = [seen.headers.get("range", "") for seen in where.seen if seen.path.endswith(f"/{name}")]
        return [wanted for wanted in ranges if wanted != "bytes=0-0"]

    def trouble(self, name: str, *troubles: HubTrouble) -> None:
        """Lay troubles in the way of the next requests for the content of `name`, one each."""
        self._troubles.setdefault(name, []).extend(troubles)

    def let_go(self) -> None:
        self._go.set()

    def corrupt(self, name: str, at: int) -> None:
        """Flip one bit of what is served."""
        good = self.files[name].listed[:]
        self.files[name].served = good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]

    def truncate(self, name: str, size: int) -> None:
        self.files[name].served = self.files[name].listed[:size]

    def lose(self, name: str) -> None:
        """Go on listing a file that is no longer there."""
        self.files[name].lost = True

    def _answer_hub(self, exchange: Exchange) -> None:
        seen = exchange.seen
        listing = re.fullmatch(r"/api/models/(.+)/revision/([^/]+)", seen.path)
        resolve = re.fullmatch(r"/(.+?)/resolve/([^/]+)/(.+)", seen.path)
        match = listing or resolve
        if seen.bearer and seen.bearer not in (self.token, self.other_token):
            return exchange.reply(401, headers={"X-Error-Message": "Invalid credentials in Authorization header"})
        if not match or match[1] != self.repo:
            return exchange.reply(404 if seen.bearer else 401, headers={"X-Error-Code": "RepoNotFound"})
        commit = self.branch.get(match[2], match[2])
        if commit not in self.branch.values():
            return exchange.reply(404, headers={"X-Error-Code": "RevisionNotFound"})
        if listing:
            return self._list(exchange, commit)
        if self.gated and seen.bearer != self.token:
            return exchange.reply(403 if seen.bearer else 401, headers={"X-Error-Code": "GatedRepo"})
        return self._resolve(exchange, match[3])

    def _list(self, exchange: Exchange, commit: str) -> None:
        if self.listing_at:
            return exchange.reply(302, headers={"Location": self.listing_at})
        rows = [file.row(name) for name, file in self.files.items()] + self.rows
        listing = json.dumps({"id": self.repo, "sha": commit, "gated": self.gated, "siblings": rows}).encode()
        exchange.begin(200, len(listing) + self.padding)
        exchange.wfile.write(listing)
        for _ in range(self.padding // PIECE):
            exchange.wfile.write(b" " * PIECE)
        return None

    def _resolve(self, exchange: Exchange, name: str) -> None:
        file = self.files[name]
        if file.lost:
            exchange.reply(404, headers={"X-Error-Code": "EntryNotFound"})
        elif file.lfs:
            target = self.files_at or f"{self._cdn.url}/blobs/{name}?X-Amz-Signature=signed-address"
            exchange.reply(302, b"moved", {"Location": target, "X-Linked-Size": str(len(file.listed))})
        else:
            self._send(exchange, name)

    def _answer_cdn(self, exchange: Exchange) -> None:
        self._send(exchange, exchange.seen.path.removeprefix("/blobs/"))

    def _send(self, exchange: Exchange, name: str) -> None:
        content, wanted = self.files[name].served, exchange.seen.headers.get("range", "")
        waiting = self._troubles.get(name)
        trouble = waiting.pop(0) if waiting and wanted != "bytes=0-0" else None
        if trouble and trouble.status:
            return exchange.reply(trouble.status, headers=trouble.headers)
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted)
        start, stop, status, headers = 0, len(content), 200, {}
        if match and not self.ignores_range:
            start, stop = int(match[1]), min(len(content), int(match[2] or len(content)) + 1)
            if start >= len(content):
                return exchange.reply(416, headers={"Content-Range": f"bytes */{len(content)}"})
            status, headers = 206, {"Content-Range": f"bytes {start}-{stop - 1}/{len(content)}"}
        exchange.begin(status, stop - start, headers)
        end = min(stop, start + trouble.after) if trouble else stop
        for at in range(start, end, PIECE):
            exchange.wfile.write(content[at : min(at + PIECE, end)])
        if trouble:
            if trouble.hold:
                self._go.wait()
            exchange.cut()
        return None
