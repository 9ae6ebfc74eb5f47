"""Writes one page of HTML about one run, or several side by side: it asks nothing of the network, has no script, and reads
in light and dark, on a phone, by keyboard and by ear."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

from infra.benchmark.plot_points import LabelledRun, Plot, left_out, plots_of, price_of, read_day
from infra.benchmark.stored_run import BenchmarkRun
from infra.benchmark.summary import summary_of

_STYLE = Path(__file__).with_name("report_page.css")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What a browser may do for the page: apply the style that stands in it, and nothing else."""

Draw = Callable[[Plot, bool], str]


def report_page(runs: Sequence[LabelledRun], sentences: Sequence[str], draw: Draw) -> str:
    """Return the page. `sentences` say what a comparison of the runs found; `draw(plot, narrow)` returns an SVG element."""
    plots = plots_of(runs)
    title = f"Benchmark of {runs[0].label}" if len(runs) == 1 else f"{len(runs)} benchmarks side by side"
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<title>{escape(title)}</title>",
        f"<style>\n{_STYLE.read_text('utf-8')}</style>",
        "</head>",
        "<body>",
        '<a class="skip" href="#figures">To the figures</a>',
        f"<header><h1>{escape(title)}</h1>",
        *(f'<p class="said">{escape(one)}</p>' for one in sentences),
        "</header>",
        *_navigation(plots),
        "<main>",
        *_runs(runs),
        '<div id="figures">',
        *(part for plot in plots for part in _section(plot, draw)),
        "</div>",
        *_left_out(runs),
        *_notes(runs),
        "</main>",
        f'<footer class="soft">{_reading(runs)}</footer>',
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def _navigation(plots: Sequence[Plot]) -> Iterator[str]:
    yield '<nav aria-label="On this page"><ul>'
    yield '<li><a href="#runs">What was measured</a></li>'
    yield from (f'<li><a href="#{plot.id}">{escape(plot.title)}</a></li>' for plot in plots)
    yield '<li><a href="#left-out">Not drawn</a></li></ul></nav>'


def _runs(runs: Sequence[LabelledRun]) -> Iterator[str]:
    rows = [(name, *(read(one.run) for one in runs)) for name, read in _FACTS]
    yield '<section id="runs"><h2>What was measured</h2>'
    yield _table(("", *(one.label for one in runs)), rows, "The runs and their servers", words=True)
    yield "</section>"


def _server(run: BenchmarkRun) -> str:
    plan = f"{run.plan.model} on {run.plan.accelerator}, " if run.plan else ""
    return f"{plan}vLLM {run.versions.vllm}, asked for as {run.target.model}"


def _cache(run: BenchmarkRun) -> str:
    on = {True: "on", False: "off", None: "not known"}[run.server.prefix_caching]
    prompts = "no two prompts begin alike" if run.settings.prefix_cache == "unique" else "every prompt begins alike"
    return f"{on}; {prompts}"


def _size(run: BenchmarkRun) -> str:
    return "not known" if run.server.kv_tokens is None else f"{run.server.kv_tokens:,} tokens"


def _requests(run: BenchmarkRun) -> str:
    repeats = [repeat for cell in run.cells for repeat in cell.repeats]
    sent, failed = sum(one.requests for one in repeats), sum(one.failed for one in repeats)
    return f"{sent:,} in {len(repeats)} repeats, {failed:,} failed"


def _moment(run: BenchmarkRun) -> str:
    return f"{read_day(run.started_at)}, {run.started_at[11:16]} UTC{'' if run.complete else '; interrupted'}"


_FACTS: tuple[tuple[str, Callable[[BenchmarkRun], str]], ...] = (
    ("stored as", lambda run: run.id),
    ("server", _server),
    ("address", lambda run: " ".join(filter(None, (run.target.url, run.target.member)))),
    ("started", _moment),
    ("requests", _requests),
    ("prefix cache", _cache),
    ("KV cache", _size),
    ("price", price_of),
    ("load generator", lambda run: f"aiperf {run.versions.aiperf}" if run.versions.aiperf else "not known"),
)


def _section(plot: Plot, draw: Draw) -> Iterator[str]:
    """Yield a plot in both widths, of which the style shows one, and the table of the same figures."""
    yield f'<section id="{plot.id}"><h2>{escape(plot.title)}</h2><figure>'
    for name, narrow in (("wide", False), ("narrow", True)):
        svg = draw(plot, narrow)
        label = f'<title id="{plot.id}-{name}-title">{escape(plot.summary)}</title>'
        yield f'<div class="{name}">{svg.replace(">", f">{label}", 1)}</div>'
    yield _table(plot.heads, plot.rows, f"{plot.title}: the figures", tall=True)
    yield f"<figcaption>{escape(plot.reading)} Also in {plot.id}.png.</figcaption></figure></section>"


def _left_out(runs: Sequence[LabelledRun]) -> Iterator[str]:
    yield '<section id="left-out"><h2>Not drawn</h2>'
    if rows := left_out(runs):
        yield "<p>Skipped cells cannot run on the server; impossible ones are faster than the machine can be, which is an "
        yield "error of measurement and no result.</p>"
        yield _table(("run", "cell", "state", "why"), rows, "Cells without a result", words=True)
    else:
        yield "<p>Every cell that was asked for was measured.</p>"
    yield "</section>"


def _notes(runs: Sequence[LabelledRun]) -> Iterator[str]:
    """Yield what a reader of single cells should know: failures, and what the measurement itself noticed."""
    rows = []
    for one in runs:
        for cell in one.run.cells:
            found = summary_of(cell)
            said = [*cell.notes]
            if found and found.failed and not any("failed" in note for note in said):
                said.append(f"{found.failed:,} of {found.requests:,} requests failed")
            name = f"{cell.concurrency} × {cell.input_tokens}/{cell.output_tokens}"
            rows += [(one.label, name, note) for note in said]
    if rows:
        yield '<section id="notes"><h2>Notes</h2>'
        yield _table(("run", "cell", "note"), rows, "What was noticed while measuring", words=True)
        yield "</section>"


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str, *, words: bool = False, tall: bool = False
) -> str:
    """Return a table that scrolls within itself where it is too wide, by keyboard too."""
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in heads)
    lines = [
        f'<tr><th scope="row">{escape(row[0])}</th>' + "".join(f"<td>{escape(one)}</td>" for one in row[1:]) + "</tr>"
        for row in rows
    ]
    classes, of_words = "scroll tall" if tall else "scroll", ' class="words"' if words else ""
    return "\n".join(
        [
            f'<div class="{classes}" role="region" tabindex="0" aria-label="{escape(caption)}">',
            f"<table{of_words}><caption>{escape(caption)}</caption>",
            f"<thead><tr>{head}</tr></thead><tbody>",
            *lines,
            "</tbody></table></div>",
        ]
    )


def _reading(runs: Sequence[LabelledRun]) -> str:
    seed = ", ".join(sorted({str(one.run.settings.seed) for one in runs}))
    return escape(
        "Times are the client's: the network is in them. Percentiles are over all requests of a cell, intervals over its "
        f"repeats. Temperature 0, answers of a forced length, prompts made from seed {seed}. Written by gemma4 bench report."
    )
