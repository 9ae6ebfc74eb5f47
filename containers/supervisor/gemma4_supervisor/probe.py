"""Looks at the server again and again: does it generate? In a way that does not disturb it, and tells load from failure.

The proof is a generated token. `/health` proves nothing: a server can be healthy and answer every completion with an error,
and a server that generates for hundreds of callers may need half a minute for `/health`, since one event loop answers
everything. So the server's own counter of generated tokens is read first, with a long timeout:

    counter of tokens   /health                 the probe's question    finding
    has moved           not asked               not asked (every        HEALTHY
                                                fourth look: asked)
    cannot be read: nothing listens             not asked               LOADING
    stands still        an error                not asked               LOADING
    stands still        200                     a token                 HEALTHY
    stands still        200                     an error                FAILING
    stands still, or    no answer, or a full queue (429, 503), and the  SLOW
    no answer           counter has not moved meanwhile either
    ... and if the counter has moved meanwhile                          HEALTHY

SLOW means: no token is known to have been generated while at least one request was waiting: the probe's own. The first question
waits `generation_timeout_s`. While a server is SLOW each further question waits `unhealthy_s`, so that it keeps its place in
the server's queue, and an overloaded server never has more than one connection of the probe. `server_lifecycle` decides what
follows: SLOW alone goes on taking requests and ends the container only after `unhealthy_s` of it.

One long answer moves the counter while every new question fails; therefore the fourth look asks all the same.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import json
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from containers.shared.web import Reply, TimedOut, TransientError, call

from .docker import DockerError
from .metadata_server import OnMainThread
from .server_container import ServerContainer
from .supervisor_settings import SupervisorSettings

TOKENS = re.compile(r"^vllm:generation_tokens_total(?:\{[^}]*\})? ([0-9.eE+-]+)", re.MULTILINE)
REQUESTS = re.compile(r"^vllm:num_requests_(?:running|waiting)(?:\{[^}]*\})? ([0-9.eE+-]+)", re.MULTILINE)
BUSY = (429, 503)
"""The queue is full, which is not an error."""
LISTENS_S = 1.0
"""Longest wait for a connection, which a full queue of connections may take."""
TRUST = 3
"""So many looks in a row take tokens generated for others as proof, after one that found the server healthy."""


class ServerCondition(enum.Enum):
    """The conditions that a look can find; the values appear in messages."""

    HEALTHY = "generates"
    LOADING = "does not listen, or is not healthy yet"
    SLOW = "generates nothing while a request waits"
    FAILING = "answers with errors"
    ENDED = "the container has ended"


@dataclass(frozen=True)
class Finding:
    """What one look has found, and why."""

    condition: ServerCondition
    detail: str = ""


class ProbedServer:
    """The server at an address. `model` returns the name to ask for, which a new specification may change."""

    def __init__(self, settings: SupervisorSettings, address: str, port: int, model: Callable[[], str]) -> None:
        self._place, self._url = (address, port), f"http://{address}:{port}"
        self._model = model
        self._first_s, self._next_s = settings.generation_timeout_s, settings.unhealthy_s
        self._patience_s = self._first_s
        self._tokens: float | None = None
        self._trusted = 0

    def look(self) -> Finding:
        """Return what the table above says."""
        finding = self._look()
        self._patience_s = self._next_s if finding.condition is ServerCondition.SLOW else self._first_s
        return finding

    def listens(self) -> bool:
        """Return False where connections are refused: the process has ended. The kernel answers, whatever the load."""
        try:
            socket.create_connection(self._place, LISTENS_S).close()
        except OSError as error:
            return not isinstance(error, ConnectionRefusedError)
        return True

    def requests(self) -> float | None:
        """Return how many requests the server has, running and waiting; 0 where nobody listens, None where it does not say."""
        try:
            gauges = REQUESTS.findall(call("GET", f"{self._url}/metrics", timeout_s=self._first_s).text)
        except TimedOut:
            return None
        except TransientError:
            return 0
        return sum(map(float, gauges)) if gauges else None

    def _look(self) -> Finding:
        try:
            has_made_tokens = self._has_made_tokens()
        except TransientError as error:
            return _unanswered(error, ServerCondition.LOADING)
        if has_made_tokens and self._trusted < TRUST:
            self._trusted += 1
            return Finding(ServerCondition.HEALTHY, "busy")
        finding = self._health() or self._generate()
        if finding.condition is not ServerCondition.LOADING:
            # Read after every question: the next look must not take the token of this one for somebody else's.
            with contextlib.suppress(TransientError):
                if self._has_made_tokens() and finding.condition is ServerCondition.SLOW:
                    finding = Finding(ServerCondition.HEALTHY, "busy")
        # A server that failed is asked at every look until it answers.
        self._trusted = 0 if finding.condition is ServerCondition.HEALTHY else TRUST
        return finding

    def _health(self) -> Finding | None:
        """Return the finding that makes the question for a token pointless; None where /health answers 200."""
        try:
            reply = call("GET", f"{self._url}/health", timeout_s=self._patience_s)
        except TransientError as error:
            return _unanswered(error, ServerCondition.LOADING)
        return None if reply.status == 200 else Finding(ServerCondition.LOADING, f"/health answers HTTP {reply.status}")

    def _generate(self) -> Finding:
        messages = [{"role": "user", "content": "Say OK."}]
        question = json.dumps(
            {"model": self._model(), "messages": messages, "max_tokens": 1, "temperature": 0}
        ).encode()
        url, headers = f"{self._url}/v1/chat/completions", {"Content-Type": "application/json"}
        try:
            reply = call("POST", url, timeout_s=self._patience_s, headers=headers, body=question)
        except TransientError as error:
            return _unanswered(error, ServerCondition.FAILING)
        if reply.status in BUSY:
            return Finding(ServerCondition.SLOW, _quoted(reply))
        try:
            has_choice = reply.status == 200 and bool(json.loads(reply.body)["choices"])
        except (ValueError, KeyError, TypeError):
            has_choice = False
        if not has_choice:
            return Finding(ServerCondition.FAILING, _quoted(reply))
        return Finding(ServerCondition.HEALTHY, "answered")

    def _has_made_tokens(self) -> bool:
        """Return True if the server's counters have moved since they were last read. Raises TransientError."""
        metrics = call("GET", f"{self._url}/metrics", timeout_s=self._patience_s)
        counters = [float(value) for value in TOKENS.findall(metrics.text)]
        if not counters:
            return False  # such as an error. Taken for a reading of 0, the next one would seem to have moved
        before, self._tokens = self._tokens, sum(counters)
        return before is not None and self._tokens > before


