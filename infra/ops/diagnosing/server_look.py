"""Looks at the server itself: whether it is healthy, answers one short question, and what its metrics say."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from infra.errors import Gemma4Error, ServingError
from infra.ops.diagnosing.findings import Diagnosis, Line, Look, of_failure
from infra.ops.endpoint.endpoint import Endpoint
from infra.serving.client import ChatRequest, ServingClient, ServingTimeouts
from infra.serving.diagnosis import likely_cause
from infra.serving.load import ServerLoad, Span
from infra.serving.metric_signals import failures_in, signals
from infra.serving.metrics import Metrics
from infra.serving.server_errors import AnswerError, FailureKind

BETWEEN_S = 3.0
"""Between two readings of the metrics."""
_TIMEOUTS = ServingTimeouts(connect_s=5.0, question_s=15.0, completion_s=60.0)
_DRAFTED = "vllm:spec_decode_num_draft_tokens_total"


def look_at_servers(diagnosis: Diagnosis, endpoint: Endpoint, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Look at each server behind the endpoint's address. Those that are not healthy are asked nothing more."""
    for member in endpoint.members:
        where = f"server {member.name}" if member.name else "the server"
        try:
            client = endpoint.client(member, timeouts=_TIMEOUTS)
            _look_at_server(diagnosis, endpoint, client, where, sleep)
        except ServingError as error:  # what it raised has been noted, or it could not be asked
            diagnosis.looks.append(Look(where, trouble=str(error)))
        except Gemma4Error as error:
            diagnosis.looks.append(Look(where, trouble=f"no token to ask it with: {error}"))


def _look_at_server(
    diagnosis: Diagnosis, endpoint: Endpoint, client: ServingClient, where: str, sleep: Callable[[float], None]
) -> None:
    try:
        client.health()
        before = client.metrics()
        client.chat(ChatRequest(endpoint.model, ({"role": "user", "content": "Say: ready"},), 4, temperature=0))
        sleep(BETWEEN_S)
        now = client.metrics()
    except AnswerError as error:
        stage = "ready" if "/health" in str(error) or "/metrics" in str(error) else "chat"
        if _says_why(error, stage):
            raise
        diagnosis.looks.append(Look(where, "does not answer as it should"))
        diagnosis.findings.append(of_failure(likely_cause(stage, error), where, Line(str(error))))
        return
    figures = _figures(before, now)
    diagnosis.looks.append(Look(where, f"healthy, answers; {_in_words(figures)}"))
    for failure, value in failures_in(figures):
        diagnosis.findings.append(
            of_failure(failure, where, Line(f"{_NAMES[failure.signal]}: {_read(failure.signal, value)}"))
        )


def _says_why(error: AnswerError, stage: str) -> bool:
    """Return whether the answer itself says what is wrong: no right to ask, nothing at this address, or no vLLM there."""
    if error.kind in (FailureKind.FORBIDDEN, FailureKind.UNREADABLE) or error.status == 401:
        return True
    return stage == "ready" and error.kind is FailureKind.NOT_FOUND


def _figures(before: Metrics, now: Metrics) -> dict[str, float]:
    first, second = (
        ServerLoad.of([Span.since_start(reading, before=before, rate_s=BETWEEN_S)]) for reading in (before, now)
    )
    return signals(first, second, drafted=now.total(_DRAFTED) or 0.0)


_NAMES: Mapping[str, str] = {
    "kv_usage": "KV cache in use",
    "waiting_growth": "change of waiting requests in 3 s",
    "preemptions_per_request": "preemptions a request since the start",
    "acceptance_rate": "drafted tokens accepted since the start",
}


def _in_words(figures: Mapping[str, float]) -> str:
    said = ", ".join(f"{_NAMES[name]}: {_read(name, value)}" for name, value in figures.items())
    return said or "its metrics say nothing that is known here"


def _read(signal: str, value: float) -> str:
    if signal in ("kv_usage", "acceptance_rate"):
        return f"{value:.0%}"
    return f"{value:+.0f}" if signal == "waiting_growth" else f"{value:.2f}"
