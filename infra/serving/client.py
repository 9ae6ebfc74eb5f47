"""A client of vLLM's OpenAI-compatible server, with or without Cloud Run's IAM and the gateway in front of it.

It sends each request once and follows no redirect; the caller decides whether to repeat. It asks for the identity token
before every request and writes it into the Authorization header and nowhere else. One client serves one thread.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from infra.errors import ServingError
from infra.serving.chat_answer import ChatAnswer
from infra.serving.metrics import Metrics
from infra.serving.server_errors import AnswerError, FailureKind, cleaned, refused, unanswered
from infra.serving.stream import ChatStream

if TYPE_CHECKING:
    import requests

Message = Mapping[str, Any]

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_CHAT = "/v1/chat/completions"


@dataclass(frozen=True)
class ServingTimeouts:
    """Seconds to connect, to the next byte of a small answer, and to the next byte of a completion.

    The first request of a new prompt length took 20 to 60 s on a Cloud Run L4 (third party, 2026).
    """

    connect_s: float = 10.0
    question_s: float = 30.0
    completion_s: float = 300.0


@dataclass(frozen=True)
class ServedModel:
    """A model name that the server serves, and the most tokens (prompt and answer together) that it takes."""

    name: str
    max_model_len: int | None


@dataclass(frozen=True)
class ChatRequest:
    """One chat completion. `extra` holds further fields, OpenAI's or vLLM's own (`ignore_eos`, `min_tokens`, …).

    Without `max_tokens` an answer may fill what the prompt leaves of the context.
    """

    model: str
    messages: Sequence[Message]
    max_tokens: int | None
    temperature: float | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: str | Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """Return the request body of OpenAI's API; fields that were not given are left out."""
        body: dict[str, Any] = {"model": self.model, "messages": list(self.messages)}
        if self.max_tokens is not None:
            body["max_tokens"] = self.max_tokens
        if self.temperature is not None:
            body["temperature"] = self.temperature
        if self.tools:
            body["tools"] = list(self.tools)
        if self.tool_choice is not None:
            body["tool_choice"] = self.tool_choice
        return body | dict(self.extra)


class ServingClient:
    """`base_url` is the service's, without a path; `prefix` selects one slice behind a gateway, e.g. /members/blue.

    `on_token_refused` is called when the service refused a token, so that the next request gets another one. Raises
    ServingError where an identity token would be sent unencrypted.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: Callable[[], str | None] | None = None,
        on_token_refused: Callable[[], None] = lambda: None,
        prefix: str = "",
        timeouts: ServingTimeouts | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        address = urlsplit(base_url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ServingError(f"{base_url!r} is not the URL of a server. Write one like https://….run.app.")
        if token and address.scheme == "http" and address.hostname not in _LOOPBACK:
            raise ServingError(f"{base_url} is not encrypted: anybody in between could read the token. Use https://.")
        self.audience = f"{address.scheme}://{address.netloc}"
        self._root = base_url.rstrip("/") + prefix.rstrip("/")
        self._token = token
        self._on_token_refused = on_token_refused
        self._timeouts = timeouts or ServingTimeouts()
        self._clock = clock
        self._http: requests.Session | None = None

    def twin(self) -> ServingClient:
        """Return a client of the same server for another thread; both ask the same maker of tokens."""
        other = copy.copy(self)
        other._http = None
        return other

    def health(self) -> None:
        """Raise AnswerError unless the server says that it is up, which does not prove that it can generate."""
        self._get("/health")

    def version(self) -> str:
        """Return vLLM's version, e.g. 0.32.0."""
        return str(self._get_object("/version").get("version") or "")

    def version_if_said(self) -> str:
        """Return vLLM's version; empty where the server does not say it."""
        try:
            return self.version()
        except AnswerError:
            return ""

    def models(self) -> tuple[ServedModel, ...]:
        """Return every model name that the server serves; the first one stands in its answers."""
        rows = self._get_object("/v1/models").get("data") or ()
        return tuple(ServedModel(str(row.get("id")), row.get("max_model_len")) for row in rows)

    def metrics(self) -> Metrics:
        """Return a reading of /metrics. Raises AnswerError for a page without one metric, be it vLLM's or its process's."""
        response = self._get("/metrics")
        if not (metrics := Metrics.parse(response.text)).samples:
            words = cleaned(response.text)
            what = f"{self._what('GET', '/metrics')} answered 200, but not with metrics"
            message = f"{what}: {words or 'an empty body'}. This is not vLLM."
            raise AnswerError(message, kind=FailureKind.UNREADABLE, status=200, words=words)
        return metrics

    def chat(self, request: ChatRequest) -> ChatAnswer:
        """Return the whole answer at once."""
        with self._sent("POST", _CHAT, request.body()) as response:
            return ChatAnswer.of(_object(response, self._what("POST", _CHAT)))

    @contextmanager
    def stream(self, request: ChatRequest) -> Iterator[ChatStream]:
        """Yield the answer as it is written: `with client.stream(request) as stream: for piece in stream: …`.

        Leaving the block before the end closes the connection, at which vLLM stops generating. Every event carries the
        tokens so far, so that an answer that was left is counted too.
        """
        counted = {"include_usage": True, "continuous_usage_stats": True}
        body = request.body() | {"stream": True, "stream_options": counted}
        started = self._clock()
        with self._sent("POST", _CHAT, body, stream=True) as response:
            # Chunks are handed on as they come; an answer without chunks is read byte by byte, so as not to wait for more.
            chunked = response.headers.get("Transfer-Encoding", "").lower() == "chunked"
            lines = response.iter_lines(chunk_size=None if chunked else 1)
            yield ChatStream(lines, self._what("POST", _CHAT), started=started, clock=self._clock)

    def _get(self, path: str) -> requests.Response:
        with self._sent("GET", path) as response:
            return response

    def _get_object(self, path: str) -> dict[str, Any]:
        return _object(self._get(path), self._what("GET", path))

    @contextmanager
    def _sent(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, stream: bool = False
    ) -> Iterator[requests.Response]:
        """Yield a response with status 200. Raises AnswerError, also where the connection breaks while the caller reads."""
        import requests

        self._http = self._http or requests.Session()
        what = self._what(method, path)
        token = self._token() if self._token else None
        patience_s = self._timeouts.completion_s if body else self._timeouts.question_s
        try:
            with self._http.request(
                method,
                self._root + path,
                json=body,
                auth=_bearer(token),
                timeout=(self._timeouts.connect_s, patience_s),
                allow_redirects=False,
                stream=stream,
            ) as response:
                if response.status_code != 200:
                    if response.status_code in (401, 403):
                        self._on_token_refused()
                    raise refused(
                        response.status_code, response.text, what, audience=self.audience, token_sent=bool(token)
                    )
                yield response
        except requests.RequestException as error:
            raise unanswered(error, what) from None

    def _what(self, method: str, path: str) -> str:
        return f"{method} {self._root}{path}"


def _bearer(token: str | None) -> Callable[[requests.PreparedRequest], requests.PreparedRequest]:
    """Return `auth` for requests. Needed without a token too: else requests would send what ~/.netrc has for the host."""

    def signed(request: requests.PreparedRequest) -> requests.PreparedRequest:
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        return request

    return signed


def _object(response: requests.Response, what: str) -> dict[str, Any]:
    try:
        payload = response.json()
    except ValueError:
        payload = None
    if not isinstance(payload, dict):
        words = cleaned(response.text)
        message = f"{what} answered 200, but not with a JSON object: {words or 'an empty body'}. This is not vLLM."
        raise AnswerError(message, kind=FailureKind.UNREADABLE, status=200, words=words)
    return payload
