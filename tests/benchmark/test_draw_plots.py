"""Pictures of benchmarks: PNG files that show something, and SVG that a page can hold in light and dark."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from infra.benchmark.plot_points import Plot, labelled, plots_of
from infra.benchmark.stored_run import BenchmarkRun
from tests.benchmark.test_plot_points import PLANNED, grid_run

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install --require-hashes -r requirements-report.txt")

from infra.benchmark.draw_plots import COLOURS, MARKERS, MOST_RUNS, as_svg, save_png
from infra.ops.commands.bench_report import MOST_RUNS as REPORTED

STYLE = Path(__file__).parents[2] / "infra" / "benchmark" / "report_page.css"


def plots(*runs: BenchmarkRun) -> list[Plot]:
    return plots_of(labelled(list(runs) or [grid_run(plan=PLANNED, id="x"), grid_run(plan=PLANNED, id="y")]))


@pytest.mark.parametrize("plot", plots(), ids=lambda plot: plot.id)
class TestEveryPlot:
    def test_is_a_png_that_is_not_blank(self, plot: Plot, tmp_path: Path) -> None:
        from matplotlib.image import imread

        save_png(plot, tmp_path / "plot.png")
        pixels = imread(tmp_path / "plot.png")
        assert pixels.shape[0] > 400
        assert pixels.shape[1] > 1000
        colours = {tuple(round(255 * float(part)) for part in pixel[:3]) for row in pixels[::2] for pixel in row[::2]}
        for number in (0, 1):
            assert tuple(bytes.fromhex(COLOURS[number][1:])) in colours

    @pytest.mark.parametrize("narrow", [False, True])
    def test_is_an_svg_without_colours_of_its_own_or_anything_elsewhere(self, plot: Plot, narrow: bool) -> None:
        svg = as_svg(plot, narrow=narrow)
        root = ElementTree.fromstring(svg)
        assert "viewBox" in root.attrib
        assert not {"width", "height", "xmlns"} & set(root.attrib)
        assert "http" not in svg
        assert set(re.findall(r"(?:fill|stroke): ?(#\w+)", svg)) <= {"#ffffff"}
        assert re.findall(r'href="(?!#)', svg) == []
        assert [text for text in root.iter("text") if "var(--" not in text.get("style", "")] == []
        assert plot.y_label in [text.text for text in root.iter("text")]

    def test_is_the_same_when_drawn_again(self, plot: Plot) -> None:
        assert as_svg(plot, narrow=False) == as_svg(plot, narrow=False)


def test_no_two_pictures_of_a_page_use_one_name_twice() -> None:
    """Clip paths and markers are looked up by name in the whole page."""
    names = [
        name
        for plot in plots()
        for narrow in (False, True)
        for name in re.findall(r' id="([^"]+)"', as_svg(plot, narrow=narrow))
    ]
    assert names
    assert len({*names}) == len(names)


def test_the_tallest_bar_of_each_panel_lies_inside_it() -> None:
    """Panels have scales of their own: one that shares another's cut its bars."""
    svg = ElementTree.fromstring(as_svg(plots(grid_run())[0], narrow=False))
    ticks = [text.text for text in svg.iter("text")]
    assert "600" in ticks  # of 4 at a time
    assert "200" in ticks


class TestColours:
    def luminance(self, colour: str) -> float:
        """WCAG 2.2, relative luminance."""
        parts = [part / 255 for part in bytes.fromhex(colour[1:])]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    def contrast(self, one: str, other: str) -> float:
        high, low = sorted((self.luminance(one), self.luminance(other)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    def test_every_one_is_readable_on_the_paper_in_light_and_dark(self) -> None:
        light, _, dark = STYLE.read_text("utf-8").partition("@media (prefers-color-scheme: dark)")
        for half in (light, dark.partition("}\n}")[0]):
            colours = dict(re.findall(r"--([\w-]+): (#\w{6})", half))
            for name in ("ink", "soft", "link", *(f"run-{number}" for number in range(MOST_RUNS))):
                assert self.contrast(colours[name], colours["paper"]) >= 4.5, name

    def test_the_page_has_those_of_the_files(self) -> None:
        light = STYLE.read_text("utf-8").partition("@media")[0]
        assert tuple(re.findall(r"--run-\d: (#\w{6})", light)) == COLOURS

    def test_each_run_has_a_marker_too_and_no_more_runs_are_drawn(self) -> None:
        assert len({*MARKERS}) == len({*COLOURS}) == MOST_RUNS == REPORTED
