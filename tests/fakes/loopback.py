"""A small HTTP server on 127.0.0.1 that writes down every request: what the fakes of the weights copy stand on.

Unlike the fake Google next door it hands over the connection before the body has been read, so that a fake can stop in
the middle of a body, in either direction.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass(frozen=True)
class Seen:
    """One request. Header names are in lower case; `target` is the path with its query, as it came."""

    method: str
    target: str
    headers: Mapping[str, str]

    @property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    @property
    def bearer(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")


class Loopback(ThreadingHTTPServer):
    """Serves from construction on until `close`; `answer` runs on a thread of its own for each connection."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64  # a connection that is dropped here comes back a second later

    def __init__(self, answer: Callable[[Exchange], None]) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.answer = answer
        self.seen: list[Seen] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, *_: object) -> None:
        """Quiet: clients of these fakes are killed and cut off on purpose."""


class Exchange(BaseHTTPRequestHandler):
    """One request and the means to answer it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or every body waits for the acknowledgement of its headers
    server: Loopback
    seen: Seen

    def carry_out(self) -> None:
        self.seen = Seen(self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
        self.server.seen.append(self.seen)
        self.server.answer(self)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = carry_out

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}

    def json(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"null")

    def begin(self, status: int, length: int, headers: Mapping[str, str] | None = None) -> None:
        """Status and headers; the caller writes `length` bytes to `wfile`, or cuts."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def reply(self, status: int, body: object = b"", headers: Mapping[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.begin(status, len(data), headers)
        self.wfile.write(data)

    def cut(self) -> None:
        """End the connection in the middle of whatever it is doing."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None:
        """Quiet: `seen` is the log."""
