"""The metadata server of one machine: attributes that can be waited for, tokens, guest attributes."""

from __future__ import annotations

import hashlib
import threading
import time
from typing import Any

from tests.fakes.loopback import Exchange, Loopback, Seen

ROOT = "/computeMetadata/v1/instance/"
MAINTENANCE = "upcoming-maintenance"


class FakeMetadata:
    """`away` may be `silent` (connections are cut) or `503`. With `guest` False, guest attributes are switched off.

    `refused` are paths that answer 503. `unannounced` is what comes where no maintenance is announced: real servers send
    `503`, `404`, `NONE` or `{}`, the latter two with 200.
    """

    def __init__(self, **attributes: str) -> None:
        self.attributes = {name.replace("_", "-"): value for name, value in attributes.items()}
        self.values = {"network-interfaces/0/ip": "127.0.0.1"}
        self.issued: list[str] = []
        self.reports: list[str] = []
        self.lost: list[str] = []
        """Reports that came while guest attributes were off."""
        self.guest = True
        self.refused: set[str] = set()
        self.unannounced = "503"
        self._away = ""
        self._changed = threading.Condition()
        self._server = Loopback(self._answer)
        self.host = self._server.url.removeprefix("http://")

    def close(self) -> None:
        self.away = "silent"
        self._server.close()

    @property
    def requests(self) -> list[Seen]:
        return self._server.seen

    @property
    def away(self) -> str:
        return self._away

    @away.setter
    def away(self, how: str) -> None:
        with self._changed:
            self._away = how
            self._changed.notify_all()

    def set(self, name: str, value: str | None) -> None:
        """Change an attribute, as a PATCH of the node's metadata does; None takes it away."""
        with self._changed:
            if value is None:
                self.attributes.pop(name, None)
            else:
                self.attributes[name] = value
            self._changed.notify_all()

    def announce_maintenance(self, notice: str | None) -> None:
        with self._changed:
            self.values.pop(MAINTENANCE, None)
            if notice:
                self.values[MAINTENANCE] = notice
            self._changed.notify_all()

    def _answer(self, exchange: Exchange) -> None:
        path = exchange.seen.path.removeprefix(ROOT)
        if self._is_away(exchange):
            return None
        if exchange.seen.headers.get("metadata-flavor") != "Google" or not exchange.seen.path.startswith(ROOT):
            return exchange.reply(403)
        if exchange.seen.method == "PUT":
            return self._take_report(exchange, path)
        if path == "service-accounts/default/token":
            token = f"ya29.planted-access-token-{len(self.issued)}-{id(self) % 99991}"
            self.issued.append(token)
            answer: Any = {"access_token": token, "expires_in": 3599, "token_type": "Bearer"}
            return exchange.reply(200, answer, {"Metadata-Flavor": "Google"})
        return self._send_value(exchange, path)

    def _send_value(self, exchange: Exchange, path: str) -> None:
        if exchange.query.get("wait_for_change") == "true":
            deadline = time.monotonic() + float(exchange.query.get("timeout_sec", 60))
            with self._changed:
                self._changed.wait_for(
                    lambda: self._away or _etag(self._value(path)) != exchange.query.get("last_etag"),
                    deadline - time.monotonic(),
                )
            if self._is_away(exchange):
                return
        value = self._value(path)
        if path in self.refused:
            exchange.reply(503)
        elif path == MAINTENANCE and value in (None, "503"):
            error = {"error": "no notifications have been received yet, try again later"}
            exchange.reply(503 if value else 404, error, {"Metadata-Flavor": "Google"})
        elif value is None:
            exchange.reply(404, b"<html>not found</html>")
        else:
            exchange.reply(200, value.encode(), {"Metadata-Flavor": "Google", "ETag": _etag(value)})

    def _value(self, path: str) -> str | None:
        kind, _, name = path.partition("/")
        if path == MAINTENANCE and path not in self.values:
            return None if self.unannounced == "404" else self.unannounced
        return self.attributes.get(name) if kind == "attributes" else self.values.get(path)

    def _take_report(self, exchange: Exchange, path: str) -> None:
        length = int(exchange.seen.headers.get("content-length", 0))
        body = exchange.rfile.read(length).decode()
        if path.startswith("guest-attributes/") and self.guest:
            self.reports.append(body)
            return exchange.reply(200, b"", {"Metadata-Flavor": "Google"})
        self.lost.append(body)
        return exchange.reply(403, b"Guest attributes endpoint access is disabled.")

    def _is_away(self, exchange: Exchange) -> bool:
        if self._away == "503":
            exchange.reply(503)
        elif self._away:
            exchange.cut()
        return bool(self._away)


def _etag(value: str | None) -> str:
    """A missing value has none: asking for its change answers at once."""
    return "absent" if value is None else hashlib.sha256(value.encode()).hexdigest()[:16]
