"""Names a cell, so that the same point of the grid is found in another run."""

from __future__ import annotations

from dataclasses import dataclass

from infra.benchmark.stored_run import BenchmarkRun, Cell


@dataclass(frozen=True, order=True)
class CellKey:
    """What makes a cell of one run the same as a cell of another. Sorts by lengths, then by concurrency."""

    input_tokens: int
    output_tokens: int
    concurrency: int

    @classmethod
    def of(cls, cell: Cell) -> CellKey:
        return cls(cell.input_tokens, cell.output_tokens, cell.concurrency)

    @property
    def lengths(self) -> str:
        """Tokens of prompt and answer: 512/128."""
        return f"{self.input_tokens}/{self.output_tokens}"

    def __str__(self) -> str:
        """16 × 512/128: 16 requests at a time, each with a prompt of 512 tokens and an answer of 128."""
        return f"{self.concurrency} × {self.lengths}"


def measured_cells(run: BenchmarkRun) -> dict[CellKey, Cell]:
    """Return the cells of a run that were measured, in its order."""
    return {CellKey.of(cell): cell for cell in run.cells if cell.status == "measured" and cell.repeats}
