"""How often `gemma4 bench compare` is wrong: pairs of invented runs of one server, and of a server slowed by 10 %.

    .venv/bin/python -m scripts.simulate_comparisons --pairs 1000

What is invented of a run, all of it multiplied onto latencies: drift of the machine that all cells share (an
Ornstein-Uhlenbeck process in time, so that neighbouring repeats resemble each other and two runs an hour apart do not),
noise of each repeat, log-normal requests that resemble their predecessors within a repeat, and rarely a repeat in which
something else ran on the machine. Throughput follows from the latencies of its repeat. docs/benchmarks.md has the results.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from infra.benchmark.run_comparison import TOLERANCE, Claims, Difference, RunComparison, compare_runs
from infra.benchmark.stored_run import BenchmarkRun, Cell, Repeat, RunSettings, ServerFacts, Shape, Target, Versions

START = datetime(2026, 11, 22, tzinfo=UTC)
_REPEAT_S, _PAUSE_S = 20.0, 5.0


@dataclass(frozen=True)
class Noise:
    """How a machine's latencies vary, as standard deviations of their logarithm."""

    drift: float = 0.01
    drift_s: float = 600.0
    """Time after which drift has mostly forgotten where it was."""
    repeat: float = 0.02
    ttft: float = 0.25
    itl: float = 0.08
    resemblance: float = 0.5
    """Correlation of neighbouring requests of a repeat."""
    hiccups: float = 0.01
    """Share of repeats in which the machine is slower by HICCUP."""


HICCUP = 0.15

QUIET = Noise(drift=0.005, repeat=0.01)
USUAL = Noise()
NOISY = Noise(drift=0.02, repeat=0.04)


@dataclass(frozen=True)
class Layout:
    """How a run measures."""

    cells: int = 6
    repeats: int = 5
    requests: int | None = None
    """Of each repeat; None: as `gemma4 bench run` chooses, 8 and at least three rounds of all streams."""
    blocked: bool = False
    """All repeats of a cell before the next cell, instead of all cells before the next repeat."""
    alternate: bool = False
    """The repeats of A and B take turns, instead of B following A."""


class Machine:
    """A machine whose speed drifts: asked for ever later moments."""

    def __init__(self, noise: Noise, source: random.Random) -> None:
        self.noise, self.source = noise, source
        self._at, self._level = 0.0, source.gauss(0, noise.drift)

    def level(self, at: float) -> float:
        """Return the logarithm of how much slower than usual the machine is at a moment, in seconds."""
        kept = math.exp(-(at - self._at) / self.noise.drift_s)
        self._level = kept * self._level + self.source.gauss(0, self.noise.drift * math.sqrt(1 - kept * kept))
        self._at = at
        return self._level


def invented_pair(
    layout: Layout, noise: Noise, slowed: float, source: random.Random
) -> tuple[BenchmarkRun, BenchmarkRun]:
    """Return two runs of a machine, of which the second is slower by `slowed` (0.1 for 10 %)."""
    machine = Machine(noise, source)
    grid = [Shape(concurrency=2**at, input_tokens=512, output_tokens=128, workload="") for at in range(layout.cells)]
    repeats: dict[str, dict[int, list[Repeat]]] = {side: {at: [] for at in range(layout.cells)} for side in "ab"}
    for step, (side, at) in enumerate(_order(layout)):
        moment = step * (_REPEAT_S + _PAUSE_S)
        level = machine.level(moment) + (math.log1p(slowed) if side == "b" else 0.0)
        repeats[side][at].append(
            _repeat(grid[at], layout.requests or max(8, 3 * grid[at].concurrency), moment, level, noise, source)
        )
    return _run("a", grid, repeats["a"]), _run("b", grid, repeats["b"])


def _order(layout: Layout) -> Iterator[tuple[str, int]]:
    """Yield side and cell of every repeat in the order of measuring."""
    cells, repeats = range(layout.cells), range(layout.repeats)
    if layout.alternate:
        yield from ((side, cell) for repeat in repeats for side in ("ab", "ba")[repeat % 2] for cell in cells)
    elif layout.blocked:
        yield from ((side, cell) for side in "ab" for cell in cells for _ in repeats)
    else:
        yield from ((side, cell) for side in "ab" for _ in repeats for cell in cells)


