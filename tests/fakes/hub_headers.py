"""A Hugging Face Hub on loopback that serves checkpoints without weights, its files from another host as the real one does."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tests.fakes.checkpoints import FakeCheckpoint
from tests.fakes.loopback import Exchange, Loopback

COMMIT = "c0ffee" + "0" * 34
TOKEN = "hf_right"
_SENT = 1024**2
"""Bytes of a whole file that are sent before the connection ends."""


@dataclass
class HubOfHeaders:
    """Serves `checkpoints` by repository.

    `gated` ones are listed for everybody and read with TOKEN, `private` ones are not even listed without it. `status` answers
    every request so, `ranges` says whether ranges are honoured.
    """

    checkpoints: dict[str, FakeCheckpoint] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    private: set[str] = field(default_factory=set)
    status: int = 0
    ranges: bool = True
    moved_to: str = ""
    """Where files are redirected to; empty: to the second host."""

    def __post_init__(self) -> None:
        self.hub, self.cdn = Loopback(self._hub), Loopback(self._cdn)
        self.url = self.hub.url

    def close(self) -> None:
        self.hub.close()
        self.cdn.close()

    def _hub(self, exchange: Exchange) -> None:
        seen = exchange.seen
        listing = re.fullmatch(r"/api/models/(.+)/revision/([^/]+)", seen.path)
        resolve = re.fullmatch(r"/(.+?)/resolve/([^/]+)/(.+)", seen.path)
        match = listing or resolve
        if self.status:
            return exchange.reply(self.status)
        if seen.bearer and seen.bearer != TOKEN:
            return exchange.reply(401, headers={"X-Error-Message": "Invalid credentials"})
        hidden = match is not None and match[1] in self.private and seen.bearer != TOKEN
        if match is None or match[1] not in self.checkpoints or hidden:
            return exchange.reply(404 if seen.bearer else 401, headers={"X-Error-Code": "RepoNotFound"})
        if match[2] not in ("main", COMMIT):
            return exchange.reply(404, headers={"X-Error-Code": "RevisionNotFound"})
        name, one = match[1], self.checkpoints[match[1]]
        if listing:
            rows = [{"rfilename": file, "size": size} for file, size in one.sizes.items()]
            gated = "manual" if name in self.gated else False
            return exchange.reply(
                200, {"id": name, "sha": COMMIT, "gated": gated, "private": name in self.private, "siblings": rows}
            )
        if name in self.gated and seen.bearer != TOKEN:
            return exchange.reply(403 if seen.bearer else 401, headers={"X-Error-Code": "GatedRepo"})
        assert resolve is not None
        if resolve[3].endswith(".safetensors"):
            target = self.moved_to or f"{self.cdn.url}/{name}/{resolve[3]}"
            return exchange.reply(302, headers={"Location": target})
        return self._send(exchange, one, resolve[3])

    def _cdn(self, exchange: Exchange) -> None:
        owner, name, file = exchange.seen.path.lstrip("/").split("/", 2)
        self._send(exchange, self.checkpoints[f"{owner}/{name}"], file)

    def _send(self, exchange: Exchange, one: FakeCheckpoint, file: str) -> None:
        size = one.sizes[file]
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", exchange.seen.headers.get("range", ""))
        if not match or not self.ranges:
            exchange.begin(200, size)
            exchange.wfile.write(one.read(file, 0, min(size, _SENT)))
            return exchange.cut() if size > _SENT else None
        start, stop = int(match[1]), min(size, int(match[2]) + 1)
        exchange.begin(206, stop - start, {"Content-Range": f"bytes {start}-{stop - 1}/{size}"})
        exchange.wfile.write(one.read(file, start, stop - start))
        return None
