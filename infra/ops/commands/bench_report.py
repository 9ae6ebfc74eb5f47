"""`gemma4 bench report`: plots of stored benchmarks as PNG, and one page of HTML that needs nothing else."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from infra.benchmark.plot_points import LabelledRun, labelled, plots_of
from infra.benchmark.report_page import report_page
from infra.errors import Gemma4Error, RefusedError, SettingsError
from infra.ops.commands.bench_compare import compare_answer, load_run
from infra.ops.terminal.progress import waiting

PAGE = "index.html"
MOST_RUNS = 6
"""Beyond it lines of a plot cannot be told apart."""


def write_report(runs: Sequence[str], output: str) -> list[Path]:
    """Write the page and the plots of stored runs into a folder, and return the files, the page first.

    Raises SettingsError for what is not a stored run, Gemma4Error where matplotlib is missing.
    """
    if len(runs) > MOST_RUNS:
        raise SettingsError.of(
            runs[MOST_RUNS],
            f"is run number {MOST_RUNS + 1}.",
            f"Colours and markers tell {MOST_RUNS} runs apart.",
            "Write two reports.",
        )
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise SettingsError.of(
            "--output", f"{output} is not a folder.", fix="Name a folder; it is made where there is none."
        )
    found = labelled([load_run(name) for name in runs])
    if not plots_of(found):
        raise SettingsError.of(runs[0], "holds no measured cell.", "There is nothing to draw.", "Name another run.")
    if find_spec("matplotlib") is None:
        raise Gemma4Error(
            "matplotlib, which draws the plots, is not installed here. Install it, in a checkout with: .venv/bin/pip install "
            "--require-hashes -r requirements-report.txt; elsewhere with: pip install 'gemma4[report]'"
        )
    with waiting("drawing"):
        return _write(found, list(_sentences(runs)), folder)


def _write(runs: Sequence[LabelledRun], sentences: Sequence[str], folder: Path) -> list[Path]:
    """Write all files beside the folder first, so that an interruption leaves the former ones."""
    from infra.benchmark.draw_plots import as_svg, save_png

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as new:
        page = report_page(runs, sentences, lambda plot, narrow: as_svg(plot, narrow=narrow))
        (Path(new) / PAGE).write_text(page, "utf-8")
        for plot in plots_of(runs):
            save_png(plot, Path(new) / f"{plot.id}.png")
        names = [PAGE, *sorted(file.name for file in Path(new).glob("*.png"))]
        for name in names:
            os.replace(Path(new) / name, folder / name)
    return [folder / name for name in names]


def _sentences(runs: Sequence[str]) -> Iterator[str]:
    """Yield what comparing each run with the first finds, or why they cannot be compared."""
    for letter, name in zip("BCDEFG", runs[1:], strict=False):
        try:
            answer = compare_answer(runs[0], name)
        except RefusedError as error:
            yield f"A and {letter} cannot be compared: {error}"
        else:
            # the sentence calls the second run B
            yield f"A and {letter}: " + " ".join([*answer.warnings, answer.sentence.replace("B is", f"{letter} is")])


def show_report(runs: Sequence[str], output: str) -> None:
    """Write the report, and print where it lies."""
    page, *plots = write_report(runs, output)
    print(page)
    for file in plots:
        print(file)
