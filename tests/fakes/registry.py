"""A container registry on loopback that answers HEAD for manifests, to whoever has fetched its anonymous token."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.fakes.loopback import Exchange, Loopback

_TOKEN = "anonymous"


class FakeRegistry:
    """`images` maps `repository:reference`, a tag or a digest, to the digest that it names."""

    def __init__(self, images: Mapping[str, str]) -> None:
        self.images = dict(images)
        self.server = Loopback(self._answer)
        self.url = self.server.url

    def close(self) -> None:
        self.server.close()

    def _answer(self, exchange: Exchange) -> None:
        seen = exchange.seen
        if seen.path == "/token":
            return exchange.reply(200, {"token": _TOKEN})
        match = re.fullmatch(r"/v2/(.+)/manifests/([^/]+)", seen.path)
        if match is None:
            return exchange.reply(404)
        if seen.bearer != _TOKEN:
            challenge = f'Bearer realm="{self.url}/token",service="registry",scope="repository:{match[1]}:pull"'
            return exchange.reply(401, headers={"WWW-Authenticate": challenge})
        digest = self.images.get(f"{match[1]}:{match[2]}", "")
        return exchange.reply(200 if digest else 404, headers={"Docker-Content-Digest": digest} if digest else {})
