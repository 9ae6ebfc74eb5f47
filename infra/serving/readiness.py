"""Waits until the server that was planned answers: not only any server, and not longer than it may take.

Until then everything that a start looks like from outside is waited for: silence, refused connections, 503, an older
server, a refused token whose grant is fresh. What no start looks like fails at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from infra.errors import GoogleError, ServingError
from infra.serving.client import ServedModel, ServingClient
from infra.serving.expectation import CheckExpectation
from infra.serving.server_errors import AnswerError, Refusal

GRACE_S = 300.0
"""A fresh grant of run.invoker may take minutes to count, a fresh address to be known."""
POLL_S = 5.0
SHOW_EVERY_S = 15.0
READY, MODELS = "ready", "models"

_NO_START = frozenset({Refusal.REJECTED, Refusal.UNREADABLE})
_FRESH = frozenset({Refusal.FORBIDDEN, Refusal.NOT_FOUND})


@dataclass(frozen=True)
class _Obstacle:
    """Why the server is not ready: `stage` is where a check that gives up would say it failed."""

    error: ServingError
    stage: str
    fresh: bool = False


@dataclass
class Wait:
    """`progress` takes one line; `clock` counts seconds, `sleep` waits for some."""

    client: ServingClient
    expected: CheckExpectation
    progress: Callable[[str], None]
    clock: Callable[[], float]
    sleep: Callable[[float], None]

    def until_ours(self) -> float:
        """Seconds that it took; ServingError with its `stage` set where the server is wrong or does not come."""
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
            if error.refusal in _NO_START:
                raise ServingError(str(error), stage=stage, status=error.status) from None
            return _Obstacle(error, stage, fresh=error.refusal in _FRESH)
        return self._whose(served)

    def _whose(self, served: Sequence[ServedModel]) -> _Obstacle | None:
        """None if the server is ours; an obstacle while it may be an older one; ServingError if it will never be."""
        names = {model.name: model for model in served}
        listed = ", ".join(names) or "no model"
        if self.expected.spec_hash and self.expected.spec_hash not in names:
            fact = f"another specification is still served ({listed}), not {self.expected.spec_hash}"
            return _Obstacle(ServingError(fact), MODELS)
        if self.expected.model not in names:
            raise ServingError(f"/v1/models lists {listed}, not {self.expected.model}", stage=MODELS)
        real, planned = names[self.expected.model].max_model_len, self.expected.max_model_len
        if planned and real != planned:
            raise ServingError(f"the server has a max_model_len of {real}, planned is {planned}", stage=MODELS)
        return None


def _given_up(obstacle: _Obstacle, when: str) -> ServingError:
    return ServingError(f"{when}: {obstacle.error}", stage=obstacle.stage, status=obstacle.error.status)
