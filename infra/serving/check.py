"""Does the deployed server do what the plan says? Ready, the right model, an answer, a tool call, each modality, warm.

Only the wait for readiness takes patience. From the first healthy answer on, a failure is final and says at once at
which stage, what the server answered, what the likely cause is and what to do: a server can be healthy and still be
unable to generate.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from infra.errors import ServingError
from infra.serving import causes, probes
from infra.serving.client import Chunk, ServedModel, ServingClient, spoken
from infra.serving.metrics import kv_cache_tokens

GRANT_GRACE_S = 300.0
"""A fresh grant of run.invoker may take minutes to count."""
POLL_S = 5.0
SHOW_EVERY_S = 15.0
MEASURED_TOKENS = 64
_WARM_LENGTHS = (64, 256, 1024, 4096)
_WORDS_PER_TOKEN = 0.25
"""Cautious: a random word may be four tokens, and a prompt must not outgrow the model."""


@dataclass(frozen=True)
class CheckExpectation:
    """What the plan promises. Times in seconds; `predicted_kv_tokens` is (low, likely, high)."""

    model: str
    spec_hash: str
    max_model_len: int
    tools: bool
    image: bool
    audio: bool
    predicted_kv_tokens: tuple[int, int, int]
    prompt_tokens: int
    ready_timeout_s: float


@dataclass(frozen=True)
class CheckResult:
    """What the server really did. Rates in tokens/s, times in seconds; `kv_tokens` is None where it does not say."""

    vllm_version: str
    ready_s: float
    ttft_s: float
    tokens_per_second: float
    kv_tokens: int | None
    predicted_kv_tokens: int
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data, as it is kept in the stack's state."""
        return {**asdict(self), "notes": list(self.notes)}


