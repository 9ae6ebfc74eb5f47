"""A server that answers as vLLM 0.32 does, incl. the ways in which one can be wrong. Bodies are what a real one sent.

`with FakeVllm(model="m", spec_hash="spec-1") as fake:`; `fake.mode` and the other attributes may change while it runs.
As a process: `python -m tests.fakes.vllm --port N --model M --spec-hash H`.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from infra.serving.message_parts import image_format
from tests.fakes.vllm_http import Cut, Reply, server_at
from tests.fakes.vllm_metrics import FakeMetrics

Mode = Literal[
    "normal",
    "loading",  # 503 for `refusals_left` requests
    "cut",  # the connection breaks for `refusals_left` requests
    "forbidden",  # Cloud Run's 403 for `refusals_left` requests
    "busy",  # Cloud Run's 429 for `refusals_left` requests, healthy in between
    "cannot generate",  # healthy until the first completion: 500, then gone
    "empty",  # special tokens only
    "quiet",  # ends its answers at once unless made to write
    "untrained",  # writes a tool call only when it has no choice
    "no tools",  # never parses a call
    "no tool flags",
    "no images",
    "text only",
    "no audio tower",
    "steers",  # its text would steer a terminal
    "drifts",  # the engine lacks an image that its front believes it has: one answer breaks off at once
    "breaks off",  # the engine dies in the middle of a stream
]
PASSING = frozenset({"loading", "cut", "forbidden", "busy"})
WORDS_PER_TOKEN = 1 / 3
TEMPLATE_TOKENS = 12

ENGINE_DEAD = {
    "error": {
        "message": "EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "type": "InternalServerError",
        "param": None,
        "code": 500,
    }
}
FORGOT = {"error": {"message": "Internal server error", "type": "InternalServerError", "param": None, "code": 500}}
CLOUD_RUN_403 = (
    "<html><head>\n<title>403 Forbidden</title>\n</head>\n<body text=#000000 bgcolor=#ffffff>\n"
    "<h1>Error: Forbidden</h1>\n<h2>Your client does not have permission to get URL <code>/health</code> from this "
    "server.</h2>\n<h2></h2>\n</body></html>\n"
)


class FakeVllm:
    """`requests` holds everything that was asked, as (method, path, body)."""

    def __init__(
        self, *, model: str = "gemma", spec_hash: str = "spec-1", max_model_len: int = 4096, port: int = 0
    ) -> None:
        self.model, self.spec_hash, self.max_model_len = model, spec_hash, max_model_len
        self.mode: Mode = "normal"
        self.refusals_left = 0
        """How many more requests are refused in the modes that pass, before all is normal; -1: all."""
        self.old_listings_left = 0
        """How many more times /v1/models lists another specification's hash; -1: always."""
        self.version: str | None = "0.32.0"
        self.metrics = FakeMetrics()
        """What /metrics says; no request changes it by itself."""
        self.metrics_by_prefix: dict[str, FakeMetrics] = {}
        """What it says under a path prefix, where that is a server of its own."""
        self.token_pause_s = 0.0
        self.answer_tokens = 3
        self.most_images = 64
        """In a request, all messages together."""
        self.gate: threading.Event | None = None
        """What an answer waits for after its first word, if anything."""
        self.lets_in: Callable[[str], bool] = lambda _: True
        """Whether Cloud Run's front end takes an identity token."""
        self.requests: list[tuple[str, str, Any]] = []
        self.tokens_seen: set[str] = set()
        """What came in Authorization headers."""
        self.adapters: dict[str, str] = {}
        """LoRA adapters by the name under which each is served, with the text of its answers."""
        self.says: Callable[[Any], Mapping[str, Any] | None] = lambda _: None
        """What an answer's message holds, by the body of its request; None: what the mode says."""
        self.prefixes: tuple[str, ...] = ("",)
        """Path prefixes that are answered, e.g. /members/blue."""
        self._lock = threading.Lock()
        self._dead = False
        self._server = server_at(port, self._receive)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FakeVllm:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def sent(self, path: str) -> list[Any]:
        """Bodies of the requests to a path."""
        return [body for _, asked, body in self.requests if asked == path]

    def _receive(self, method: str, path: str, headers: Mapping[str, str], body: Any) -> Reply:
        prefix = next((prefix for prefix in self.prefixes if prefix and path.startswith(f"{prefix}/")), "")
        with self._lock:
            token = headers.get("authorization", "").removeprefix("Bearer ")
            self.tokens_seen.add(token)
            self.requests.append((method, path.removeprefix(prefix), body))
            spared = self.mode == "busy" and method == "GET"
            refused = self.mode in PASSING and self.refusals_left != 0 and not spared
            self.refusals_left -= 1 if refused and self.refusals_left > 0 else 0
        if not self.lets_in(token):
            return Reply(403, CLOUD_RUN_403)
        if self._dead and self.mode == "cannot generate":
            raise Cut
        if refused:
            return self._refusal()
        if path == f"{prefix}/metrics":
            return Reply(200, self.metrics_by_prefix.get(prefix, self.metrics).text(self.model))
        return self._answer(path.removeprefix(prefix), body)

    def _refusal(self) -> Reply:
        if self.mode == "cut":
            raise Cut
        return {
            "loading": Reply(503, "Service Unavailable"),
            "forbidden": Reply(403, CLOUD_RUN_403),
            "busy": Reply(429, "Rate exceeded."),
        }[self.mode]

    def _answer(self, path: str, body: Any) -> Reply:
        if path == "/health":
            return Reply(200, "")
        if path == "/version" and self.version is not None:
            return Reply(200, {"version": self.version})
        if path == "/v1/models":
            rows = [self._row(name) for name in self._names()]
            rows += [{**self._row(name), "parent": self.model, "max_model_len": None} for name in self.adapters]
            return Reply(200, {"object": "list", "data": rows})
        if path == "/v1/chat/completions":
            return self._chat(body)
        return _error(404, "NotFoundError", "Not Found")

    def _names(self) -> tuple[str, str]:
        with self._lock:
            older = self.old_listings_left != 0
            self.old_listings_left -= 1 if self.old_listings_left > 0 else 0
        return self.model, "spec-0" if older else self.spec_hash

    def _row(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "owned_by": "vllm", "max_model_len": self.max_model_len}

    def _chat(self, body: Any) -> Reply:
        prompt_tokens = TEMPLATE_TOKENS + round(len(_text(body["messages"]).split()) / WORDS_PER_TOKEN)
        if problem := self._problem(body, prompt_tokens):
            return problem
        if self.mode == "cannot generate":
            self._dead = True
            return Reply(500, ENGINE_DEAD)
        written = int(body.get("min_tokens", 0)) or min(self.answer_tokens, int(body.get("max_tokens", 10**9)))
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": written, "total_tokens": prompt_tokens + written}
        with self._lock:
            self.metrics.prompt_tokens += prompt_tokens
            self.metrics.prefix_queries += prompt_tokens
            self.metrics.generation_tokens += written
        message = self._message(body)
        if body.get("stream"):
            return Reply(200, self._events(body, message, written, usage))
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if message["tool_calls"] else "stop"}
        return Reply(200, {"object": "chat.completion", "model": self.model, "choices": [choice], "usage": usage})

    def _problem(self, body: Any, prompt_tokens: int) -> Reply | None:
        """What vLLM refuses before it generates."""
        if body.get("model", self.model) not in (self.model, self.spec_hash, *self.adapters):
            return _error(404, "NotFoundError", f"The model `{body['model']}` does not exist.")
        if prompt_tokens >= self.max_model_len:
            text = (
                f"This model's maximum context length is {self.max_model_len} tokens. However, your prompt contains at least "
                f"{self.max_model_len + 1} input tokens, which exceeds this limit even without any output tokens. Please "
                f"reduce the length of the input prompt. (parameter=input_tokens, value={self.max_model_len + 1})"
            )
            return _error(400, "BadRequestError", text)
        if (most := body.get("max_tokens", 1)) > self.max_model_len:
            text = (
                f"max_tokens={most} cannot be greater than max_model_len={self.max_model_len}. Please request fewer output "
                f"tokens. (parameter=max_tokens, value={most})"
            )
            return _error(400, "BadRequestError", text)
        kinds = {part["type"] for part in _parts(body["messages"])} - {"text"}
        images = sum(part["type"] == "image_url" for part in _parts(body["messages"]))
        if images > (most := 0 if self.mode == "no images" else self.most_images):
            return _error(400, "BadRequestError", f"At most {most} image(s) may be provided in one prompt.")
        if self.mode == "text only" and kinds:
            return _error(400, "BadRequestError", f"{self.model} is not a multimodal model")
        if self.mode == "no audio tower" and "input_audio" in kinds:
            text = f"Audio input was provided but the model '{self.model}' does not have an audio tower."
            return _error(400, "BadRequestError", text)
        schema = _wanted_schema(body) or {}
        for part in (schema, *schema.get("properties", {}).values()):
            named = part.get("type", "object")
            for kind in named if isinstance(named, list) else [named]:
                if kind not in {*SCHEMA_TYPES, "null"}:
                    return _error(400, "BadRequestError", f"Grammar error: Invalid type: {kind}")
        if body.get("structured_outputs") and isinstance(body.get("tool_choice"), dict):
            text = "You can only either use constraints for structured outputs or tools, not both."
            return _error(400, "BadRequestError", text)
        if self.mode == "no tool flags" and body.get("tool_choice"):
            text = 'tool_choice=function "report_state" requires --tool-call-parser to be set'
            return _error(400, "BadRequestError", text)
        if self.mode == "no tool flags" and body.get("tools"):
            text = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
            return _error(400, "BadRequestError", text)
        if not all(_decodes(part) for part in _parts(body["messages"])):
            return _error(400, "BadRequestError", "Failed to load the media.")
        return None

    def _message(self, body: Any) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": "ready", "reasoning": None, "tool_calls": None}
        if (said := self.says(body)) is not None:
            return message | dict(said)
        message["content"] = self.adapters.get(body.get("model"), message["content"])
        if self.mode == "empty" or (self.mode == "quiet" and not body.get("min_tokens")):
            return message | {"content": ""}
        if body.get("chat_template_kwargs", {}).get("enable_thinking"):
            return message | {"reasoning": "90 minutes are more than an hour."}
        led = bool(body.get("structured_outputs"))
        if body.get("tools") and self.mode != "no tools" and (led or self.mode != "untrained"):
            function = {"name": body["tools"][0]["function"]["name"], "arguments": '{"state": "ready"}'}
            call = {"id": "chatcmpl-tool-1", "type": "function", "function": function}
            return message | {"content": None, "tool_calls": [call]}
        if (schema := _wanted_schema(body)) is not None:
            return message | {"content": json.dumps(_example_of(schema))}
        return message

    def _events(self, body: Any, message: Any, tokens: int, usage: Any) -> Iterator[str]:
        """The answer in pieces: words where it is free text, else what the whole message would hold."""
        counted = bool((body.get("stream_options") or {}).get("continuous_usage_stats"))
        for number, delta in enumerate(self._deltas(body, message, tokens)):
            time.sleep(self.token_pause_s if number else 0)
            if self.gate and number == 2:
                self.gate.wait(30)
            if self.mode == "drifts" and not number:
                self.mode = "normal"
                yield _event(FORGOT)
                break
            if self.mode == "breaks off" and number == 3:
                yield _event(ENGINE_DEAD)
                break
            so_far = {"usage": usage | {"completion_tokens": number}} if counted else {}
            yield _event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} | so_far)
        else:
            cut = tokens == body.get("max_tokens")
            finish = "tool_calls" if message["tool_calls"] else "length" if cut else "stop"
            yield _event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
            yield _event({"choices": [], "usage": usage})
        yield "data: [DONE]\n\n"

    def _deltas(self, body: Any, message: Any, tokens: int) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": ""}
        yield from ({"reasoning": word} for word in re.findall(r"\S+\s?", message["reasoning"] or ""))
        for index, call in enumerate(message["tool_calls"] or ()):
            function = call["function"]
            yield {"tool_calls": [{**call, "index": index, "function": {"name": function["name"]}}]}
            for part in re.findall(".{1,10}", function["arguments"]):
                yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}
        if self.mode == "steers":
            yield from ({"content": text} for text in ("a\x1b", "[31mred", "\u202eb\r", "c"))
        elif _wanted_schema(body) is not None:
            yield from ({"content": part} for part in re.findall("(?s).{1,7}", message["content"]))
        elif not message["tool_calls"] and message["content"]:
            yield from ({"content": f" w{number}"} for number in range(tokens))


