"""Runs a benchmark from the first word to the last: what it will take, each cell, and the file after each."""

from __future__ import annotations

import random
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from infra.benchmark import aiperf
from infra.benchmark.forecast import Outlook, outlook, predicted_seconds, usual_seconds
from infra.benchmark.grid import scaling_note
from infra.benchmark.measure_cells import Limits, Rig, measure_repeat, measured_cell, skipped_cell
from infra.benchmark.random_prompts import PromptMaker, count_words
from infra.benchmark.roofline import most_tokens_per_second
from infra.benchmark.stored_run import BenchmarkRun, Cell, Repeat, Shape, store
from infra.errors import Fault, RefusedError
from infra.google.times import moment
from infra.ops.benchmarking.bench_target import BenchTarget
from infra.ops.terminal.progress import waiting
from infra.planning.units import Band, counted, read_duration, read_minutes, read_predicted, read_usd
from infra.suggestions import printable

TOKEN_LIFE_S = 50 * 60
"""How long one repeat may take with one identity token: it ends within the hour."""


def say(line: str) -> None:
    """Say how far it is, on standard error."""
    print(printable(line), file=sys.stderr, flush=True)


@dataclass
class BenchRun:
    """A benchmark that runs: `run` is what is stored of it so far, `file` where."""

    target: BenchTarget
    executable: Path
    run: BenchmarkRun
    file: Path
    salt: str = ""
    """Makes other prompts than an earlier attempt at the same cells, some of which may be in the prefix cache."""
    say: Callable[[str], None] = say

    def to_the_end(self) -> BenchmarkRun:
        """Measure every cell that is missing, and return the whole run. Whatever ends this, the file has what was measured."""
        self._keep(complete=False)  # a file that cannot be written shows before anything is paid for
        missing = list(self._missing())
        times = [self._times(shape) for shape, _, _ in missing]
        left = [count for _, _, count in missing]
        self._announce(missing, times)
        weights = [weight for (weight, _), count in zip(times, left, strict=True) for _ in range(count)]
        bands = [band for (_, band), count in zip(times, left, strict=True) for _ in range(count) if band is not None]
        ahead = outlook(weights, bands if self.target.plan else None)
        if missing:
            self._refuse_what_outlives_a_token(missing, times)
            rig = self._rig()
            for number, (shape, place, _) in enumerate(missing, 1):
                self._measure(rig, shape, place, f"cell {number} of {len(missing)}", ahead)
        self._keep(complete=True)
        return self.run

    def _missing(self) -> Iterator[tuple[Shape, int, int]]:
        """Yield what is to be measured: the point, its place in the grid, and how many repeats are missing. Points that cannot
        run are stored as skipped."""
        done = {_key(cell): cell for cell in self.run.cells}
        for place, shape in enumerate(self.run.settings.grid):
            if (cell := done.get(_key(shape))) is not None:
                missing = self.run.settings.repeats - len(cell.repeats)
                if cell.status == "measured" and missing > 0:
                    yield shape, place, missing
            elif why := self.target.room.obstacle(shape):
                self.say(f"skipped: {_words(shape)}: {why}")
                self._put(skipped_cell(shape, why))
            else:
                yield shape, place, self.run.settings.repeats

    def _measure(self, rig: Rig, shape: Shape, place: int, where: str, ahead: Outlook) -> None:
        """Measure the repeats of one cell that are missing. What is whole when something ends this is stored."""
        kept = [cell for cell in self.run.cells if _key(cell) == _key(shape)]
        repeats = [repeat for cell in kept for repeat in cell.repeats]
        wanted = self.run.settings.repeats
        try:
            while len(repeats) < wanted:
                began = time.monotonic()
                turn = f"{place} {len(repeats)} {self.salt}"
                with waiting(f"{where}: {_words(shape)}, repeat {len(repeats) + 1} of {wanted}{_left_words(ahead)}"):
                    repeats.append(measure_repeat(rig, self.run.settings, shape, turn))
                ahead.done(time.monotonic() - began)
        finally:
            if repeats:
                self._put(measured_cell(shape, repeats, self.run.settings, self._limits(shape)))
        self.say(f"{where}: {_words(shape)}: {_result(repeats)}{_left_words(ahead)}")

    def _limits(self, shape: Shape) -> Limits:
        target, bound = self.target, None
        if target.plan is not None:
            computed = self.run.settings.prefix_cache == "unique"
            bound = most_tokens_per_second(target.plan.server, shape, servers=target.servers, prompts_computed=computed)
        return Limits(bound, target.requests_at_once, scaling_note(shape, target.facts.max_model_len))

    def _rig(self) -> Rig:
        target, settings = self.target, self.run.settings
        with waiting("asking the server how it counts words"):
            counted_words = count_words(
                target.endpoint.client(target.member),
                target.model,
                target.facts.max_model_len,
                random.Random(secrets.randbits(64)),  # noqa: S311 - no secret
            )
        maker = PromptMaker(
            target.model, counted_words, target.facts.max_model_len, settings.prefix_cache == "shared", settings.seed
        )
        return Rig(self._send, maker.bodies, target.readings, target.url, target.model)

    def _send(self, load: aiperf.Load) -> aiperf.Recorded:
        tokens = self.target.endpoint.tokens
        if tokens is not None and tokens.is_identity:
            tokens.forget()  # the next one lasts a whole hour
        token = tokens.token() if tokens is not None else None
        with aiperf.scratch_folder() as folder:
            return aiperf.run(self.executable, load, token=token, folder=folder)

    def _times(self, shape: Shape) -> tuple[float, Band | None]:
        """Return the weight of a repeat, and how long it is predicted to take where a plan says it."""
        target, settings = self.target, self.run.settings
        if target.plan is None or target.requests_at_once is None:
            return usual_seconds(settings, shape), None
        band = predicted_seconds(
            target.plan.speed_model, settings, shape, servers=target.servers, requests_at_once=target.requests_at_once
        )
        return band.mid, band

    def _announce(self, missing: Sequence[tuple[Shape, int, int]], times: Sequence[tuple[float, Band | None]]) -> None:
        """Say what will be measured, how long that takes about, and what it costs."""
        repeats = sum(count for _, _, count in missing)
        bands = [band.times(count) for (_, band), (_, _, count) in zip(times, missing, strict=True) if band is not None]
        what = f"{counted(len(missing), 'cell')}, {counted(repeats, 'repeat')}"
        plan = self.target.plan
        if plan is None or not bands:
            nothing = all(cell.status == "skipped" for cell in self.run.cells)
            done = "nothing can be measured: every cell was skipped" if nothing else "everything is measured"
            self.say(f"{what}; how long it takes shows after the first repeat" if missing else done)
            return
        whole = Band.total(bands)
        usd = plan.cost.usd_per_hour / 3600
        cost = Band(whole.low * usd, whole.mid * usd, whole.high * usd * self.target.servers)
        per = f", {self.target.servers} servers at most" if self.target.servers > 1 else ""
        self.say(
            f"{what}; {read_predicted(whole, read_duration, ends=read_minutes)}, {read_predicted(cost, read_usd)} at "
            f"{read_usd(plan.cost.usd_per_hour)} an hour{per}"
        )

    def _refuse_what_outlives_a_token(
        self, missing: Sequence[tuple[Shape, int, int]], times: Sequence[tuple[float, Band | None]]
    ) -> None:
        tokens = self.target.endpoint.tokens
        if tokens is None or not tokens.is_identity:
            return
        for (shape, _, _), (_, band) in zip(missing, times, strict=True):
            if band is not None and band.high > TOKEN_LIFE_S:
                took = f"one repeat of {_words(shape)} may take {read_duration(band.high)}"
                raise RefusedError(
                    [
                        Fault(
                            "--requests",
                            f"{took}, and an identity token lasts an hour.",
                            "Requests at its end would be refused.",
                            "Ask for fewer with --requests, or for shorter answers.",
                        )
                    ]
                )

    def _put(self, cell: Cell) -> None:
        """Store a cell in the order of the grid, in place of what was stored of it."""
        cells = {_key(one): one for one in [*self.run.cells, cell]}
        ordered = [cells[_key(shape)] for shape in self.run.settings.grid if _key(shape) in cells]
        self.run = self.run.model_copy(update={"cells": ordered})
        self._keep(complete=False)

    def _keep(self, *, complete: bool) -> None:
        self.run = self.run.model_copy(update={"complete": complete, "ended_at": moment(time.time())})
        store(self.run, self.file)


def _key(shape: Shape) -> tuple[int, int, int]:
    return shape.concurrency, shape.input_tokens, shape.output_tokens


def _words(shape: Shape) -> str:
    return f"{shape.concurrency:,} × {shape.input_tokens:,}/{shape.output_tokens:,}"


def _result(repeats: Sequence[Repeat]) -> str:
    rates = [repeat.output_tokens_per_second for repeat in repeats]
    return f"{sum(rates) / len(rates):,.1f} tok/s"


def _left_words(ahead: Outlook) -> str:
    """Return when the run will be over, between two times of the clock; empty where that is not known, or nothing is left."""
    between = ahead.remaining() if ahead.left else None
    if between is None:
        return ""
    now = datetime.now().astimezone()
    early, late = (f"{now + timedelta(seconds=seconds):%H:%M}" for seconds in between)
    if early == late:
        return f"; ends about {late}"
    return f"; ends between {early} and {late}, in {read_minutes(between[0])} to {read_minutes(between[1])}"
