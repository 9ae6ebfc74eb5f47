"""Fake members behind a gateway: machines with an address each, a server and a supervisor that says whether it is ready.

They have one pair of ports, as machines in a subnet do, from 127.0.0.2 on.
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

from tests.fakes.ports import ReservedPort

PATIENCE_S = 20
"""After this much nothing will come any more; no test that passes waits for it."""
ADDRESSES = ("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")


class FakeMember:
    """A server that knows its name, streams when told, says whether it is ready, and dies like a machine that is switched
    off. Its process is this one: nothing that it answers waits for anything but the test."""

    def __init__(self, name: str, address: str, port: int, ready_port: int) -> None:
        self.name, self.address, self.port, self.ready_port = name, address, port, ready_port
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
        self.left = threading.Event()
        """Set when a stream could not be written, because whoever asked for it had gone."""
        self.health = 200
        self.ready = True
        self.answers_for = name
        """The name by which it is ready: another one answers 404."""
        self._listeners: list[_Listener] = []

    def start(self) -> None:
        """Listen, as if nothing had ever been asked. A second call only forgets."""
        self.seen, self.chunk = [], threading.Semaphore(0)
        self.arrived, self.received = queue.Queue(), queue.Queue()
        self.gate.set()
        self.left.clear()
        self.health, self.ready, self.answers_for = 200, True, self.name
        if not self._listeners:
            self._listeners = [_Listener(self, self.port, _Exchange), _Listener(self, self.ready_port, _Readiness)]

    @property
    def connections(self) -> int:
        """How many there have been to the server since it started to listen."""
        return len(self._listeners[0].connections)

    def kill(self) -> None:
        """Every connection ends where it stands, and new ones are refused. A second call does nothing."""
        for listener in self._listeners:
            listener.cut()
        self._listeners = []


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, member: FakeMember, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__((member.address, port), handler)
        self.member = member
        self.connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, peer = super().get_request()
        self.connections.append(connection)
        return connection, peer

    def cut(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()
        for connection in self.connections:
            with suppress(OSError):  # it may have ended
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, *_: object) -> None:
        """Quiet: clients and servers are cut off on purpose."""


class _Readiness(BaseHTTPRequestHandler):
    server: _Listener

    def do_GET(self) -> None:
        member = self.server.member
        known = self.path == f"/ready/{member.answers_for}"
        self.send_response((200 if member.ready else 503) if known else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet: there is one a second."""


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listener

    def do_GET(self) -> None:
        self._note()
        if self.path == "/health":
            return self._reply(self.server.member.health, {"name": self.server.member.name})
        return self._reply(200, {"data": [{"id": self.server.member.name}], "target": self.path})

    def do_POST(self) -> None:
        self._note()
        if not self.path.startswith("/v1/"):
            self.close_connection = True  # and what comes of the body is answered by a reset, as from vLLM
            return self._reply(404, {"detail": "Not Found"})
        body = bytearray()
        while missing_bytes := int(self.headers["Content-Length"]) - len(body):
            piece = self.rfile.read1(missing_bytes)
            self.server.member.received.put(piece)
            body += piece
        if body.startswith(b"{") and json.loads(body).get("stream"):
            return self._stream()
        assert self.server.member.gate.wait(PATIENCE_S)
        return self._reply(200, {"member": self.server.member.name})

    def _note(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.member.seen.append({**headers, ":method": self.command, ":target": self.path})
        self.server.member.arrived.put(self.path)

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
            assert self.server.member.chunk.acquire(timeout=PATIENCE_S)
            line = f"data: {event}\n\n".encode()
            try:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line) if chunked else line)
            except OSError:
                self.server.member.left.set()
                raise
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _close_if_asked(self) -> None:
        if self.close_connection:
            self.send_header("Connection", "close")  # as vLLM's HTTP server does

    def log_message(self, *_: object) -> None:
        """Quiet: `seen` is the log."""


@contextmanager
def two_members(first: str, second: str) -> Iterator[tuple[FakeMember, FakeMember]]:
    """Two machines of those names."""
    with members_called(first, second) as (one, two):
        yield one, two


@contextmanager
def members_called(*names: str) -> Iterator[tuple[FakeMember, ...]]:
    """Machines of those names, up to four, on one pair of ports; nothing listens on these ports at 127.0.0.1."""
    with ReservedPort() as port, ReservedPort() as ready_port:
        placed = zip(names, ADDRESSES, strict=False)
        members = tuple(FakeMember(name, address, port, ready_port) for name, address in placed)
        try:
            for member in members:
                member.start()
            yield members
        finally:
            for member in members:
                member.kill()
