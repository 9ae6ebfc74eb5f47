"""Waits until the planned server answers, and not an older one, for a limited time.

A server that starts may not answer, refuse connections, answer 503, refuse a token whose grant is fresh, or be an older
server that still runs: all of these are waited for. Any other answer fails at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from infra.errors import GoogleError, ServingError
from infra.serving.client import ServedModel, ServingClient
from infra.serving.expectation import CheckExpectation
from infra.serving.server_errors import AnswerError, FailureKind

GRACE_S = 300.0
"""A fresh grant of run.invoker may take minutes to count, and so may a fresh address."""
POLL_S = 5.0
SHOW_EVERY_S = 15.0
READY, MODELS = "ready", "models"

_NEVER_AT_A_START = frozenset({FailureKind.REJECTED, FailureKind.UNREADABLE})
_FRESH = frozenset({FailureKind.FORBIDDEN, FailureKind.NOT_FOUND})


@dataclass(frozen=True)
class _Obstacle:
    """Why the server is not ready yet. `stage` is the stage of the error if the wait ends here; `fresh`: a grant may be new."""

    error: ServingError
    stage: str
    fresh: bool = False


@dataclass
class ReadinessWait:
    """Waits for the `expected` server. `progress` gets one line at a time."""

    client: ServingClient
    expected: CheckExpectation
    progress: Callable[[str], None]
    clock: Callable[[], float]
    sleep: Callable[[float], None]

    def until_ready(self) -> float:
        """Wait, and return the seconds it took. Raises ServingError with its `stage` where another or no server comes."""
        started = self.clock()
        fresh_since: float | None = None
        shown = -SHOW_EVERY_S
        while True:
            obstacle = self._look()
            waited = self.clock() - started
            if obstacle is None:
                return waited
            fresh_since = None if not obstacle.fresh else waited if fresh_since is None else fresh_since
            if fresh_since is not None and waited - fresh_since > GRACE_S:
                raise _given_up(obstacle, f"after {GRACE_S / 60:.0f} minutes of trying, in case a grant was fresh")
            left = self.expected.ready_timeout_s - waited
            if left < POLL_S:
                raise _given_up(obstacle, f"not ready after {self.expected.ready_timeout_s:.0f} s")
            if waited - shown >= SHOW_EVERY_S:
                shown = waited
                self.progress(f"waiting for the server, {left:.0f} s left: {obstacle.error}")
            self.sleep(POLL_S)

    def _look(self) -> _Obstacle | None:
        stage = READY
        try:
            self.client.health()
            stage = MODELS
            served = self.client.models()
        except GoogleError as error:
            if error.status not in (401, 403):
                raise
            return _Obstacle(ServingError(str(error), status=error.status), stage, fresh=True)
        except AnswerError as error:
            if error.kind in _NEVER_AT_A_START:
                raise ServingError(str(error), stage=stage, status=error.status) from None
            return _Obstacle(error, stage, fresh=error.kind in _FRESH)
        return self._obstacle_in(served)

    def _obstacle_in(self, served: Sequence[ServedModel]) -> _Obstacle | None:
        """Return None if this is the planned server, an obstacle if it may be an older one. Raises ServingError otherwise."""
        names = {model.name: model for model in served}
        listed = ", ".join(names) or "no model"
        if self.expected.spec_hash and self.expected.spec_hash not in names:
            fact = f"another specification is still served ({listed}), not {self.expected.spec_hash}"
            return _Obstacle(ServingError(fact), MODELS)
        if self.expected.model not in names:
            raise ServingError(f"/v1/models lists {listed}, not {self.expected.model}", stage=MODELS)
        for adapter in self.expected.adapters:
            if adapter not in names:
                raise ServingError(f"/v1/models lists {listed}, not the adapter {adapter}", stage=MODELS)
        real, planned = names[self.expected.model].max_model_len, self.expected.max_model_len
        if planned and real != planned:
            raise ServingError(f"the server has a max_model_len of {real}, planned is {planned}", stage=MODELS)
        return None


def _given_up(obstacle: _Obstacle, when: str) -> ServingError:
    return ServingError(f"{when}: {obstacle.error}", stage=obstacle.stage, status=obstacle.error.status)
