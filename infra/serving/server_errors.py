"""Turns a request without a usable answer into an `AnswerError`: what happened, what it means, and of which kind it is.

It tells apart errors of vLLM, of the gateway and of Cloud Run's front end, and servers that do not answer. The kind decides
whether waiting can help. The server's own text is cut short and cleaned of secrets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from infra.errors import ServingError
from infra.redaction import without_secrets

if TYPE_CHECKING:
    import requests

KEPT = 300  # characters of a server's own words


class FailureKind(StrEnum):
    """Why a request got no usable answer."""

    UNREACHABLE = "unreachable"
    """No server listens at the address, or the host name is unknown."""
    SILENT = "silent"
    """Connected, but no byte came in time."""
    CUT = "cut"
    """The connection broke, or a stream ended before its end."""
    FORBIDDEN = "forbidden"
    """401 or 403 from Google's front end: the identity token is missing or not good for this service."""
    NOT_FOUND = "not-found"
    BUSY = "busy"
    """429: no free instance, or too many requests in flight."""
    UNAVAILABLE = "unavailable"
    """502, 503, 504: starting, restarting, or no slice behind the gateway."""
    ENGINE_DEAD = "engine-dead"
    """500 by vLLM's API server, whose engine process died or could not compute the request."""
    FAILED = "failed"
    """Any other 5xx."""
    REJECTED = "rejected"
    """The request itself was refused: 3xx, other 4xx."""
    UNREADABLE = "unreadable"
    """A 200 whose body is not what this endpoint answers."""


class AnswerError(ServingError):
    """A request without a usable answer. `status` is the HTTP status, 0 without one; `words` is the server's text, cleaned."""

    def __init__(self, message: str, *, kind: FailureKind, status: int = 0, words: str = "") -> None:
        super().__init__(message, status=status)
        self.kind = kind
        self.words = words


def refused(status: int, body: str, what: str, *, audience: str, token_sent: bool) -> AnswerError:
    """Return the error for an answer other than 200. `what` names the request, e.g. `GET https://…/health`."""
    words = server_words(body)
    kind = _kind_of(status, body)
    fact = f"{what} answered {status}" + (f": {words}" if words else ".")
    meaning = _meaning(kind, status, audience=audience, token_sent=token_sent, own=_error_of(body) is not None)
    return AnswerError(" ".join(filter(None, (sentence(fact), meaning))), kind=kind, status=status, words=words)


def unanswered(error: requests.RequestException, what: str) -> AnswerError:
    """Return the error for a request that got no answer at all."""
    import requests

    reason = str(error)
    if isinstance(error, requests.ConnectTimeout) or "Connection refused" in reason:
        message = f"{what}: nothing listens there: the server has not started to listen yet, or it has exited."
        return AnswerError(message, kind=FailureKind.UNREACHABLE)
    if "NameResolution" in reason or "resolve" in reason:
        return AnswerError(f"{what}: the host name is unknown.", kind=FailureKind.UNREACHABLE)
    if isinstance(error, requests.Timeout) or "Read timed out" in reason:
        return AnswerError(f"{what}: the server took the request and said nothing in time.", kind=FailureKind.SILENT)
    if isinstance(error, requests.exceptions.SSLError):
        return AnswerError(f"{what}: no trusted TLS connection ({cleaned(reason)}).", kind=FailureKind.REJECTED)
    return AnswerError(f"{what}: the connection broke before the answer ended.", kind=FailureKind.CUT)


def engine_failed(payload: Mapping[str, Any], what: str) -> AnswerError:
    """Return the error that vLLM wrote into a stream after it had begun with 200: the engine failed, or refused the request,
    e.g. because of a schema that it cannot hold."""
    words = server_words(json.dumps(payload))
    code = error.get("code") if isinstance(error := payload.get("error"), Mapping) else None
    if isinstance(code, int) and 400 <= code < 500:
        return AnswerError(
            f"{what} was refused: {sentence(words)}", kind=FailureKind.REJECTED, status=code, words=words
        )
    return AnswerError(f"{what} broke off: {sentence(words)}", kind=FailureKind.ENGINE_DEAD, status=500, words=words)


def server_words(body: str) -> str:
    """Return the message of vLLM's or the gateway's JSON error, else the text of the page; cleaned."""
    error = _error_of(body)
    if isinstance(error, Mapping):
        return cleaned(str(error.get("message") or error))
    return cleaned(str(error) if error else re.sub(r"(?s)<(style|script|title)\b.*?</\1>|<[^>]*>", " ", body))


def cleaned(text: str) -> str:
    """Return the text as one printable line without secrets, at most `KEPT` characters."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    line = without_secrets(line)
    return line if len(line) <= KEPT else f"{line[:KEPT]}…"


def sentence(text: str) -> str:
    """Return the text, ended by a full stop where it has no end."""
    return text if text.endswith((".", "!", "…")) else f"{text}."


def _kind_of(status: int, body: str) -> FailureKind:
    if status in (401, 403) and _error_of(body) != "Unauthorized":  # which vLLM answers to a wrong API key
        return FailureKind.FORBIDDEN
    if status == 500:
        return FailureKind.ENGINE_DEAD if "EngineCore" in body or "EngineDead" in body else FailureKind.FAILED
    known = {404: FailureKind.NOT_FOUND, 429: FailureKind.BUSY} | dict.fromkeys(
        (502, 503, 504), FailureKind.UNAVAILABLE
    )
    return known.get(status, FailureKind.FAILED if status > 500 else FailureKind.REJECTED)


def _meaning(kind: FailureKind, status: int, *, audience: str, token_sent: bool, own: bool) -> str:
    """Return what the answer means and what helps. `own`: vLLM or the gateway wrote it, not Google's front end."""
    if kind is FailureKind.FORBIDDEN and not token_sent:
        return "No identity token was sent, and the service needs one: sign in, or name the invoker."
    if kind is FailureKind.FORBIDDEN:
        return (
            "The service did not accept the identity token: its account needs roles/run.invoker on the service, and its "
            f"audience must be {audience} (the base URL, without a path)."
        )
    if status in (401, 403) and not token_sent:
        return "vLLM asks for its own API key, and none was sent: put it into GEMMA4_API_KEY."
    if status in (401, 403):
        return (
            "vLLM asks for its own API key on the header that the identity token needs: remove `api-key` from vllmArgs "
            "and VLLM_API_KEY from serving.env. With --url, another key in GEMMA4_API_KEY helps."
        )
    if kind is FailureKind.NOT_FOUND and not own:
        return "Nothing is served at this address: a wrong URL or slice name, or a service with internal ingress."
    if kind is FailureKind.BUSY and not own:
        return "Cloud Run had no instance free: one is starting, or scaling.maxInstances is reached."
    if kind is FailureKind.UNAVAILABLE and not own:
        return "Cloud Run has no instance that answers: it is starting, or its container has exited."
    if 300 <= status < 400:
        return "A redirect means that something else, such as a sign-in page, stands before the server."
    return ""


def _error_of(body: str) -> Any:
    """Return the `error` of a JSON body; None where there is none."""
    try:
        payload = json.loads(body)
    except ValueError:
        return None
    return payload.get("error") if isinstance(payload, dict) else None
