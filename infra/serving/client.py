"""A client of one vLLM server: its OpenAI-compatible chat, its health, its metrics. Nothing is repeated here.

`token` gives the identity token for each call; it goes into the Authorization header and nowhere else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infra.errors import ServingError

if TYPE_CHECKING:
    import requests

Message = Mapping[str, Any]
_SHOWN = 400
"""Characters of an answer that an error quotes."""


@dataclass(frozen=True)
class ServedModel:
    """One entry of /v1/models."""

    name: str
    max_model_len: int


@dataclass(frozen=True)
class Chunk:
    """A piece of a streamed answer: when it arrived (seconds of `clock`), its text, and the token count of the last one."""

    at_s: float
    text: str
    completion_tokens: int | None = None


class ServingClient:
    """`base_url` without path; `prefix` selects one slice behind a gateway, e.g. /slices/blue."""

    def __init__(
        self,
        base_url: str,
        *,
        token: Callable[[], str] | None = None,
        prefix: str = "",
        connect_s: float = 10.0,
        read_s: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = base_url.rstrip("/") + prefix
        self._token = token
        self._timeout = (connect_s, read_s)
        self._clock = clock
        self._http: requests.Session | None = None

    def health(self) -> int:
        """HTTP status of /health; 0 where nobody answers yet."""
        try:
            return self._send("GET", "/health").status_code
        except ServingError as error:
            if error.status == 0:
                return 0
            raise

    def version(self) -> str:
        """vLLM's version; empty where the server does not say."""
        answer = self._send("GET", "/version")
        return str(_json(answer).get("version", "")) if answer.ok else ""

    def models(self) -> tuple[ServedModel, ...]:
        """Every served name."""
        rows = self._object("GET", "/v1/models").get("data", [])
        return tuple(ServedModel(str(row.get("id")), int(row.get("max_model_len") or 0)) for row in rows)

    def chat(self, model: str, messages: Sequence[Message], **options: Any) -> Mapping[str, Any]:
        """One whole answer; the parsed body."""
        return self._object("POST", "/v1/chat/completions", {"model": model, "messages": list(messages), **options})

    def stream(self, model: str, messages: Sequence[Message], **options: Any) -> Iterator[Chunk]:
        """An answer chunk by chunk, as it arrives; the last one carries the token count."""
        body = {"model": model, "messages": list(messages), "stream": True, "stream_options": {"include_usage": True}}
        response = self._send("POST", "/v1/chat/completions", {**body, **options}, stream=True)
        if not response.ok:
            raise _refused(response, "/v1/chat/completions")
        with response:
            for line in response.iter_lines():
                if line.startswith(b"data: ") and line != b"data: [DONE]":
                    yield self._chunk(json.loads(line.removeprefix(b"data: ")))

    def metrics(self) -> str:
        """/metrics as text."""
        answer = self._send("GET", "/metrics")
        if not answer.ok:
            raise _refused(answer, "/metrics")
        return answer.text

    def _chunk(self, event: Mapping[str, Any]) -> Chunk:
        if "error" in event:
            raise ServingError(f"the stream broke off: {_short(json.dumps(event['error']))}")
        usage = event.get("usage") or {}
        choices = event.get("choices") or [{}]
        delta = choices[0].get("delta") or {}
        return Chunk(self._clock(), spoken(delta), usage.get("completion_tokens"))

    def _object(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        response = self._send(method, path, body)
        if not response.ok:
            raise _refused(response, path)
        return _json(response)

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, stream: bool = False
    ) -> requests.Response:
        import requests

        if self._http is None:
            self._http = requests.Session()
            self._http.trust_env = False  # no proxy and no ~/.netrc may replace our token
        headers = {"Authorization": f"Bearer {self._token()}"} if self._token else {}
        try:
            return self._http.request(
                method, self._root + path, json=body, headers=headers, timeout=self._timeout, stream=stream,
                allow_redirects=False,
            )  # fmt: skip
        except requests.RequestException as error:
            what = "did not answer in time" if isinstance(error, requests.Timeout) else "could not be reached"
            raise ServingError(f"{method} {path} {what} ({type(error).__name__})") from None


def spoken(message: Mapping[str, Any]) -> str:
    """Text of a message or of a piece of one: the answer and, with a reasoning parser, the thinking."""
    return (message.get("reasoning") or "") + (message.get("content") or "")


def _refused(response: requests.Response, path: str) -> ServingError:
    text = f"{path} answered {response.status_code}: {_short(response.text)}"
    return ServingError(text, status=response.status_code)


def _json(response: requests.Response) -> Mapping[str, Any]:
    try:
        parsed = response.json()
    except ValueError:
        parsed = None
    if not isinstance(parsed, Mapping):
        raise ServingError(f"the answer is no JSON object: {_short(response.text)}", status=response.status_code)
    return parsed


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN else f"{flat[:_SHOWN]}…"
