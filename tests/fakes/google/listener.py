"""HTTP in front of the fake: a thread a connection, keep-alive, chunked bodies as the provider's uploads send them."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.fakes.google.wire import Request, Response, fingerprint


class Listener(ThreadingHTTPServer):
    """Hands every request to `handle`, on 127.0.0.1; an answer of None cuts the connection."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, handle: Callable[[Request], Response | None]) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.handle = handle


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one segment: no wait for a delayed acknowledgement
    server: Listener

    def answer(self) -> None:
        response = self.server.handle(self._request())
        if response is None:
            self.close_connection = True
            return
        payload = response.payload()
        self.send_response(response.status)
        for name, value in ({"Content-Type": "application/json; charset=UTF-8"} | dict(response.headers)).items():
            self.send_header(name, value)
        if response.status != 204:
            self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        if response.status != 204:
            self.wfile.write(payload)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Quiet: `requests` is the log."""

    def _request(self) -> Request:
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        bearer = headers.pop("authorization", "").removeprefix("Bearer ").strip()
        return Request(
            method=self.command,
            path=parts.path,
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            headers=headers,
            body=self._body(headers),
            host=headers.get("host", ""),
            token=fingerprint(bearer) if bearer else "",
        )

    def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(headers.get("content-length") or 0))
        body = bytearray()
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return bytes(body)
