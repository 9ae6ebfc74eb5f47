"""One HTTP request at a time, and what can go wrong with it in two classes."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit


class Unreachable(Exception):
    """No answer, or one that says: later. Worth another try."""


class TimedOut(Unreachable):
    """Connected, and then silence."""


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")


def call(
    method: str, url: str, *, timeout_s: float, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> Reply:
    """Raises Unreachable where no whole answer came; any status is an answer."""
    connection = connect(url, timeout_s)
    try:
        connection.request(method, target(url), body, dict(headers or {}))
        response = connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, names, response.read())
    except TimeoutError as error:
        raise TimedOut(f"{urlsplit(url).netloc} is silent for {timeout_s:g} s") from error
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{urlsplit(url).netloc}: {describe(error)}") from error
    finally:
        connection.close()


def connect(url: str, timeout_s: float) -> http.client.HTTPConnection:
    """A connection to the origin of `url`, which opens with its first request."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.netloc, timeout=timeout_s)


def target(url: str) -> str:
    parts = urlsplit(url)
    return parts.path + (f"?{parts.query}" if parts.query else "")


def describe(error: BaseException) -> str:
    """What happened, in the system's words."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
