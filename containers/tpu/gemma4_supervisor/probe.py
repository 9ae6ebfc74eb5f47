"""Does the server generate? A thread that asks it, in a way that does not disturb, and does not take load for illness.

Proof of life is a generated token. `/health` is none: a server can be healthy and answer every completion with an error,
and a server that generates for hundreds of callers may need half a minute for `/health`, since one event loop answers
everything. So the server's own counter of generated tokens is asked first, and patiently:

    counter of tokens   /health                 our own question        finding
    has moved           not asked               not asked (every        WELL
                                                fourth look: asked)
    cannot be asked: nobody listens             not asked               LOADING
    stands still        an error                not asked               LOADING
    stands still        200                     a token                 WELL
    stands still        200                     an error                SICK
    stands still, or    no answer, or a full queue (429, 503), and the  SLOW
    no answer           counter has not moved meanwhile either
    ... and if the counter has moved meanwhile                          WELL

SLOW means: nothing is known to have been generated while at least one request was waiting, our own. The first question
waits `generation_timeout_s`. While a server is SLOW each further question waits `unhealthy_s`, so that it keeps its place in
the server's queue, and an overloaded server never has more than one connection of ours. What follows from a finding is
decided in `server_lifecycle`: SLOW alone leaves the port open and ends the container only after `unhealthy_s` of it.

One long answer moves the counter while every new question fails; therefore the fourth look asks all the same.
"""

from __future__ import annotations

import enum
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass

from containers.shared.web import Reply, TimedOut, TransientError, call

from .docker import Docker, DockerError
from .supervisor_settings import SupervisorSettings

TOKENS = re.compile(r"^vllm:generation_tokens_total(?:\{[^}]*\})? ([0-9.eE+-]+)", re.MULTILINE)
BUSY = (429, 503)
"""The queue is full, which is no error."""
TRUST = 3
"""Looks in a row at which tokens made for others are proof enough, after one at which all was well."""


class Condition(enum.Enum):
    HEALTHY = "generates"
    LOADING = "does not listen, or is not healthy yet"
    SLOW = "generates nothing while a request waits"
    FAILING = "answers with errors"
    ENDED = "the container has ended"


@dataclass(frozen=True)
class Finding:
    condition: Condition
    detail: str = ""


class Server:
    """The server at an address, asked for what `model` says at the time: a wish may change the name that is asked."""

    def __init__(self, settings: SupervisorSettings, address: str, port: int, model: Callable[[], str]) -> None:
        self._url = f"http://{address}:{port}"
        self._model = model
        self._first_s, self._next_s = settings.generation_timeout_s, settings.unhealthy_s
        self._patience_s = self._first_s
        self._tokens: float | None = None
        self._trusted = 0

    def look(self) -> Finding:
        """One look, as the table above says."""
        finding = self._look()
        self._patience_s = self._next_s if finding.condition is Condition.SLOW else self._first_s
        return finding

    def _look(self) -> Finding:
        try:
            has_made_tokens = self._has_made_tokens()
        except TimedOut as error:
            return Finding(Condition.SLOW, str(error))
        except TransientError as error:
            return Finding(Condition.LOADING, str(error))
        if has_made_tokens and self._trusted < TRUST:
            self._trusted += 1
            return Finding(Condition.HEALTHY, "busy")
        finding = self._health() or self._generate()
        if finding.condition is not Condition.LOADING and self._has_made_tokens_meanwhile():
            # Read in any case: the next look must not take our own token for somebody else's.
            finding = Finding(Condition.HEALTHY, "busy") if finding.condition is Condition.SLOW else finding
        self._trusted = 0 if finding.condition is Condition.HEALTHY else TRUST  # who failed is asked until it answers
        return finding

    def _health(self) -> Finding | None:
        """Return the finding that speaks against asking for a token; None where nothing does."""
        try:
            reply = call("GET", f"{self._url}/health", timeout_s=self._patience_s)
        except TimedOut as error:
            return Finding(Condition.SLOW, str(error))
        except TransientError as error:
            return Finding(Condition.LOADING, str(error))
        return None if reply.status == 200 else Finding(Condition.LOADING, f"/health answers HTTP {reply.status}")

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
                timeout_s=self._patience_s,
                headers={"Content-Type": "application/json"},
                body=json.dumps(question).encode(),
            )
        except TimedOut as error:
            return Finding(Condition.SLOW, f"no token: {error}")
        except TransientError as error:
            return Finding(Condition.FAILING, f"no token: {error}")
        if reply.status in BUSY:
            return Finding(Condition.SLOW, _told(reply))
        if reply.status != 200 or not _has_choice(reply):
            return Finding(Condition.FAILING, _told(reply))
        return Finding(Condition.HEALTHY, "answered")

    def _has_made_tokens_meanwhile(self) -> bool:
        try:
            return self._has_made_tokens()
        except TransientError:
            return False

    def _has_made_tokens(self) -> bool:
        """Whether the server's counters have moved since they were last read. Raises TransientError."""
        metrics = call("GET", f"{self._url}/metrics", timeout_s=self._patience_s)
        counters = [float(value) for value in TOKENS.findall(metrics.text)]
        if not counters:
            return False  # an error, say: no reading, and not one of 0, after which the next would seem to have moved
        before, self._tokens = self._tokens, sum(counters)
        return before is not None and self._tokens > before


class Prober(threading.Thread):
    """Looks again and again, quickly while the server starts or fails, and says what it found."""

    def __init__(
        self, settings: SupervisorSettings, docker: Docker, server: Server, container_id: str,
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
            unhurried = finding.condition in (Condition.HEALTHY, Condition.SLOW)
            self._over.wait(self._settings.probe_s if unhurried else self._settings.start_poll_s)

    def _look(self) -> Finding:
        try:
            container = self._docker.container()
        except DockerError:
            return self._server.look()  # docker itself is in trouble, which is none of the server's
        if container is None or container.id != self._container_id:
            return Finding(Condition.ENDED, "somebody took the container away")
        if container.running:
            return self._server.look()
        why = "out of memory" if container.out_of_memory else f"exit code {container.exit_code}"
        return Finding(Condition.ENDED, f"the container ended with {why}")


def _has_choice(reply: Reply) -> bool:
    try:
        return bool(json.loads(reply.body)["choices"])
    except (ValueError, KeyError, TypeError):
        return False


def _told(reply: Reply) -> str:
    return f"a chat completion answers HTTP {reply.status}: {' '.join(reply.text.split())[:300]}"
