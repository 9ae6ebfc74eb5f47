"""A service behind Google's front end, for what stands before it: it takes tokens until they end or are revoked, counts what
it refused, and streams in steps that a test allows one by one."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

REFUSED_PAGE = (
    "<html><head>\n<title>401 Unauthorized</title>\n</head>\n<body><h1>Error: Unauthorized</h1></body></html>\n"
)


def token_until(expires: float, name: str = "") -> str:
    """Return a token of Google's form that ends then, unsigned."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires, "jti": name}).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJub25lIn0.{claims}.unsigned"


class GuardedService:
    """`takes` says which token is good. Everything that arrives is kept in `seen`."""

    def __init__(self, takes: Callable[[str], bool] = lambda _: True) -> None:
        self.takes = takes
        self.refused = self.served = 0
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        """Method, path with query, headers by lower-case name, body."""
        self.left = asyncio.Event()
        """Set when a client went before its answer ended."""
        self.step = asyncio.Semaphore(0)
        """Released once for each event of /v1/stream; `cut` ends the connection there."""
        self.cut = False
        self.url = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[GuardedService]:
        """Serve on any free port."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._receive)
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, auto_decompress=False, shutdown_timeout=0.1
        )
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _receive(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append((request.method, request.raw_path, headers, await request.read()))
        if not self.takes(headers.get("authorization", "").removeprefix("Bearer ")):
            self.refused += 1
            return web.Response(status=401, text=REFUSED_PAGE, content_type="text/html")
        self.served += 1
        if request.path == "/v1/stream":
            return await self._stream(request)
        if request.path == "/v1/page":
            return web.Response(status=503, text="<h1>Service Unavailable</h1>", content_type="text/html")
        if request.path == "/v1/cut":
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"served": self.served})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        try:
            for number in range(1_000_000):
                await self.step.acquire()
                if self.cut:
                    assert request.transport is not None
                    request.transport.abort()
                    return answer
                await answer.write(f"data: {number}\n\n".encode())
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise
        return answer
