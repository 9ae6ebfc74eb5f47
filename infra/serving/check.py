"""Checks that a deployed server does what the plan says: it is ready, answers, also as each
adapter, calls tools, takes each modality, is fast.

Only the wait for readiness may take long. After the first healthy answer a failure is final within a minute. Its error says
the stage, the server's answer, the likely cause and what to do. A healthy `/health` alone proves nothing about generating.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from infra.errors import Gemma4Error, ServingError
from infra.serving import check_stages, measure, samples
from infra.serving.chat_answer import ChatAnswer
from infra.serving.client import ChatRequest, ServingClient
from infra.serving.diagnosis import check_failure, quoted_log
from infra.serving.evaluation.check_answers import check_answers, in_words
from infra.serving.expectation import CheckExpectation, CheckResult
from infra.serving.readiness import MODELS, READY, ReadinessWait
from infra.serving.server_errors import AnswerError, FailureKind

__all__ = ["CheckExpectation", "CheckResult", "run_check"]

RETRY_FOR_S = 30.0
"""After the server was ready: for how long a request is repeated that failed on a busy or vanishing instance."""
RETRY_PAUSE_S = 3.0
_TRANSIENT = frozenset(
    {FailureKind.BUSY, FailureKind.UNAVAILABLE, FailureKind.UNREACHABLE, FailureKind.CUT, FailureKind.FORBIDDEN}
)

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
    """Check a server from outside. Raises ServingError with the stage, the answer, the likely cause and the fix.

    `log_tail` returns the server's last log lines: it is called after a failure, and the error ends with them. `platform`
    is called where the planned server did not come up and returns the platform's own reason, empty where it has none.
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
            ready_s = ReadinessWait(self.client, self.expected, self.progress, self.clock, self.sleep).until_ready()
        self._ask_for_what_is_planned()
        with self._stage("metrics"):
            version = self._version()
            kv_tokens = self._noted(measure.kv_cache(self.client, self.expected))
        prompts = measure.Prompts()
        with self._stage("warm-up"):
            measure.warm_up(self._ask, self.expected, prompts)
        with self._stage("measurement"):
            timing = self._patiently(lambda: measure.speed(self.client, self.expected, prompts))
            rate = self._noted(measure.tokens_per_second(timing))
        evaluation = None
        if self.expected.evaluated_as:
            with self._stage("evaluation"):
                evaluation = check_answers(self.client, self.expected, progress=self.progress, sleep=self.sleep)
                self.notes.append(in_words(evaluation))
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
            evaluation=evaluation,
        )

    def _ask_for_what_is_planned(self) -> None:
        model, wanted = self.expected.model, self.expected
        with self._stage("chat"):
            self.notes += check_stages.chat(self._ask, model)
        if wanted.adapters:
            with self._stage("adapters"):
                self.notes += check_stages.adapters(self._ask, model, wanted.adapters)
        if wanted.reasoning:
            with self._stage("reasoning"):
                self.notes += check_stages.reasoning(self._ask, model)
        if wanted.tools:
            with self._stage("tools"):
                self.notes += check_stages.tools(self._ask, model)
        for name, on, part in (
            ("image", wanted.image, samples.image_part),
            ("audio", wanted.audio, samples.audio_part),
            ("video", wanted.video, samples.video_part),
        ):
            if on:
                with self._stage(name):
                    self.notes += check_stages.modality(self._ask, model, part())

    def _version(self) -> str:
        """Return vLLM's version; empty, with a note, where the server does not say it."""
        try:
            real = self.client.version()
        except AnswerError as error:
            self.notes.append(f"vLLM's version is unknown: {error}")
            return ""
        planned = self.expected.vllm_version
        if planned and real.partition("+")[0] != planned:
            self.notes.append(f"vLLM {real} answers, {planned} was planned: the predictions are for {planned}")
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
                if error.kind not in _TRANSIENT or now - first > RETRY_FOR_S:
                    raise
                self.progress(f"asking again in {RETRY_PAUSE_S:.0f} s: {error}")
            self.sleep(RETRY_PAUSE_S)

    def _noted(self, found: tuple[Result, check_stages.Notes]) -> Result:
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
            try:
                lines = tuple(self.log_tail())
            except Gemma4Error as unread:  # a log that cannot be read must not hide what went wrong
                lines = (f"(its log could not be read: {unread})",)
            at = error.stage or stage
            failed = check_failure(at, error, lines, self.platform() if at in (READY, MODELS) else "")
            message = "\n".join([str(failed), *quoted_log(lines)])
            raise ServingError(message, stage=failed.stage, status=failed.status) from None