def _event(payload: Mapping[str, Any]) -> str:
    kind = {} if "error" in payload else {"object": "chat.completion.chunk"}
    return f"data: {json.dumps(kind | dict(payload))}\n\n"


def _error(code: int, kind: str, message: str) -> Reply:
    return Reply(code, {"error": {"message": message, "type": kind, "param": None, "code": code}})


def _parts(messages: Any) -> Iterator[Any]:
    for message in messages:
        if not isinstance(message["content"], str):
            yield from message["content"] or ()  # None beside tool calls


def _text(messages: Any) -> str:
    texts = [message["content"] for message in messages if isinstance(message["content"], str)]
    return " ".join([*texts, *(part["text"] for part in _parts(messages) if part["type"] == "text")])


SCHEMA_TYPES = {
    "object": {},
    "array": [],
    "string": "x",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "null": None,
}
"""By type of a JSON schema, a value of it."""


def _wanted_schema(body: Any) -> Any:
    """The JSON schema that the answer must have; None where any text will do."""
    return ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")


def _example_of(schema: Any) -> Any:
    """A value of a schema of plain types, enums, objects and lists."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {name: _example_of(inner) for name, inner in (schema.get("properties") or {}).items()}
    return [_example_of(schema["items"])] if "items" in schema else SCHEMA_TYPES[schema["type"]]


def _decodes(part: Any) -> bool:
    """Whether a part of a message is what it says: enough of a decoder to catch a broken sample."""
    if part["type"] == "text":
        return True
    if part["type"] == "input_audio":
        return base64.b64decode(part["input_audio"]["data"], validate=True)[:4] == b"RIFF"
    url = part[part["type"]]["url"]
    if url.startswith(("http://", "https://")):
        return True
    head, _, data = url.partition(",")
    frames = [base64.b64decode(frame, validate=True) for frame in data.split(",")]
    if part["type"] == "video_url":
        return bool(head == "data:video/jpeg;base64") and all(frame.startswith(b"\x89PNG") for frame in frames)
    return bool(head == f"data:{image_format(frames[0])};base64")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", default="gemma")
    parser.add_argument("--spec-hash", default="spec-1")
    parser.add_argument("--max-model-len", type=int, default=4096)
    given = parser.parse_args()
    with FakeVllm(
        model=given.model, spec_hash=given.spec_hash, max_model_len=given.max_model_len, port=given.port
    ) as fake:
        print(fake.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