def _repeat(shape: Shape, requests: int, at: float, level: float, noise: Noise, source: random.Random) -> Repeat:
    level += source.gauss(0, noise.repeat) + (HICCUP if source.random() < noise.hiccups else 0.0)
    load = 1 + shape.concurrency / 8
    ttft = [0.05 * load * math.exp(level + one) for one in _alike(requests, noise.ttft, noise.resemblance, source)]
    itl = [0.02 * load * math.exp(level + one) for one in _alike(requests, noise.itl, noise.resemblance, source)]
    e2e = [first + (shape.output_tokens - 1) * each for first, each in zip(ttft, itl, strict=True)]
    duration = sum(e2e) / shape.concurrency
    return Repeat(
        started_at=_moment(at),
        duration_s=duration,
        requests=requests,
        failed=0,
        errors={},
        output_tokens_per_second=requests * shape.output_tokens / duration,
        requests_per_second=requests / duration,
        ttft_s=ttft,
        itl_s=itl,
        e2e_s=e2e,
        output_tokens=[shape.output_tokens] * requests,
        input_tokens=[shape.input_tokens] * requests,
        server_output_tokens=None,
        acceptance=None,
        prefix_hit_rate=None,
        client_cpu_s=None,
    )


def _alike(count: int, deviation: float, resemblance: float, source: random.Random) -> Iterator[float]:
    """Yield deviations of which each resembles the one before it."""
    now = source.gauss(0, deviation)
    for _ in range(count):
        yield now
        now = resemblance * now + source.gauss(0, deviation * math.sqrt(1 - resemblance**2))


def _moment(at: float) -> str:
    return (START + timedelta(seconds=at)).isoformat().replace("+00:00", "Z")


def _run(name: str, grid: Sequence[Shape], repeats: dict[int, list[Repeat]]) -> BenchmarkRun:
    cells = [
        Cell(**vars(shape), status="measured", why="", notes=[], roofline_tokens_per_second=None, repeats=repeats[at])
        for at, shape in enumerate(grid)
    ]
    settings = RunSettings(
        prefix_cache="unique",
        warmup_requests=None,
        requests=None,
        repeats=len(repeats[0]),
        seed=1,
        grid=list(grid),
    )
    return BenchmarkRun(
        id=name,
        started_at=repeats[0][0].started_at,
        ended_at=repeats[len(grid) - 1][-1].started_at,
        complete=True,
        target=Target(stack=None, url="http://127.0.0.1:8000", model="gemma", member=""),
        versions=Versions(gemma4="0.1.0", vllm="0.32.0", aiperf="", plan=None),
        plan=None,
        server=ServerFacts(kv_tokens=None, max_model_len=None, max_num_seqs=None, prefix_caching=None),
        settings=settings,
        cells=cells,
    )


def comparisons(
    pairs: int, layout: Layout, noise: Noise, slowed: float, seed: int, claims: Claims | None = None
) -> Iterator[RunComparison]:
    """Yield comparisons of invented pairs; the same seed gives the same ones."""
    for number in range(pairs):
        a, b = invented_pair(layout, noise, slowed, random.Random(f"{seed} {number}"))  # noqa: S311
        yield compare_runs([a], [b], claims)


def share(found: Sequence[RunComparison], *verdicts: Difference) -> float:
    """Return the share of comparisons with one of some verdicts."""
    return sum(one.verdict in verdicts for one in found) / len(found)


def main() -> None:
    """Print one line per kind of noise and layout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=400, help="pairs per line")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    parser.add_argument("--repeats", type=int, nargs="+", default=[3, 4, 5, 8])
    options = parser.parse_args()
    print("| noise | order | repeats | equal: no difference | wrong alarm | too few | 10 % slower: found | too few |")
    print("|---|---|---|---|---|---|---|---|")
    orders = {"sweeps": Layout(), "cell by cell": Layout(blocked=True), "alternating": Layout(alternate=True)}
    for name, noise in (("quiet", QUIET), ("usual", USUAL), ("noisy", NOISY)):
        for order, layout in orders.items():
            for repeats in options.repeats:
                tried = replace(layout, repeats=repeats)
                equal, slow = (
                    Counter(
                        one.verdict
                        for one in comparisons(options.pairs, tried, noise, by, options.seed, Claims(options.tolerance))
                    )
                    for by in (0.0, 0.1)
                )
                shares = (
                    equal[Difference.NO_DIFFERENCE],
                    options.pairs - equal[Difference.NO_DIFFERENCE] - equal[Difference.TOO_FEW],
                    equal[Difference.TOO_FEW],
                    slow[Difference.SLOWER],
                    slow[Difference.TOO_FEW],
                )
                figures = " | ".join(f"{100 * count / options.pairs:.1f} %" for count in shares)
                print(f"| {name} | {order} | {repeats} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