@dataclass
class _Check:
    client: ServingClient
    expected: CheckExpectation
    progress: Callable[[str], None]
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    notes: list[str] = field(default_factory=list)

    def run(self) -> CheckResult:
        started = self.clock()
        self._wait_until_ours()
        ready_s = self.clock() - started
        self._stage("chat", self._chat)
        if self.expected.tools:
            self._stage("tools", self._tool_call)
        if self.expected.image:
            self._stage("image", lambda: self._answered(probes.with_image()))
        if self.expected.audio:
            self._stage("audio", lambda: self._answered(probes.with_audio()))
        self._stage("warm-up", self._warm_up)
        ttft_s, rate = self._stage("measurement", self._measure)
        kv_tokens = self._kv_tokens()
        return CheckResult(
            vllm_version=self.client.version(),
            ready_s=round(ready_s, 1),
            ttft_s=round(ttft_s, 3),
            tokens_per_second=round(rate, 1),
            kv_tokens=kv_tokens,
            predicted_kv_tokens=self.expected.predicted_kv_tokens[1],
            notes=tuple(self.notes),
        )

    def _stage(self, name: str, step: Callable[[], Any]) -> Any:
        self.progress(f"checking: {name}")
        try:
            return step()
        except ServingError as error:
            raise ServingError(causes.explained(name, error), stage=name, status=error.status) from None

    def _wait_until_ours(self) -> None:
        """Wait for /health and then for our specification's hash: until then an older server may still answer."""
        deadline = self.clock() + self.expected.ready_timeout_s
        refused_since: float | None = None
        shown = -SHOW_EVERY_S
        why = "nobody answers yet"
        while True:
            try:
                status = self.client.health()
            except ServingError as error:
                status, why = error.status, str(error)
            if status == 200:
                why = self._whose(self.client.models())
                if not why:
                    return
            elif status in (401, 403):
                refused_since = refused_since or self.clock()
                why = f"/health answered {status}; a fresh grant may need minutes"
                if self.clock() - refused_since > GRANT_GRACE_S:
                    raise ServingError(causes.not_allowed(status), stage="ready", status=status)
            elif status:
                why = f"/health answered {status}"
            now = self.clock()
            if now + POLL_S > deadline:
                raise ServingError(causes.not_ready(self.expected.ready_timeout_s, why), stage="ready", status=status)
            if now - shown >= SHOW_EVERY_S:
                shown = now
                self.progress(f"waiting for the server, {deadline - now:.0f} s left: {why}")
            self.sleep(POLL_S)

    def _whose(self, served: Sequence[ServedModel]) -> str:
        """Empty if the server is ours; why it is not yet, if it may still become so; ServingError if it never will."""
        names = {model.name: model for model in served}
        if self.expected.spec_hash not in names:
            return f"another specification is still served ({', '.join(names) or 'no model'})"
        ours = names.get(self.expected.model)
        if ours is None:
            text = f"/v1/models lists {', '.join(names)}, not {self.expected.model}"
            raise ServingError(causes.explained("models", ServingError(text)), stage="models")
        if ours.max_model_len != self.expected.max_model_len:
            text = f"the server has a max_model_len of {ours.max_model_len}, planned are {self.expected.max_model_len}"
            raise ServingError(causes.explained("models", ServingError(text)), stage="models")
        return ""

    def _chat(self) -> None:
        self._answered(probes.ask("Answer with one word: ready."))

    def _answered(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """An answer with text in it; a model may stop at once, so the second question asks for a few tokens at least."""
        for options in ({"max_tokens": 16}, {"max_tokens": 16, "min_tokens": 16, "ignore_eos": True}):
            answer = self.client.chat(self.expected.model, messages, temperature=0, **options)
            if spoken(_message(answer)).strip():
                return
        raise ServingError(f"the answer holds no text: {json.dumps(_message(answer))}")

    def _tool_call(self) -> None:
        """A forced call must come back parsed. vLLM leaves Gemma's call syntax to the model, so one that does not find
        it by itself (an untrained one) is led to it by a grammar: then the parser is what is checked."""
        question = probes.ask("Report the state of the server: it is ready. Use the tool.")
        options = {**probes.tool_call(), "max_tokens": 128, "temperature": 0}
        problem = _tool_problem(_message(self.client.chat(self.expected.model, question, **options)))
        if not problem:
            return
        led = {**options, "structured_outputs": {"grammar": probes.TOOL_GRAMMAR}}
        if _tool_problem(_message(self.client.chat(self.expected.model, question, **led))):
            raise ServingError(problem)
        self.notes.append(
            "a forced tool call was only parsed with a grammar's help: the model did not write one by itself"
        )

    def _warm_up(self) -> None:
        """The first request of each new prompt length is slow; users should not be the ones who wait for it."""
        longest = min(self.expected.prompt_tokens, self.expected.max_model_len // 2)
        for length in sorted({min(length, longest) for length in _WARM_LENGTHS}):
            prompt = probes.unlike(max(1, int(length * _WORDS_PER_TOKEN)))
            self.client.chat(self.expected.model, probes.ask(prompt), max_tokens=4, temperature=0)

    def _measure(self) -> tuple[float, float]:
        """Time to the first token and tokens a second of one lone answer of a fixed length."""
        started = self.clock()
        tokens = {"max_tokens": MEASURED_TOKENS, "min_tokens": MEASURED_TOKENS, "ignore_eos": True, "temperature": 0}
        chunks = list(self.client.stream(self.expected.model, probes.ask(probes.unlike(32)), **tokens))
        spoken_at = [chunk.at_s for chunk in chunks if chunk.text]
        if not spoken_at:
            raise ServingError("the stream held no text")
        return spoken_at[0] - started, _rate(chunks, spoken_at)

    def _kv_tokens(self) -> int | None:
        try:
            real = kv_cache_tokens(self.client.metrics())
        except ServingError as error:
            self.notes.append(f"KV cache size unknown: {error}")
            return None
        low, likely, high = self.expected.predicted_kv_tokens
        if real is None:
            self.notes.append("KV cache size unknown: /metrics does not say it")
        elif not low <= real <= high:
            self.notes.append(f"the KV cache holds {real:,} tokens, predicted were {likely:,} ({low:,} to {high:,})")
        return real


def run_check(
    client: ServingClient,
    expected: CheckExpectation,
    *,
    progress: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> CheckResult:
    """Check a server from the outside. Raises ServingError with the stage, the answer, the likely cause and the fix."""
    return _Check(client, expected, progress, clock, sleep).run()


def _message(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = answer.get("choices") or [{}]
    return choices[0].get("message") or {}


def _tool_problem(message: Mapping[str, Any]) -> str:
    """Why a forced tool call is none; empty if it is one."""
    calls = message.get("tool_calls") or []
    if not calls:
        return f"the forced tool call came back as text: {json.dumps(message)[:200]}"
    function = calls[0].get("function") or {}
    if function.get("name") != probes.TOOL:
        return f"the tool call names {function.get('name')!r} instead of {probes.TOOL!r}"
    try:
        json.loads(function.get("arguments") or "")
    except ValueError:
        return f"the tool call's arguments are no JSON: {str(function.get('arguments'))[:120]!r}"
    return ""


def _rate(chunks: Sequence[Chunk], spoken_at: Sequence[float]) -> float:
    count = next((chunk.completion_tokens for chunk in reversed(chunks) if chunk.completion_tokens), len(spoken_at))
    return (count - 1) / max(spoken_at[-1] - spoken_at[0], 1e-6)
