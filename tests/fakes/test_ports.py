"""A reserved port belongs to the test that reserved it."""

from __future__ import annotations

import socket

import pytest

from tests.fakes.ports import ReservedPort


class TestAReservedPort:
    @pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", ""])
    def test_a_reserved_port_is_for_a_server_that_may_reuse_it(self, address: str) -> None:
        with ReservedPort() as port:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((address or "127.0.0.1", port), timeout=5)
            with socket.create_server((address, port)):
                socket.create_connection((address or "127.0.0.1", port), timeout=5).close()

    def test_a_reserved_port_is_given_to_nobody_who_asks_for_any(self) -> None:
        with ReservedPort() as port, socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))  # as a connection that leaves from here binds its own end

    def test_a_reserved_port_is_free_afterwards(self) -> None:
        with ReservedPort() as port:
            pass
        with socket.socket() as other:
            other.bind(("127.0.0.1", port))
