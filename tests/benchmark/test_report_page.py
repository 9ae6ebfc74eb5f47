"""The page about benchmarks: it needs nothing but itself, and holds the figures of the runs."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from infra.benchmark.plot_points import Plot, labelled, plots_of
from infra.benchmark.report_page import report_page
from infra.benchmark.stored_run import BenchmarkRun
from tests.benchmark.runs import cell, stored
from tests.benchmark.test_plot_points import PLANNED, grid_run
from tests.benchmark.test_run_comparison import repeats

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Reader(HTMLParser):
    """Tags with their attributes, the texts of table cells, and what was never closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def drawn(plot: Plot, narrow: bool) -> str:
    name = f"{plot.id}-{'narrow' if narrow else 'wide'}"
    return f'<svg viewBox="0 0 1 1" role="img" aria-labelledby="{name}-title"><path id="{name}"/></svg>'


def page(*runs: BenchmarkRun, sentences: tuple[str, ...] = ()) -> str:
    return report_page(labelled(runs or [grid_run(plan=PLANNED)]), sentences, drawn)


class TestStandsAlone:
    def test_refers_to_nothing_elsewhere(self) -> None:
        written = page(grid_run(plan=PLANNED, id="x"), grid_run(id="y"))
        found = Reader(written)
        assert not {"script", "link", "img", "iframe", "object", "base"} & {name for name, _ in found.tags}
        for _, attributes in found.tags:
            for key, value in attributes.items():
                assert key not in ("src", "srcset", "action", "style")
                assert not key.startswith("on")
                assert key != "href" or (value or "").startswith("#")
        assert "url(" not in written
        assert "@import" not in written
        assert "default-src 'none'" in written

    def test_is_well_formed_and_every_name_stands_once(self) -> None:
        found = Reader(page())
        assert found.open == []
        names = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
        assert len({*names}) == len(names)
        targets = [(attributes["href"] or "")[1:] for attributes in found.named("a")]
        assert set(targets) <= set(names)

    def test_no_word_of_a_run_becomes_markup(self) -> None:
        evil = '"><script>alert(1)</script>'
        run = grid_run(target=stored().target.model_copy(update={"stack": evil, "model": evil}), id=evil)
        skipped = stored(
            cell(status="skipped", why=evil), cell(*repeats([1.0, 1.0]), concurrency=2, notes=[evil], workload=evil)
        )
        written = page(run, skipped, sentences=(evil,))
        assert "<script" not in written
        assert "script" not in {name for name, _ in Reader(written).tags}
        assert written.count("&lt;script&gt;") >= 6


class TestFigures:
    def test_every_figure_of_a_plot_s_table_is_on_the_page(self) -> None:
        runs = labelled([grid_run(plan=PLANNED)])
        cells = Reader(page()).cells
        for plot in plots_of(runs):
            flat = [text for row in plot.rows for text in row]
            assert flat == cells[(start := _find(cells, flat)) : start + len(flat)]

    def test_a_cell_without_a_result_is_listed_with_its_reason(self) -> None:
        written = page()
        after = written[written.index('id="left-out"') :]
        assert "no room for 64" in after
        assert "faster than the machine" in after
        assert "no room for 64" not in written[: written.index('id="left-out"')]

    def test_a_run_without_gaps_says_so(self) -> None:
        assert "Every cell that was asked for was measured." in page(stored(cell(*repeats([1.0, 1.0]))))

    def test_failed_requests_and_an_interruption_are_said(self) -> None:
        failing = [one.model_copy(update={"failed": 3}) for one in repeats([1.0, 1.0])]
        written = page(stored(cell(*failing), complete=False))
        assert "6 of 80 requests failed" in written
        assert "interrupted" in written

    def test_what_a_comparison_found_stands_first(self) -> None:
        written = page(grid_run(id="x"), grid_run(id="y"), sentences=("B is slower than A.",))
        assert written.index("B is slower than A.") < written.index("What was measured")


class TestForEverybody:
    def test_each_picture_has_words_and_a_table_that_the_keyboard_reaches(self) -> None:
        written = page()
        found = Reader(written)
        pictures = found.named("svg")
        plots = plots_of(labelled([grid_run(plan=PLANNED)]))
        assert len(pictures) == 2 * len(plots)
        titles = dict(re.findall(r'<title id="([^"]+)">([^<]+)</title>', written))
        for picture in pictures:
            assert picture["role"] == "img"
            assert len(titles[picture["aria-labelledby"] or ""]) > 60
        regions = [one for one in found.named("div") if one.get("role") == "region"]
        assert len(regions) == len(found.named("table"))
        assert all(one["tabindex"] == "0" and one["aria-label"] for one in regions)
        assert all(one.get("scope") in ("col", "row") for one in found.named("th"))

    def test_says_its_language_and_leads_past_what_repeats(self) -> None:
        found = Reader(page())
        assert found.named("html") == [{"lang": "en"}]
        assert found.named("a")[0] == {"class": "skip", "href": "#figures"}
        assert len(found.named("h1")) == len(found.named("main")) == 1


def _find(cells: list[str], wanted: list[str]) -> int:
    return next((at for at in range(len(cells)) if cells[at : at + len(wanted)] == wanted), -1)


@pytest.mark.parametrize("cached", [True, False, None])
def test_says_of_the_prefix_cache_what_is_known(cached: bool | None) -> None:
    run = grid_run(server=stored().server.model_copy(update={"prefix_caching": cached}))
    said = {True: "on; no two prompts", False: "off; no two prompts", None: "not known; no two prompts"}[cached]
    assert said in page(run)
