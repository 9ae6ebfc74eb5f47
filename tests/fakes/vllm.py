"""A server that answers as vLLM 0.32 does, incl. the ways in which one can be wrong. Bodies are what a real one sent.

`with FakeVllm(model="m", spec_hash="spec-1") as fake:`; `fake.mode` and the other attributes may change while it runs.
As a process: `python -m tests.fakes.vllm --port N --model M --spec-hash H`.
"""

from __future__ import annotations

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit

Mode = Literal["normal", "loading", "cannot generate", "empty", "no tools", "forbidden", "no images"]

ENGINE_DEAD = {
    "error": {
        "message": "EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "type": "InternalServerError",
        "param": None,
        "code": 500,
    }
}


class FakeVllm:
    """`echo` makes it serve whatever model and hash are asked for, so that one fake outlives a flag change."""

    def __init__(
        self, *, model: str = "gemma", spec_hash: str = "spec-1", max_model_len: int = 4096, port: int = 0
    ) -> None:
        self.model, self.spec_hash, self.max_model_len = model, spec_hash, max_model_len
        self.mode: Mode = "normal"
        self.refusals_left = 0
        """How many more requests are refused in the modes loading and forbidden, before all is normal; -1: all."""
        self.kv_tokens = 30_000
        self.requests: list[tuple[str, str, Any]] = []
        self.prefixes: tuple[str, ...] = ("",)
        """Path prefixes that are answered, e.g. /slices/blue."""
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
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

    def sent(self, path: str) -> list[Any]:
        """Bodies of the requests to a path."""
        return [body for _, asked, body in self.requests if asked == path]

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Status and body (a dict, text, or a list of stream events)."""
        with self._lock:
            self.requests.append((method, path, body))
            refused = self.mode in ("loading", "forbidden") and self.refusals_left != 0
            if refused and self.refusals_left > 0:
                self.refusals_left -= 1
        if refused:
            return (503, "") if self.mode == "loading" else (403, "<html>403 Forbidden</html>")
        if path == "/health":
            return 200, ""
        if path == "/version":
            return 200, {"version": "0.32.0"}
        if path == "/metrics":
            return 200, self._metrics()
        if path == "/v1/models":
            names = (self.model, self.spec_hash)
            rows = [
                {"id": n, "object": "model", "owned_by": "vllm", "max_model_len": self.max_model_len} for n in names
            ]
            return 200, {"object": "list", "data": rows}
        if path == "/v1/chat/completions":
            return self._chat(body)
        return 404, {"error": {"message": "Not Found", "type": "NotFoundError", "param": None, "code": 404}}

    def _chat(self, body: Any) -> tuple[int, Any]:
        if body["model"] not in (self.model, self.spec_hash):
            text = f"The model `{body['model']}` does not exist."
            return 404, {"error": {"message": text, "type": "NotFoundError", "param": "model", "code": 404}}
        if self.mode == "cannot generate":
            return 500, ENGINE_DEAD
        if self.mode == "no images" and "image_url" in json.dumps(body["messages"]):
            text = "At most 0 image(s) may be provided in one prompt."
            return 400, {"error": {"message": text, "type": "BadRequestError", "param": None, "code": 400}}
        if body.get("stream"):
            return 200, self._events(int(body.get("max_tokens", 8)))
        message: dict[str, Any] = {"role": "assistant", "content": "" if self.mode == "empty" else "ready"}
        if body.get("tools") and self.mode != "no tools":
            function = {"name": body["tools"][0]["function"]["name"], "arguments": '{"state": "ready"}'}
            message = {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": function}]}
        usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return 200, {"object": "chat.completion", "model": self.model, "choices": [choice], "usage": usage}

    def _events(self, tokens: int) -> list[dict[str, Any]]:
        first = [{"choices": [{"delta": {"role": "assistant", "content": ""}}]}]
        texts = [{"choices": [{"delta": {"content": f" w{number}"}}]} for number in range(tokens)]
        return [*first, *texts, {"choices": [], "usage": {"completion_tokens": tokens}}]

    def _metrics(self) -> str:
        labels = f'block_size="16",cache_dtype="auto",engine="0",kv_cache_size_tokens="{self.kv_tokens}"'
        return (
            "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n"
            "# TYPE vllm:cache_config_info gauge\n"
            f"vllm:cache_config_info{{{labels}}} 1.0\n"
            f'vllm:num_requests_running{{engine="0",model_name="{self.model}"}} 0.0\n'
        )


def _handler(fake: FakeVllm) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each answer waits 40 ms for the acknowledgement of its head

        def do_GET(self) -> None:
            self._answer("GET", None)

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self._answer("POST", json.loads(self.rfile.read(length) or b"null"))

        def _answer(self, method: str, body: Any) -> None:
            path = urlsplit(self.path).path
            prefix = next((p for p in fake.prefixes if p and path.startswith(p)), "")
            status, answer = fake.answer(method, path.removeprefix(prefix), body)
            if isinstance(answer, list):
                lines = [f"data: {json.dumps(event)}\n\n" for event in answer]
                self._send(status, "".join([*lines, "data: [DONE]\n\n"]), "text/event-stream")
            elif isinstance(answer, str):
                self._send(status, answer, "text/plain")
            else:
                self._send(status, json.dumps(answer), "application/json")

        def _send(self, status: int, text: str, kind: str) -> None:
            content = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


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
