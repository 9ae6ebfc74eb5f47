"""Ports for servers that a test starts later, kept from everybody else until then."""

from __future__ import annotations

import socket


class ReservedPort:
    """A port that nobody else is given at any address, and that a server with SO_REUSEADDR can listen at.

    Its own socket is bound and never listens: a connection is refused while there is no server. A port that was merely
    found free goes to whoever is quicker, and each connection of a test beside this one takes one, too.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("", 0))
        self.number = int(self._socket.getsockname()[1])

    def __enter__(self) -> int:
        return self.number

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()
