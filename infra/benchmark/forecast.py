"""How long a benchmark takes: predicted before it starts, and from what was measured while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from infra.benchmark.measure_cells import requests_of, warmup_of
from infra.benchmark.random_prompts import WARMUP_TOKENS
from infra.benchmark.stored_run import RunSettings, Shape
from infra.planning.performance.speed import SpeedModel
from infra.planning.units import Band

START_S = Band(4.0, 8.0, 20.0)
"""How long aiperf takes to start and to end, around each repeat (tried with 0.13.0 on two cores)."""
_SPREAD = 0.15
"""By how much the rest may be off from the pace so far, at the least."""
# The pace of a server of which nothing is planned, only to weigh cells against each other: seconds a token.
_OUTPUT_S, _INPUT_S = 0.02, 0.0005


def predicted_seconds(
    model: SpeedModel, settings: RunSettings, shape: Shape, *, servers: int, requests_at_once: int
) -> Band:
    """Return how long one repeat of a cell will take, warm-up included."""
    running = max(1, min(shape.concurrency, requests_at_once) // servers)
    counted = _seconds(model, shape, shape.output_tokens, requests_of(settings, shape), running, servers)
    warmup = warmup_of(settings, shape)
    if not warmup:
        return Band.total([START_S, counted])
    answer = min(WARMUP_TOKENS, shape.output_tokens)
    return Band.total([START_S, counted, _seconds(model, shape, answer, warmup, running, servers)])


def usual_seconds(settings: RunSettings, shape: Shape) -> float:
    """Return a weight for one repeat of a cell where no plan predicts its time."""
    rounds = -(-requests_of(settings, shape) // shape.concurrency)
    return START_S.mid + rounds * (shape.output_tokens * _OUTPUT_S + shape.input_tokens * _INPUT_S)


def _seconds(model: SpeedModel, shape: Shape, answer: int, requests: int, running: int, servers: int) -> Band:
    lengths = replace(model, prompt_tokens=shape.input_tokens, output_tokens=answer)
    rate = lengths.tokens_per_second_at(running).with_new_prompts.times(servers)
    return rate.dividing(max(requests, running * servers) * answer)


@dataclass
class Outlook:
    """How much is left of a run. `left` has the expected seconds of each repeat that is still to come, in order."""

    left: list[float]
    predicted: Band | None = None
    """Of all repeats; None where nothing is planned."""
    taken: list[tuple[float, float]] = field(default_factory=list)
    """Expected and true seconds of each repeat that is done."""

    def done(self, seconds: float) -> None:
        """Take the true time of the repeat that was next."""
        self.taken.append((self.left.pop(0), seconds))

    def skip(self, repeats: int) -> None:
        """Leave out repeats that will not run."""
        del self.left[:repeats]

    def remaining(self) -> tuple[float, float] | None:
        """Return between how many and how many seconds are left: by the prediction at first, then by the pace so far. None
        where neither is known."""
        left = sum(self.left)
        if not self.taken:
            return None if self.predicted is None else (self.predicted.low, self.predicted.high)
        paces = [true / expected for expected, true in self.taken]
        mean = sum(true for _, true in self.taken) / sum(expected for expected, _ in self.taken)
        least, most = min(mean * (1 - _SPREAD), *paces), max(mean * (1 + _SPREAD), *paces)
        return left * least, left * most


def outlook(weights: Sequence[float], bands: Sequence[Band] | None) -> Outlook:
    """Return the outlook before the first repeat: by the predicted times of all, or by weights where nothing is planned."""
    if bands is None:
        return Outlook(list(weights))
    return Outlook([band.mid for band in bands], Band.total(bands))
