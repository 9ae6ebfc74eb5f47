"""One request: sent on with the token, its answer handed back piece by piece as it comes.

Bodies pass as they are, compressed ones too. A request is sent a second time only where the service refused its token,
which it does before it reads the request, and before anything of an answer has left.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from typing import cast

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from infra.errors import Gemma4Error
from infra.serving.local_proxy.callers import stranger
from infra.serving.local_proxy.fresh_token import FreshToken
from infra.serving.local_proxy.proxy_errors import error_answer, last_event
from infra.serving.server_errors import refused

LARGEST_REQUEST = 64 * 2**20
"""Bytes; Cloud Run takes 32 MiB over HTTP/1, other servers more."""
LARGEST_PAGE = 2**16
"""Bytes that are read of a page which stands for an error."""
MADE_BY_CLIENTS = frozenset({"Accept", "Accept-Encoding", "Content-Type", "User-Agent"})
"""Headers that the HTTP library would add where the client sent none."""

_OF_ONE_CONNECTION = frozenset(
    [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ]
)
# The client's own Authorization is for nobody here, often a placeholder; the token takes its place.
_NOT_SENT = _OF_ONE_CONNECTION | frozenset(
    ["authorization", "x-serverless-authorization", "host", "content-length", "expect", "cookie"]
)
_NOT_HANDED_BACK = _OF_ONE_CONNECTION | frozenset(("set-cookie", "alt-svc"))  # about the service's own address


class Forwarder:
    """Sends requests on to `upstream`, a URL without a path of OpenAI's API. `failed` is told of each request that got no
    whole answer, in a line."""

    def __init__(
        self,
        upstream: str,
        *,
        http: aiohttp.ClientSession,
        token: FreshToken | None = None,
        failed: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._upstream, self._token, self._http, self._failed = upstream.rstrip("/"), token, http, failed
        self.running: set[asyncio.Task[object]] = set()
        """Tasks of the requests that are being answered."""
        self.idle = asyncio.Event()
        """Set while none is."""
        self.idle.set()
        self.stopping = False
        self.answered = 0
        """How many requests the server answered, in whatever way."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Return the server's answer, or an error in OpenAI's form."""
        if why := stranger(request.headers.get("Host"), request.headers.get("Origin")):
            return error_answer(403, why)
        if not request.raw_path.startswith("/"):
            return error_answer(400, "this proxy serves one endpoint only: ask for a path, e.g. /v1/models")
        if self.stopping:
            return error_answer(503, "the proxy is being stopped")
        task = cast("asyncio.Task[object]", asyncio.current_task())
        self.running.add(task)
        self.idle.clear()
        try:
            return await self._answer(request, await request.read())
        except web.HTTPRequestEntityTooLarge:
            return error_answer(
                413, f"the request is larger than {LARGEST_REQUEST >> 20} MiB, the most that is sent on"
            )
        except _NoAnswer as error:
            self._failed(f"{request.method} {request.path}: {error}")
            return error_answer(error.status, str(error))
        finally:
            self.running.discard(task)
            if not self.running:
                self.idle.set()

    async def _answer(self, request: web.Request, body: bytes) -> web.StreamResponse:
        token = await _made(self._token.get()) if self._token else ""
        answer = await self._sent(request, body, token)
        try:
            if answer.status == 401 and self._token:
                other = await _made(self._token.after_refusal(token))
                if other != token:
                    answer.close()
                    answer = await self._sent(request, body, other)
            if answer.status >= 400 and request.method != "HEAD" and "json" not in answer.content_type:
                return await self._in_openai_form(request, answer, token_sent=bool(token))
            return await self._handed_back(request, answer)
        finally:
            answer.close()  # of an answer that was read to its end, the connection has gone back to the others by then

    async def _sent(self, request: web.Request, body: bytes, token: str) -> aiohttp.ClientResponse:
        """Return the head of the server's answer. Raises _NoAnswer."""
        headers = CIMultiDict((name, value) for name, value in request.headers.items() if name.lower() not in _NOT_SENT)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        url = URL(self._upstream + request.raw_path, encoded=True)
        try:
            return await self._http.request(
                request.method, url, data=body or None, headers=headers, allow_redirects=False
            )
        except aiohttp.ClientConnectorDNSError:
            raise _NoAnswer(
                502, f"the host name of {self._upstream} is unknown here; is this machine online?"
            ) from None
        except aiohttp.ClientConnectorError as error:
            why = error.os_error.strerror or type(error.os_error).__name__
            raise _NoAnswer(
                502, f"no connection to {self._upstream} ({why}): nothing listens there, or not yet"
            ) from None
        except TimeoutError:
            raise _NoAnswer(504, f"{self._upstream} did not answer in time") from None
        except (aiohttp.ClientError, OSError):
            words = f"{self._upstream} closed the connection before it answered; whether it did the work is not known"
            raise _NoAnswer(502, words) from None

    async def _in_openai_form(
        self, request: web.Request, answer: aiohttp.ClientResponse, *, token_sent: bool
    ) -> web.StreamResponse:
        """Return an error of the service's front end, which is a page or a word, as OpenAI clients read errors."""
        self.answered += 1
        try:
            page = await answer.content.read(LARGEST_PAGE)
        except (aiohttp.ClientError, OSError, TimeoutError):
            raise _broke_off(answer) from None
        error = refused(
            answer.status,
            _text(page, answer.headers.get("Content-Encoding", "")),
            f"{request.method} {self._upstream}{request.path}",
            audience=str(URL(self._upstream).origin()),
            token_sent=token_sent,
        )
        made = error_answer(answer.status, str(error))
        if "Retry-After" in answer.headers:
            made.headers["Retry-After"] = answer.headers["Retry-After"]
        return made

    async def _handed_back(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        """Hand back the answer while it comes. One that breaks off ends with an event that says so, or, where it is no
        stream of events, with the connection."""
        kept = ((name, value) for name, value in answer.headers.items() if name.lower() not in _NOT_HANDED_BACK)
        out = web.StreamResponse(status=answer.status, reason=answer.reason, headers=CIMultiDict(kept))
        await out.prepare(request)
        self.answered += 1
        try:
            while piece := await answer.content.readany():  # every token of every stream passes here
                await out.write(piece)
            await out.write_eof()
        except (aiohttp.ClientError, OSError, TimeoutError):
            if request.transport is None or request.transport.is_closing():
                raise  # the client has gone
            error = _broke_off(answer)
            self._failed(f"{request.method} {request.path}: {error}")
            await self._end_early(request, answer, out, error)
        except asyncio.CancelledError:
            if not self.stopping:
                raise  # the client has gone, and the server may stop its work
            await self._end_early(
                request, answer, out, _NoAnswer(503, "the proxy was stopped before this answer ended")
            )
        return out

    async def _end_early(
        self, request: web.Request, answer: aiohttp.ClientResponse, out: web.StreamResponse, error: _NoAnswer
    ) -> None:
        if answer.content_type == "text/event-stream":
            await out.write(last_event(error.status, str(error)))
            await out.write_eof()
            out.force_close()
        elif request.transport is not None:
            request.transport.abort()


class _NoAnswer(Exception):
    """The server gave no answer, or not the whole of it. `status` is what the client gets."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def _made(token: Awaitable[str]) -> str:
    try:
        return await token
    except Gemma4Error as error:
        raise _NoAnswer(401, str(error)) from None


def _broke_off(answer: aiohttp.ClientResponse) -> _NoAnswer:
    return _NoAnswer(502, f"{answer.url.host} broke off in the middle of its answer")


def _text(page: bytes, encoding: str) -> str:
    if encoding in ("gzip", "deflate"):
        try:
            page = zlib.decompressobj(47).decompress(page, 10 * LARGEST_PAGE)
        except zlib.error:
            return ""
    return page.decode(errors="replace") if encoding in ("", "gzip", "deflate", "identity") else ""
