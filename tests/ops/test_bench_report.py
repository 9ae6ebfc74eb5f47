"""`gemma4 bench report`: a page and its plots, looked at by a real browser where there is one."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from infra.benchmark.stored_run import store
from tests.benchmark.runs import cell, stored
from tests.benchmark.test_plot_points import PLANNED, grid_run
from tests.projects import Capture, Command, command

drawing = pytest.mark.skipif(
    find_spec("matplotlib") is None,
    reason="needs matplotlib: pip install --require-hashes -r requirements-report.txt",
)
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NAMES = [
    "index.html",
    "throughput-inter-token.png",
    "throughput-ttft.png",
    "ttft-concurrency.png",
    "usd-concurrency.png",
]


@pytest.fixture
def gemma4(capsys: Capture, tmp_path: Path) -> Iterator[Command]:
    """The command line in a folder with two runs."""
    with contextlib.chdir(tmp_path):
        store(grid_run(plan=PLANNED, id="a"), Path("a.json"))
        store(grid_run(plan=PLANNED, id="b"), Path("bench/b.json"))
        yield command(capsys)


@drawing
class TestTheFolder:
    def test_holds_the_page_and_a_picture_of_each_plot_and_nothing_else(self, gemma4: Command, tmp_path: Path) -> None:
        answer = gemma4("bench", "report", "a.json", "--output", "out")
        assert answer.code == 0
        assert answer.out.splitlines() == [f"out/{name}" for name in NAMES]
        assert sorted(file.name for file in (tmp_path / "out").iterdir()) == NAMES

    def test_of_two_runs_says_what_their_comparison_found(self, gemma4: Command, tmp_path: Path) -> None:
        assert gemma4("bench", "report", "a.json", "b").code == 0
        page = (tmp_path / "bench" / "report" / "index.html").read_text("utf-8")
        assert "A and B: No difference: 10 % is excluded" in page
        assert "2 benchmarks side by side" in page

    def test_runs_that_cannot_be_compared_stand_side_by_side_and_say_why(self, gemma4: Command, tmp_path: Path) -> None:
        settings = grid_run().settings.model_copy(update={"prefix_cache": "shared"})
        store(grid_run(id="c", settings=settings), tmp_path / "c.json")
        assert gemma4("bench", "report", "a.json", "c.json", "--output", "out").code == 0
        assert "A and B cannot be compared: prompts:" in (tmp_path / "out" / "index.html").read_text("utf-8")

    def test_page_refers_to_nothing_elsewhere_with_real_pictures(self, gemma4: Command, tmp_path: Path) -> None:
        gemma4("bench", "report", "a.json", "--output", "out")
        page = (tmp_path / "out" / "index.html").read_text("utf-8")
        assert re.findall(r'(?:src|href)="(?!#)', page) == []
        assert re.findall(r"url\((?!#)", page) == []
        assert "<script" not in page
        names = re.findall(r' id="([^"]+)"', page)
        assert len({*names}) == len(names)

    def test_a_report_that_fails_leaves_the_former_one(
        self, gemma4: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gemma4("bench", "report", "a.json", "--output", "out")
        before = (tmp_path / "out" / "index.html").read_bytes()

        def interrupted(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("infra.benchmark.draw_plots.save_png", interrupted)
        assert gemma4("bench", "report", "a.json", "b", "--output", "out").code == 1
        assert (tmp_path / "out" / "index.html").read_bytes() == before
        assert sorted(file.name for file in (tmp_path / "out").iterdir()) == NAMES

    @pytest.mark.skipif(BROWSER is None, reason="needs chromium, to look at the page")
    @pytest.mark.parametrize("dark", [False, True])
    def test_a_browser_draws_the_page_in_light_and_dark(self, gemma4: Command, tmp_path: Path, dark: bool) -> None:
        from matplotlib.image import imread

        gemma4("bench", "report", "a.json", "b", "--output", "out")
        assert BROWSER
        options = ["--blink-settings=preferredColorScheme=0"] if dark else []
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1100,1500"]
        shot, page = tmp_path / "shot.png", (tmp_path / "out" / "index.html").as_uri()
        run = [BROWSER, *words, *options, f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={shot}", page]
        subprocess.run(run, check=True, capture_output=True, timeout=120)
        pixels = imread(shot)[::3, ::3]
        colours = {tuple(round(255 * float(part)) for part in pixel[:3]) for row in pixels for pixel in row}
        paper, line = ("14181b", "5ab4f0") if dark else ("ffffff", "0072b2")
        assert tuple(bytes.fromhex(paper)) in colours
        assert tuple(bytes.fromhex(line)) in colours


class TestRefusals:
    def test_without_matplotlib_it_says_what_to_install(
        self, gemma4: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("infra.ops.commands.bench_report.find_spec", lambda name: None)
        answer = gemma4("bench", "report", "a.json", "--output", "out")
        assert answer.code == 1
        assert "requirements-report.txt" in answer.err
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("a.json", "--output", "a.json"), "is not a folder"),
            (("nowhere.json",), "cannot be read"),
            (("empty.json",), "holds no measured cell"),
            (tuple(["a.json"] * 7), "is run number 7"),
        ],
    )
    def test_what_cannot_be_drawn_is_one_clean_error(self, gemma4: Command, words: tuple[str, ...], said: str) -> None:
        store(stored(cell(status="skipped", why="no room")), Path("empty.json"))
        answer = gemma4("bench", "report", *words)
        assert answer.code == 2
        assert said in answer.err


def test_matplotlib_is_not_imported_before_it_is_needed() -> None:
    code = "import infra.ops.commands.bench_report, infra.ops.commands.bench_compare, sys; print('matplotlib' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
