"""What the supervisor and the weights copy share for HTTP: one request, the words for what went wrong, growing waits."""

from __future__ import annotations

import http.client
import socket

import pytest

from containers.shared.web import TimedOut, TransientError, backoff, call, reason_of
from tests.fakes.loopback import Exchange, Loopback

SIGNED = "https://cdn.example.com/file?signature=secret"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TransientError("HTTP 503"), "HTTP 503"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (TimeoutError("timed out"), "timed out"),
        (OSError(), "OSError"),
        (http.client.InvalidURL(f"URL can't contain control characters. {SIGNED!r}"), "InvalidURL"),
        (http.client.BadStatusLine(SIGNED), "BadStatusLine"),
    ],
)
def test_a_reason_is_short_and_has_no_address_in_it(error: BaseException, expected: str) -> None:
    assert reason_of(error) == expected


def test_any_status_is_an_answer_with_headers_in_lower_case() -> None:
    def answer(exchange: Exchange) -> None:
        exchange.reply(404, b"none", {"ETag": "x"})

    server = Loopback(answer)
    try:
        reply = call("GET", f"{server.url}/a?b=c", timeout_s=10)
    finally:
        server.close()
    assert (reply.status, reply.text, reply.headers["etag"]) == (404, "none", "x")


def test_silence_is_told_from_a_refused_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(TimedOut, match=f"127.0.0.1:{port} is silent for 0.1 s"):
            call("GET", f"http://127.0.0.1:{port}/secret-path", timeout_s=0.1)
    with pytest.raises(TransientError, match=f"127.0.0.1:{port}: Connection refused") as caught:
        call("GET", f"http://127.0.0.1:{port}/secret-path", timeout_s=10)
    assert not isinstance(caught.value, TimedOut)
    assert "secret-path" not in str(caught.value)


def test_waits_double_up_to_a_cap() -> None:
    assert [backoff(5, 300, failures) for failures in (1, 2, 3, 7, 8, 10_000)] == [5, 10, 20, 300, 300, 300]
