"""Does the deployed server do what the plan says? Ready, the right one, an answer, tools, each modality, warm, measured.

Only the wait for readiness takes long patience. From the first healthy answer on, a failure is final within a minute and
says at which stage, what the server answered, what the likely cause is and what to do: `/health` proves nothing about
generating.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from infra.errors import Gemma4Error, ServingError
from infra.serving import check_stages as probes
from infra.serving import measure, samples
from infra.serving.client import ChatAnswer, ChatRequest, ServingClient
from infra.serving.diagnosis import failure, quoted
from infra.serving.expectation import CheckExpectation, CheckResult
from infra.serving.readiness import MODELS, READY, Wait
from infra.serving.server_errors import AnswerError, Refusal

__all__ = ["CheckExpectation", "CheckResult", "run_check"]

RETRY_FOR_S = 30.0
"""After the server was ready: how long an answer that may pass (a busy or vanishing instance) is asked for again."""
RETRY_PAUSE_S = 3.0
_PASSING = frozenset({Refusal.BUSY, Refusal.UNAVAILABLE, Refusal.UNREACHABLE, Refusal.CUT, Refusal.FORBIDDEN})

Result = TypeVar("Result")


def run_check(
    client: ServingClient,
    expected: CheckExpectation,
    *,
    progress: Callable[[str], None] = lambda _: None,
    log_tail: Callable[[], Sequence[str]] = lambda: (),
    platform: Callable[[], str] = lambda: "",
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> CheckResult:
    """Check a server from outside; ServingError tells stage, answer, likely cause and fix.

    `log_tail` gives the server's last log lines; it is asked only after a failure, and its lines end the error.
    `platform` is asked where the planned server did not come: why, in sentences, as far as what runs it knows.
    """
    return _Check(client, expected, progress, log_tail, platform, clock, sleep).run()


@dataclass
class _Check:
    client: ServingClient
    expected: CheckExpectation
    progress: Callable[[str], None]
    log_tail: Callable[[], Sequence[str]]
    platform: Callable[[], str]
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    notes: list[str] = field(default_factory=list)

    def run(self) -> CheckResult:
        started = self.clock()
        with self._failing_at("ready"):
            ready_s = Wait(self.client, self.expected, self.progress, self.clock, self.sleep).until_ours()
        self._probe()
        with self._stage("metrics"):
            version = self._version()
            kv_tokens = self._noted(measure.kv_cache(self.client, self.expected))
        prompts = measure.Prompts()
        with self._stage("warm-up"):
            measure.warm_up(self._ask, self.expected, prompts)
        with self._stage("measurement"):
            timing = self._patiently(lambda: measure.speed(self.client, self.expected, prompts))
            rate = self._noted(measure.tokens_per_second(timing))
        predicted = self.expected.predicted_kv_tokens
        return CheckResult(
            vllm_version=version,
            ready_s=round(ready_s, 1),
            ttft_s=round(timing.ttft_s, 4),
            tokens_per_second=round(rate, 1),
            prompt_tokens=timing.prompt_tokens,
            output_tokens=timing.output_tokens,
            kv_tokens=kv_tokens,
            predicted_kv_tokens=predicted[1] if predicted else None,
            duration_s=round(self.clock() - started, 1),
            notes=tuple(self.notes),
        )

    def _probe(self) -> None:
        model, wanted = self.expected.model, self.expected
        with self._stage("chat"):
            self.notes += probes.chat(self._ask, model)
        if wanted.reasoning:
            with self._stage("reasoning"):
                self.notes += probes.reasoning(self._ask, model)
        if wanted.tools:
            with self._stage("tools"):
                self.notes += probes.tools(self._ask, model)
        for name, on, part in (
            ("image", wanted.image, samples.image_part),
            ("audio", wanted.audio, samples.audio_part),
            ("video", wanted.video, samples.video_part),
        ):
            if on:
                with self._stage(name):
                    self.notes += probes.modality(self._ask, model, part())

    def _version(self) -> str:
        """A server that does not say its version is still a good one."""
        try:
            real = self.client.version()
        except AnswerError as error:
            self.notes.append(f"vLLM's version is unknown: {error}")
            return ""
        planned = self.expected.vllm_version
        if planned and real.partition("+")[0] != planned:
            self.notes.append(f"vLLM {real} answers, planned was {planned}: predictions were made for the latter")
        return real

    def _ask(self, request: ChatRequest) -> ChatAnswer:
        return self._patiently(lambda: self.client.chat(request))

    def _patiently(self, call: Callable[[], Result]) -> Result:
        first: float | None = None
        while True:
            try:
                return call()
            except AnswerError as error:
                now = self.clock()
                first = now if first is None else first
                if error.refusal not in _PASSING or now - first > RETRY_FOR_S:
                    raise
                self.progress(f"asking again in {RETRY_PAUSE_S:.0f} s: {error}")
            self.sleep(RETRY_PAUSE_S)

    def _noted(self, found: tuple[Result, probes.Notes]) -> Result:
        self.notes += found[1]
        return found[0]

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        self.progress(f"checking: {name}")
        with self._failing_at(name):
            yield

    @contextmanager
    def _failing_at(self, stage: str) -> Iterator[None]:
        try:
            yield
        except ServingError as error:
            lines = self._log_lines()
            at = error.stage or stage
            failed = failure(at, error, lines, self.platform() if at in (READY, MODELS) else "")
            message = "\n".join([str(failed), *quoted(lines)])
            raise ServingError(message, stage=failed.stage, status=failed.status) from None

    def _log_lines(self) -> Sequence[str]:
        """A log that cannot be read must not hide what went wrong."""
        try:
            return tuple(self.log_tail())
        except Gemma4Error as error:
            return (f"(its log could not be read: {error})",)
