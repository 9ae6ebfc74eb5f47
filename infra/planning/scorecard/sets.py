"""Many compared runs as sets: how large the errors are, and which share of the runs lies inside the predicted bands.

A run may count in several sets. The sets are those that this project sets itself bars for; ROCm and XPU are compared, but
nothing is claimed of them.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from infra.catalog import Device, catalog
from infra.planning.memory.kv_cache import find_model
from infra.planning.scorecard.predict import ComparedFigure, ComparedRow
from infra.planning.scorecard.published_runs import FileRow, PublishedRun

UNCLAIMED = re.compile(r"(mi\d|rx\d|radeon|instinct|arc|b[56]0|bmg|intel|gaudi|xpu|rocm)")
"""Beginnings of names of machines on which vLLM runs with ROCm or XPU."""

Member = tuple[ComparedRow, ComparedFigure]
"""A run and the figure of it that counts."""


@dataclass(frozen=True)
class SetScore:
    """Errors and bands of one set. Errors are |predicted / published - 1| in percent."""

    name: str
    members: tuple[Member, ...]

    @property
    def errors(self) -> list[float]:
        """Return the errors in rising order, of those figures that have one."""
        return sorted(abs(figure.error_pct) for _, figure in self.members if figure.error_pct is not None)

    @property
    def median(self) -> float | None:
        """Return the error that half of the runs do not exceed; None without errors."""
        return statistics.median(self.errors) if self.errors else None

    @property
    def p90(self) -> float | None:
        """Return the error that nine tenths of the runs do not exceed, interpolated between neighbours; None without errors."""
        errors = self.errors
        if len(errors) < 2:
            return errors[0] if errors else None
        return statistics.quantiles(errors, n=10, method="inclusive")[8]

    @property
    def worst(self) -> float | None:
        """Return the largest error; None without errors."""
        return max(self.errors, default=None)

    @property
    def inside(self) -> int:
        """Return how many runs lie inside their bands."""
        return sum(figure.in_band for _, figure in self.members)

    @property
    def half_width(self) -> float | None:
        """Return the median of half the bands' widths, in percent of their middles; None without runs."""
        return statistics.median(figure.half_width_pct for _, figure in self.members) if self.members else None

    @property
    def outside(self) -> tuple[Member, ...]:
        """Return the runs that lie outside their bands."""
        return tuple(member for member in self.members if not member[1].in_band)


@dataclass(frozen=True)
class VerdictScore:
    """How verdicts and outcomes agree: the ids of runs that booted or died, and of those that contradict the verdict."""

    compared: tuple[str, ...]
    died_though_fits: tuple[str, ...]
    booted_though_refused: tuple[str, ...]


def score_sets(rows: Sequence[ComparedRow]) -> list[SetScore]:
    """Return every set that has a run, in the order of `SETS`."""
    members: dict[str, list[Member]] = {name: [] for name in SETS}
    for row in rows:
        for figure in row.figures:
            for name in sets_of(row, figure):
                members[name].append((row, figure))
    return [SetScore(name, tuple(found)) for name, found in members.items() if found]


def score_verdicts(rows: Iterable[ComparedRow]) -> VerdictScore:
    """Return how the verdicts of runs that booted or died hold."""
    compared = [row for row in rows if row.verdict_holds is not None]
    wrong = [row for row in compared if not row.verdict_holds]
    return VerdictScore(
        tuple(row.id for row in compared),
        tuple(row.id for row in wrong if row.outcome == "dies"),
        tuple(row.id for row in wrong if row.outcome == "boots"),
    )


def sets_of(row: ComparedRow, figure: ComparedFigure) -> list[str]:
    """Return the sets in which a figure of a run counts. The KV cache in GiB counts where its tokens were not published."""
    if figure.name == "kv_gib" and figure is not row.figures[0]:
        return []
    return [name for name, belongs in SETS.items() if belongs(row.row, figure.name)]


def unclaimed(row: FileRow) -> bool:
    """Return whether a run was on ROCm or XPU, as the name of its hardware says."""
    return isinstance(row, PublishedRun) and UNCLAIMED.match(row.hardware.lower()) is not None


Belongs = Callable[[FileRow, str], bool]
"""Whether a figure of that name, of a run, counts in a set."""

_FROM_CARD = ("kv_tokens", "kv_gib")


def _claimed(figures: Sequence[str], of_run: Callable[[PublishedRun], bool] = lambda _: True) -> Belongs:
    return lambda row, name: isinstance(row, PublishedRun) and name in figures and not unclaimed(row) and of_run(row)


def _not_claimed(*figures: str) -> Belongs:
    return lambda row, name: unclaimed(row) and name in figures


def _on(*beginnings: str) -> Callable[[PublishedRun], bool]:
    """Return whether a run was on a machine with one of these names, or one of their kinds: l4 means l4-aws, but not l40s."""
    pattern = re.compile(rf"({'|'.join(beginnings)})(?![a-z0-9])")
    return lambda run: pattern.match(run.hardware.lower()) is not None


_L4, _RTX, _V6E = _on("l4"), _on("rtx-pro-6000", "g4"), _on("v6e")


def _target(run: PublishedRun) -> bool:
    return _L4(run) or _RTX(run) or _V6E(run)


def _on_cuda(run: PublishedRun) -> bool:
    return run.backend is Device.GPU and not run.text_only


_RATE = ("tokens_per_second",)
SETS: Mapping[str, Belongs] = {
    "memory from card and flags": _claimed(_FROM_CARD),
    "  CUDA, catalog weights": _claimed(_FROM_CARD, lambda run: _on_cuda(run) and run.weights_gib_given is None),
    "  CUDA, weights given": _claimed(_FROM_CARD, lambda run: _on_cuda(run) and run.weights_gib_given is not None),
    "  text only": _claimed(_FROM_CARD, lambda run: bool(run.text_only)),
    "  TPU": _claimed(_FROM_CARD, lambda run: run.backend is Device.TPU and not run.text_only),
    "memory from given bytes": _claimed(("kv_tokens_from_bytes",)),
    "weights": _claimed(("weights_gib",)),
    "speed on L4, RTX PRO 6000, v6e": _claimed(_RATE, _target),
    "  L4": _claimed(_RATE, _L4),
    "  L4, one stream": _claimed(_RATE, lambda run: _L4(run) and run.running == 1),
    "  RTX PRO 6000": _claimed(_RATE, _RTX),
    "  v6e": _claimed(_RATE, _V6E),
    "speed with MTP": _claimed(_RATE, lambda run: run.speculation == "mtp"),
    "speed of the mixture of experts": _claimed(
        _RATE, lambda run: catalog().architectures[find_model(run.model).architecture].experts is not None
    ),
    "speed on other CUDA machines": _claimed(_RATE, lambda run: run.backend is Device.GPU and not _target(run)),
    "speed on other TPUs": _claimed(_RATE, lambda run: run.backend is Device.TPU and not _target(run)),
    "first token": _claimed(("first_token_ms",)),
    "start": lambda row, name: name in ("engine_start_s", "bucket_copy_s"),
    "not claimed (ROCm, XPU): memory": _not_claimed(*_FROM_CARD),
    "not claimed (ROCm, XPU): speed": _not_claimed(*_RATE),
    "not claimed (ROCm, XPU): first token": _not_claimed("first_token_ms"),
}
"""By name, which figures of which runs count; a name that is set in belongs to the set above it."""