class Prober(threading.Thread):
    """Has `found` called on the main thread after each look at the server, until it is stopped there.

    Looks come quickly while the server starts or fails.
    """

    def __init__(
        self, settings: SupervisorSettings, container: ServerContainer, server: ProbedServer, container_id: str,
        on_main_thread: OnMainThread, found: Callable[[Finding], None],
    ) -> None:  # fmt: skip
        super().__init__(name="probe", daemon=True)
        self._settings, self._container, self._server = settings, container, server
        self._container_id, self._on_main_thread, self._found = container_id, on_main_thread, found
        self._over = threading.Event()

    def stop(self) -> None:
        """Have `found` called no more."""
        self._over.set()

    def run(self) -> None:
        """Look until stopped."""
        while not self._over.is_set():
            finding = self._look()
            self._on_main_thread(functools.partial(self._tell, finding))
            unhurried = finding.condition in (ServerCondition.HEALTHY, ServerCondition.SLOW)
            self._rest(self._settings.probe_s if unhurried else self._settings.start_poll_s)

    def _tell(self, finding: Finding) -> None:
        if not self._over.is_set():
            self._found(finding)

    def _rest(self, for_s: float) -> None:
        """Wait, but not for a server that has ended meanwhile: every second gateways send it requests."""
        end = time.monotonic() + for_s
        while (left_s := end - time.monotonic()) > 0:
            if self._over.wait(min(left_s, self._settings.start_poll_s)) or not self._server.listens():
                return

    def _look(self) -> Finding:
        try:
            container = self._container.inspect()
        except DockerError:
            return self._server.look()  # docker does not answer, which says nothing about the server
        if container is None or container.id != self._container_id:
            return Finding(ServerCondition.ENDED, "the container was removed")
        if container.running:
            return self._server.look()
        why = "out of memory" if container.out_of_memory else f"exit code {container.exit_code}"
        return Finding(ServerCondition.ENDED, f"the container ended with {why}")


def _unanswered(error: TransientError, refused: ServerCondition) -> Finding:
    """Return SLOW for a server that is silent, `refused` for one that takes no connection or breaks it off."""
    return Finding(ServerCondition.SLOW if isinstance(error, TimedOut) else refused, str(error))


def _quoted(reply: Reply) -> str:
    return f"a chat completion answers HTTP {reply.status}: {' '.join(reply.text.split())[:300]}"
