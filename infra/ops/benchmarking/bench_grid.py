"""From the options of `gemma4 bench` to the points of its grid: what was asked for, or what suits the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra.benchmark.grid import WORKLOADS, Lengths, grid, named, numbers, scaled, usual_concurrencies
from infra.benchmark.stored_run import Shape
from infra.errors import SettingsError
from infra.ops.benchmarking.bench_target import BenchTarget

UNPLANNED_CONCURRENCIES = (1, 4, 16)
"""What is measured where nothing was asked for and no plan says how many requests run at once."""
_USUAL_WORKLOAD = "balanced"


@dataclass(frozen=True)
class GridOptions:
    """The options as they were typed, read as far as that goes without a server. None: not given."""

    concurrencies: Sequence[int] | None
    inputs: Sequence[int] | None
    outputs: Sequence[int] | None
    workloads: Sequence[str]

    @classmethod
    def read(
        cls, concurrency: str | None, input_tokens: str | None, output_tokens: str | None, workload: Sequence[str]
    ) -> GridOptions:
        """Read the options. Raises SettingsError."""
        if workload and (input_tokens or output_tokens):
            raise SettingsError.of(
                "--workload",
                "names the lengths of prompts and answers, and so do --input and --output.",
                fix="Give either a workload or lengths.",
            )
        return cls(
            numbers("--concurrency", concurrency) if concurrency is not None else None,
            numbers("--input", input_tokens) if input_tokens is not None else None,
            numbers("--output", output_tokens) if output_tokens is not None else None,
            named(workload),
        )

    @property
    def given(self) -> bool:
        """Whether any of them was given."""
        return any(one is not None for one in (self.concurrencies, self.inputs, self.outputs)) or bool(self.workloads)

    def shapes(self, target: BenchTarget) -> list[Shape]:
        """Return the points of the grid. What was not given is of the plan: its concurrency and its workload."""
        lengths = dict(reversed(self._lengths(target)))  # the first name of equal lengths
        return list(grid(self._concurrencies(target), list(reversed(lengths.items()))))

    def _concurrencies(self, target: BenchTarget) -> Sequence[int]:
        if self.concurrencies is not None:
            return self.concurrencies
        most = target.requests_at_once
        return UNPLANNED_CONCURRENCIES if most is None else usual_concurrencies(most)

    def _lengths(self, target: BenchTarget) -> list[tuple[Lengths, str]]:
        longest, plan = target.facts.max_model_len, target.plan
        if self.workloads or (plan is None and self.inputs is None and self.outputs is None):
            return [(scaled(WORKLOADS[name], longest), name) for name in self.workloads or [_USUAL_WORKLOAD]]
        usual = Lengths(plan.settings.workload.prompt_tokens, plan.settings.workload.output_tokens) if plan else None
        usual = usual or scaled(WORKLOADS[_USUAL_WORKLOAD], longest)
        inputs, outputs = self.inputs or [usual.input_tokens], self.outputs or [usual.output_tokens]
        return [(Lengths(one, other), "") for one in inputs for other in outputs]
