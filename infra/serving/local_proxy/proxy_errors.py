"""Refusals and failures in OpenAI's form: as a whole answer, or as the last event of a stream that had begun."""

from __future__ import annotations

import json

from aiohttp import web


def error_body(status: int, message: str) -> dict[str, object]:
    """Return the object that OpenAI clients turn into their own error, in the keys that vLLM uses."""
    return {"error": {"message": message, "type": kind_of(status), "param": None, "code": status}}


def error_answer(status: int, message: str) -> web.Response:
    """Return an answer that is nothing but an error; its connection ends, since the request may not have been read."""
    answer = web.json_response(error_body(status, message), status=status)
    answer.force_close()
    return answer


def last_event(status: int, message: str) -> bytes:
    """Return an event that tells the reader of a stream that it broke. The blank line before it ends an event of which
    only a part had come."""
    return f"\n\ndata: {json.dumps(error_body(status, message))}\n\n".encode()


def kind_of(status: int) -> str:
    """Return vLLM's name for the error of an HTTP status."""
    return _KINDS.get(status, "ServiceUnavailableError" if status > 500 else "APIError")


_KINDS = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    413: "BadRequestError",
    429: "RateLimitError",
    500: "InternalServerError",
}
