"""What the gateway answers in place of a member: in vLLM's own form of an error, with the time after which to try again."""

from __future__ import annotations

import json

_ANSWERS = {
    400: ("BadRequestError", "the request is not HTTP as the gateway reads it", 0),
    404: ("NotFoundError", "the gateway knows no such member", 0),
    408: ("RequestTimeoutError", "the request did not come whole in time", 0),
    413: ("BadRequestError", "the request is larger than 32 MiB, the most that Cloud Run takes", 0),
    429: ("RateLimitError", "too many requests in flight for the members that are ready", 5),
    500: ("InternalServerError", "the gateway failed", 0),
    502: ("BadGatewayError", "the member at work on this request stopped; safe to retry", 1),
    503: ("ServiceUnavailableError", "no member answered: none is ready, or none had room in time; safe to retry", 10),
    504: ("GatewayTimeoutError", "the member did not answer in the time that a request has", 0),
}
"""By status: the error's type, its message, and Retry-After in seconds; 0: none."""


def refusal(status: int, message: str = "", retry_after_s: int | None = None) -> str:
    """Return the action of an http-request rule that ends a request with an error, after which its condition may follow."""
    return f"return status {status} {_content(status, message, retry_after_s)}"


def error_page(status: int) -> str:
    """Return the line that replaces HAProxy's own page for an error that it finds itself."""
    return f"http-error status {status} {_content(status)}"


def _content(status: int, message: str = "", retry_after_s: int | None = None) -> str:
    kind, usual, usual_wait_s = _ANSWERS[status]
    body = json.dumps({"error": {"message": message or usual, "type": kind, "param": None, "code": status}})
    if "'" in body:
        raise ValueError(f"{message!r} would end the text that HAProxy reads")
    wait_s = usual_wait_s if retry_after_s is None else retry_after_s
    return f"content-type application/json string '{body}'" + (f" hdr Retry-After {wait_s}" if wait_s else "")
