"""Two fake slices of a TPU stack: what the gateway stands before in tests.

They have addresses of their own and one port, as machines in a subnet do: 127.0.0.2, 127.0.0.3.
"""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE_S = 20
"""After this much nothing will come any more; no test that passes waits for it."""


class FakeSlice(ThreadingHTTPServer):
    """A server that knows its name, streams when told, and dies like a machine that is switched off."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, name: str, address: str, port: int) -> None:
        super().__init__((address, port), _Exchange)
        self.name, self.address, self.port = name, address, self.server_address[1]
        self.seen: list[Mapping[str, str]] = []
        """Headers of every request, names in lower case; `:method` and `:target` beside them."""
        self.arrived: queue.Queue[str] = queue.Queue()
        """One target for each request whose headers are here."""
        self.received: queue.Queue[bytes] = queue.Queue()
        """Bodies, as they come in."""
        self.chunk = threading.Semaphore(0)
        """Released once for each event that an open stream may send."""
        self.gate = threading.Event()
        """While it is clear, answers that are not streamed wait."""
        self.gate.set()
        self.health = 200
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, peer = super().get_request()
        self._connections.append(connection)
        return connection, peer

    @property
    def connections(self) -> int:
        """How many there have been."""
        return len(self._connections)

    def kill(self) -> None:
        """Every connection ends where it stands, and new ones are refused. A second call does nothing."""
        if not self._thread.is_alive():
            return
        self.shutdown()
        self._thread.join()
        self.server_close()
        for connection in self._connections:
            with suppress(OSError):  # it may have ended
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, *_: object) -> None:
        """Quiet: clients and servers are cut off on purpose."""


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeSlice

    def do_GET(self) -> None:
        self._note()
        if self.path == "/health":
            return self._reply(self.server.health, {})
        return self._reply(200, {"data": [{"id": self.server.name}], "target": self.path})

    def do_POST(self) -> None:
        self._note()
        if not self.path.startswith("/v1/"):
            self.close_connection = True  # and what comes of the body is answered by a reset, as from vLLM
            return self._reply(404, {"detail": "Not Found"})
        body = bytearray()
        while missing_bytes := int(self.headers["Content-Length"]) - len(body):
            piece = self.rfile.read1(missing_bytes)
            self.server.received.put(piece)
            body += piece
        if body.startswith(b"{") and json.loads(body).get("stream"):
            return self._stream()
        assert self.server.gate.wait(PATIENCE_S)
        return self._reply(200, {"slice": self.server.name})

    def _note(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.seen.append({**headers, ":method": self.command, ":target": self.path})
        self.server.arrived.put(self.path)

    def _reply(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self._close_if_asked()
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self) -> None:
        self.send_response(200)
        self._close_if_asked()
        self.send_header("Content-Type", "text/event-stream")
        chunked = self.request_version == "HTTP/1.1"
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in (*(str(number) for number in range(5)), "[DONE]"):
            assert self.server.chunk.acquire(timeout=PATIENCE_S)
            line = f"data: {event}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line) if chunked else line)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _close_if_asked(self) -> None:
        if self.close_connection:
            self.send_header("Connection", "close")  # as vLLM's HTTP server does

    def log_message(self, *_: object) -> None:
        """Quiet: `seen` is the log."""


@contextmanager
def two_slices() -> Iterator[tuple[FakeSlice, FakeSlice]]:
    """Blue and green, on one port."""
    blue, green = _pair()
    try:
        yield blue, green
    finally:
        blue.kill()
        green.kill()


def _pair() -> tuple[FakeSlice, FakeSlice]:
    for _ in range(20):
        blue = FakeSlice("blue", "127.0.0.2", 0)
        try:
            return blue, FakeSlice("green", "127.0.0.3", blue.port)
        except OSError:  # somebody has that port on the second address
            blue.kill()
    raise RuntimeError("no port is free on both 127.0.0.2 and 127.0.0.3")
