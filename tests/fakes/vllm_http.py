"""The wire of the fake vLLM: JSON and text with a length, streams in chunks, and connections that break."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


class Cut(Exception):
    """Raised in place of a reply: the connection ends without one."""


@dataclass(frozen=True)
class Reply:
    """A text, a JSON object, or the pieces of an event stream."""

    status: int
    body: str | Mapping[str, Any] | Iterator[str]


Receive = Callable[[str, str, Mapping[str, str], Any], Reply]


def server_at(port: int, receive: Receive) -> ThreadingHTTPServer:
    """`receive` gets method, path, headers by lower-case name and the parsed body. Not yet serving; 0 is any port."""

    class Handler(_Handler):
        def reply_to(self, method: str, path: str, body: Any) -> Reply:
            return receive(method, path, {name.lower(): value for name, value in self.headers.items()}, body)

    return _Server(("127.0.0.1", port), Handler)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """Quiet: clients go away in the middle on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for the acknowledgement of its head

    def do_GET(self) -> None:
        self._carry_out("GET", None)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self._carry_out("POST", json.loads(self.rfile.read(length) or b"null"))

    def reply_to(self, method: str, path: str, body: Any) -> Reply:
        raise NotImplementedError

    def _carry_out(self, method: str, body: Any) -> None:
        try:
            reply = self.reply_to(method, urlsplit(self.path).path, body)
        except Cut:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if isinstance(reply.body, str):
            self._whole(reply.status, reply.body, "text/plain")
        elif isinstance(reply.body, Mapping):
            self._whole(reply.status, json.dumps(reply.body), "application/json")
        else:
            self._chunks(reply.status, reply.body)

    def _whole(self, status: int, text: str, kind: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _chunks(self, status: int, pieces: Iterator[str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in itertools.chain(pieces, ("",)):
            data = piece.encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def log_message(self, *_: object) -> None:
        """Quiet: the fake keeps its own record."""
