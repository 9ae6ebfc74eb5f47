"""Listening on loopback, from the first request to the end of the last answer."""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from aiohttp import web

from infra.errors import Gemma4Error
from infra.serving.local_proxy.forwarding import LARGEST_REQUEST, MADE_BY_CLIENTS, Forwarder
from infra.serving.local_proxy.fresh_token import FreshToken

HOST = "127.0.0.1"
GRACE_S = 10.0
"""How long answers that are being written may go on after Ctrl-C."""
CONNECT_S = 10.0
SILENCE_S = 3600.0
"""An answer that is not streamed is silent until it is whole; Cloud Run ends a request after an hour."""
IDLE_S = 4.0
"""An idle connection to the server is kept for less long than vLLM does (5 s): a request on one that has just been closed
would be lost, and may not be sent twice."""
_LAST_WORDS_S = 1.0
"""To tell the readers of streams that they end."""


@dataclass(frozen=True)
class RunningProxy:
    """A proxy that takes requests."""

    port: int
    forwarder: Forwarder

    @property
    def url(self) -> str:
        """What an OpenAI client takes as its base URL."""
        return f"http://{HOST}:{self.port}/v1"


@asynccontextmanager
async def running(
    upstream: str,
    *,
    token: FreshToken | None = None,
    port: int = 0,
    failed: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[RunningProxy]:
    """Serve `upstream` on loopback while the block runs; port 0 is any that is free. `failed` is told in a line what went
    wrong with a request or with making a token. Raises Gemma4Error where the port cannot be listened on, or no token made."""
    if token is not None:
        await token.get()  # who cannot make one learns it now
    timeout = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_S),
        timeout=timeout,
        auto_decompress=False,
        skip_auto_headers=MADE_BY_CLIENTS,
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as http:
        forwarder = Forwarder(upstream, http=http, token=token, failed=failed)
        app = web.Application(client_max_size=LARGEST_REQUEST)
        app.router.add_route("*", "/{path:.*}", forwarder.handle)
        # Without cancellation the server would go on writing an answer whose reader has gone.
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, auto_decompress=False, shutdown_timeout=_LAST_WORDS_S
        )
        await runner.setup()
        renewal = asyncio.create_task(token.keep_fresh(failed)) if token else None
        try:
            yield RunningProxy(await _listening(runner, port), forwarder)
        finally:
            if renewal:
                renewal.cancel()
            await runner.cleanup()


async def serve_until_told(
    upstream: str,
    *,
    token: FreshToken | None,
    port: int,
    began: Callable[[RunningProxy], None],
    said: Callable[[str], None],
) -> int:
    """Serve until SIGINT or SIGTERM, then let answers that are being written end within GRACE_S; a second signal cuts them
    short. Returns how many requests were answered."""
    told, at_once = asyncio.Event(), asyncio.Event()

    def stop() -> None:
        (at_once if told.is_set() else told).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    async with running(upstream, token=token, port=port, failed=said) as proxy:
        began(proxy)
        await told.wait()
        await wound_up(proxy.forwarder, at_once, said=said)
        return proxy.forwarder.answered


async def wound_up(
    forwarder: Forwarder, at_once: asyncio.Event, *, said: Callable[[str], None], grace_s: float = GRACE_S
) -> None:
    """Take no more requests, and return when those that run have ended, of themselves or told so after `grace_s`."""
    forwarder.stopping = True
    if not forwarder.running:
        return
    said(f"{len(forwarder.running)} still being answered: waiting up to {grace_s:.0f} s; Ctrl-C again ends them now")
    hurry = asyncio.create_task(at_once.wait())
    ended = asyncio.create_task(forwarder.idle.wait())
    await asyncio.wait({hurry, ended}, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
    for task in set(forwarder.running):
        task.cancel()
    await asyncio.wait({ended}, timeout=_LAST_WORDS_S)
    hurry.cancel()
    ended.cancel()


async def _listening(runner: web.AppRunner, port: int) -> int:
    """Return the port that is listened on."""
    site = web.TCPSite(runner, HOST, port)
    try:
        await site.start()
    except OSError as error:
        in_use = error.errno == errno.EADDRINUSE
        why = "something else listens there" if in_use else (error.strerror or str(error))
        raise Gemma4Error(
            f"port {port} of {HOST} cannot be used: {why}. Choose another one, e.g. --port {port + 1 if in_use else 8000}."
        ) from None
    return int(runner.addresses[0][1])
