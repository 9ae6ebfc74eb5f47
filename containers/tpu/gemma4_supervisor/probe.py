"""Does the server generate? A thread that asks it, in a way that does not disturb.

`/health` is not proof: a server can be healthy and answer every completion with an error. A generated token is, so one
is asked for, unless the server's own counters show that it has just made some for others: then the question would
only stand in their queue. But one long answer moves the counters while every new question fails, so now and then it is
asked all the same.
"""

from __future__ import annotations

import enum
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass

from .containers import Docker, DockerError
from .settings import Settings
from .web import Reply, TimedOut, Unreachable, call

TOKENS = re.compile(r"^vllm:generation_tokens_total(?:\{[^}]*\})? ([0-9.eE+-]+)", re.MULTILINE)
BUSY = (429, 503)
"""The queue is full; as good as silence."""
TRUST = 3
"""Looks in a row at which tokens made for others are proof enough, after one at which all was well."""


class Condition(enum.Enum):
    WELL = "generates"
    LOADING = "does not listen, or is not healthy yet"
    SLOW = "silent for too long, or its queue is full"
    SICK = "answers with errors"
    GONE = "the container has ended"


@dataclass(frozen=True)
class Finding:
    condition: Condition
    detail: str = ""


class Server:
    """The server at an address, asked for what `model` says at the time: a wish may change the name that is asked."""

    def __init__(self, settings: Settings, address: str, port: int, model: Callable[[], str]) -> None:
        self._url = f"http://{address}:{port}"
        self._model = model
        self._health_s, self._generation_s = settings.health_timeout_s, settings.generation_timeout_s
        self._tokens: float | None = None
        self._trusted = 0

    def look(self) -> Finding:
        """One look: healthy, and generating for somebody or, if need be, for us."""
        try:
            health = call("GET", f"{self._url}/health", timeout_s=self._health_s)
        except TimedOut as error:
            return Finding(Condition.SLOW, str(error))
        except Unreachable as error:
            return Finding(Condition.LOADING, str(error))
        if health.status != 200:
            return Finding(Condition.LOADING, f"/health answers HTTP {health.status}")
        if self._has_made_tokens() and self._trusted < TRUST:
            self._trusted += 1
            return Finding(Condition.WELL, "busy")
        finding = self._generate()
        has_made_tokens = self._has_made_tokens()  # also so that ours do not count as somebody's the next time
        if finding.condition is Condition.SLOW and has_made_tokens:
            finding = Finding(Condition.WELL, "busy")
        self._trusted = 0 if finding.condition is Condition.WELL else TRUST  # who failed is asked until it answers
        return finding

    def _generate(self) -> Finding:
        question = {
            "model": self._model(),
            "messages": [{"role": "user", "content": "Say OK."}],
            "max_tokens": 1,
            "temperature": 0,
        }
        try:
            reply = call(
                "POST",
                f"{self._url}/v1/chat/completions",
                timeout_s=self._generation_s,
                headers={"Content-Type": "application/json"},
                body=json.dumps(question).encode(),
            )
        except TimedOut as error:
            return Finding(Condition.SLOW, f"no token: {error}")
        except Unreachable as error:
            return Finding(Condition.SICK, f"no token: {error}")
        if reply.status in BUSY:
            return Finding(Condition.SLOW, _told(reply))
        if reply.status != 200 or not _has_choice(reply):
            return Finding(Condition.SICK, _told(reply))
        return Finding(Condition.WELL, "answered")

    def _has_made_tokens(self) -> bool:
        """Whether the server's counters have moved since they were last read."""
        try:
            metrics = call("GET", f"{self._url}/metrics", timeout_s=self._health_s)
        except Unreachable:
            return False
        before, self._tokens = self._tokens, sum(float(value) for value in TOKENS.findall(metrics.text))
        return before is not None and self._tokens > before


class Prober(threading.Thread):
    """Looks again and again, quickly until all is well, and says what it found."""

    def __init__(
        self, settings: Settings, docker: Docker, server: Server, container_id: str,
        found: Callable[[Prober, Finding], None],
    ) -> None:  # fmt: skip
        super().__init__(name="probe", daemon=True)
        self._settings, self._docker, self._server = settings, docker, server
        self._container_id, self._found = container_id, found
        self._over = threading.Event()

    def stop(self) -> None:
        self._over.set()

    def run(self) -> None:
        while not self._over.is_set():
            finding = self._look()
            if not self._over.is_set():
                self._found(self, finding)
            well = finding.condition is Condition.WELL
            self._over.wait(self._settings.probe_s if well else self._settings.start_poll_s)

    def _look(self) -> Finding:
        try:
            container = self._docker.container()
        except DockerError:
            return self._server.look()  # docker itself is in trouble, which is none of the server's
        if container is None or container.id != self._container_id:
            return Finding(Condition.GONE, "somebody took the container away")
        if container.running:
            return self._server.look()
        why = "out of memory" if container.out_of_memory else f"exit code {container.exit_code}"
        return Finding(Condition.GONE, f"the container ended with {why}")


def _has_choice(reply: Reply) -> bool:
    try:
        return bool(json.loads(reply.body)["choices"])
    except (ValueError, KeyError, TypeError):
        return False


def _told(reply: Reply) -> str:
    return f"a chat completion answers HTTP {reply.status}: {' '.join(reply.text.split())[:300]}"
