"""HTTP connections that are kept and used again, redirects that can be trusted, and answers of bounded length."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterable, Mapping
from urllib.parse import urljoin, urlsplit

from containers.shared.web import Reply, TransientError, connect, headers_of, target

from .exit_codes import CopyFailure, ExitCode
from .job_log import MIB
from .retries import retry_after_seconds

USER_AGENT = "gemma4-stage/1"
PIECE = 2 * MIB
"""Read and hashed at once, with few turns of the interpreter for each mebibyte."""
MOST_REDIRECTS = 5
REDIRECTS = (301, 302, 303, 307, 308)
LONGEST_ANSWER = 16 * MIB
"""Of an answer that is not a file's content; a list of 10,000 files has 3 MiB."""


class Connections:
    """One connection for each origin. For one thread."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._open: dict[tuple[str, str], http.client.HTTPConnection] = {}

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | Iterable[memoryview] | None = None
    ) -> http.client.HTTPResponse:
        """Send one request; returns the response, unread. After any error the connection is not used again."""
        key = origin(url)
        connection = self._open.get(key)
        if connection is None:
            connection = self._open[key] = connect(url, self._timeout_s)
        try:
            connection.request(method, target(url), body, {"User-Agent": USER_AGENT, **headers})
            return connection.getresponse()
        except BaseException:
            connection.close()
            raise

    def call(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | Iterable[memoryview] | None = None
    ) -> Reply:
        """Send one request and read its small answer. Raises TransientError where the status means "later"."""
        response = self.send(method, url, headers, body)
        data = self.read(response)
        if response.status >= 400:
            self.close()  # the server may have answered without reading what was sent
        if response.status in (408, 429) or response.status >= 500:
            raise_unless_content(response)
        return Reply(response.status, headers_of(response), data)

    def read(self, response: http.client.HTTPResponse) -> bytes:
        """Return a whole answer. Raises CopyFailure for one of more than 16 MiB, TransientError for one that was cut short."""
        data = response.read(LONGEST_ANSWER + 1)
        if len(data) > LONGEST_ANSWER:
            self.close()
            fact = f"An answer is longer than {LONGEST_ANSWER // MIB} MiB and was not read to its end."
            raise CopyFailure(ExitCode.DISTRUST, f"{fact} Does an endpoint point at the right place?")
        if response.length:  # `read` with a limit does not report bytes that never came
            self.close()
            raise TransientError("the connection ended early")
        return data

    def get(self, url: str, headers: Mapping[str, str], leaves: bool = True) -> tuple[http.client.HTTPResponse, str]:
        """Follow redirects from `url`; returns the last response, unread, and its address.

        Authorization never leaves the origin of `url`. Raises CopyFailure for a redirect that gives up encryption and,
        unless `leaves`, for one to another origin.
        """
        first = origin(url)
        for _ in range(MOST_REDIRECTS):
            response = self.send("GET", url, headers)
            if response.status not in REDIRECTS:
                return response, url
            self.read(response)
            before, url = url, urljoin(url, response.getheader("Location", ""))
            refuse_redirect(before, url, leaves)
            if origin(url) != first:
                headers = {name: value for name, value in headers.items() if name != "Authorization"}
        raise TransientError(f"more than {MOST_REDIRECTS} redirects")

    def close(self) -> None:
        """Close all connections; the next request opens one again."""
        for connection in self._open.values():
            connection.close()


def origin(url: str) -> tuple[str, str]:
    """Return the scheme and the host with its port."""
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()


def refuse_redirect(source: str, target: str, leaves: bool) -> None:
    """Raise CopyFailure for a redirect that cannot be trusted. The target's path is not shown: it may be signed."""
    (was, host), (scheme, other) = origin(source), origin(target)
    safe = scheme == "https" or scheme == was == "http"
    if safe and (leaves or (scheme, other) == (was, host)):
        return
    fact = f"{was}://{host} redirects to {scheme}://{other}"
    why = "which is not the same server" if safe else "which is not https"
    raise CopyFailure(ExitCode.DISTRUST, f"{fact}, {why}. Nothing was read there; is HF_ENDPOINT right?")


def raise_unless_content(response: http.client.HTTPResponse) -> None:
    """Raise TransientError for any other status: overload, or a CDN address whose signature has just expired."""
    if response.status not in (200, 206):
        raise TransientError(f"HTTP {response.status}", retry_after_seconds(response.getheader("Retry-After", "")))


def skip_to(response: http.client.HTTPResponse, offset: int) -> http.client.HTTPResponse:
    """Return the response to a Range request standing at `offset`, also where the server ignored the range."""
    if response.status == 206:
        begin = re.match(r"bytes (\d+)-", response.getheader("Content-Range", ""))
        if begin and int(begin[1]) != offset:
            raise TransientError("the server answered another range than the one asked for")
        return response
    while offset:
        skipped = len(response.read(min(PIECE, offset)))
        if not skipped:
            raise TransientError("the connection ended early")
        offset -= skipped
    return response
