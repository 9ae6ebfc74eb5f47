"""HTTP with the standard library: one request at a time, and the errors that another try may mend."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit


class TransientError(Exception):
    """No answer, or one that means "later". Worth another try, not before `retry_after_s`."""

    def __init__(self, fact: str, retry_after_s: float = 0.0) -> None:
        super().__init__(fact)
        self.retry_after_s = retry_after_s


class TimedOut(TransientError):
    """The connection was made, and then nothing came."""


TRANSIENT_ERRORS = (TransientError, OSError, http.client.HTTPException)


class Reply(NamedTuple):
    """A whole answer. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as UTF-8, with a replacement character for what is not."""
        return self.body.decode(errors="replace")


def call(
    method: str, url: str, *, timeout_s: float, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> Reply:
    """Send one request on a connection of its own; returns the answer, whatever its status.

    Raises TransientError where no whole answer came, TimedOut where the server was silent for too long.
    """
    connection = connect(url, timeout_s)
    try:
        connection.request(method, target(url), body, dict(headers or {}))
        response = connection.getresponse()
        return Reply(response.status, headers_of(response), response.read())
    except TimeoutError as error:
        raise TimedOut(f"{urlsplit(url).netloc} is silent for {timeout_s:g} s") from error
    except (OSError, http.client.HTTPException) as error:
        raise TransientError(f"{urlsplit(url).netloc}: {reason_of(error)}") from error
    finally:
        connection.close()


def connect(url: str, timeout_s: float) -> http.client.HTTPConnection:
    """Return a connection to the origin of `url`, which opens with its first request."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.netloc, timeout=timeout_s)


def target(url: str) -> str:
    """Return the part of `url` that stands in the request line: path and query."""
    parts = urlsplit(url)
    return parts.path + (f"?{parts.query}" if parts.query else "")


def headers_of(response: http.client.HTTPResponse) -> dict[str, str]:
    """Return the headers of a response by their names in lower case."""
    return {name.lower(): value for name, value in response.getheaders()}


def reason_of(error: BaseException) -> str:
    """Return what happened in a few words, without the address that was asked: it may be signed."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error) if isinstance(error, (TransientError, OSError)) else "") or type(error).__name__


def backoff(first_s: float, cap_s: float, failures: int) -> float:
    """Return the seconds to wait after so many failures in a row, doubling from `first_s` up to `cap_s`."""
    return min(cap_s, first_s * 2.0 ** min(failures - 1, 30))
