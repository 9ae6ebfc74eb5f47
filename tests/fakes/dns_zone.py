"""A DNS server with one private zone: it answers for the names that it holds, and can fall silent or fail."""

from __future__ import annotations

import ipaddress
import socket
import struct
import threading
from collections.abc import Mapping
from typing import Any, Literal

from infra.planning.gateway.members import RECORD_TTL_S
from tests.fakes.google import FakeGoogle

_A, _IN, _NAME_ERROR, _SERVER_FAILURE, _REFUSED = 1, 1, 3, 2, 5
Mode = Literal["answers", "silent", "fails", "refuses", "denies"]


class CloudDnsRecords(dict[str, str]):
    """The records of a zone in the fake Cloud DNS, for a FakeZone that answers for it, whatever a gateway calls the zone."""

    def __init__(self, google: FakeGoogle, zone: str) -> None:
        super().__init__()
        self._google, self._zone = google, zone

    def get(self, name: str, default: Any = None) -> Any:
        host = name.partition(".")[0]
        return self._google.dns.addresses(self._zone).get(f"{host}.{self._zone}.internal.", default)


class FakeZone:
    """`records` maps full names to IPv4 addresses. An unknown name, or another type, gets what Cloud DNS answers."""

    def __init__(self, records: Mapping[str, str]) -> None:
        self.records: dict[str, str] = dict(records)
        self.mode: Mode = "answers"
        self.asked = 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._socket.getsockname())
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening: from now on the port is closed, as of a server that has died."""
        self._socket.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while query := (received := self._socket.recvfrom(4096))[0]:
            self.asked += 1
            if self.mode != "silent":
                self._socket.sendto(self._answer(query), received[1])

    def _answer(self, query: bytes) -> bytes:
        number, name, kind, question = _read(query)
        address = self.records.get(name)
        failures = {"fails": _SERVER_FAILURE, "refuses": _REFUSED, "denies": _NAME_ERROR}
        code = failures.get(self.mode, 0 if address else _NAME_ERROR)
        data = b""
        if address and kind == _A and not code:
            packed = ipaddress.IPv4Address(address).packed
            data = (
                struct.pack(">HHHIH", 0xC00C, _A, _IN, RECORD_TTL_S, len(packed)) + packed
            )  # the name: as in the question
        return struct.pack(">HHHHHH", number, 0x8580 | code, 1, 1 if data else 0, 0, 0) + question + data


def _read(query: bytes) -> tuple[int, str, int, bytes]:
    """Return number, name, type and the whole question of a query."""
    at, labels = 12, []
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode().lower())
        at += 1 + length
    (kind,) = struct.unpack_from(">H", query, at + 1)
    return struct.unpack_from(">H", query)[0], ".".join(labels), kind, query[12 : at + 5]
