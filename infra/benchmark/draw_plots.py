"""Draws plots with matplotlib: as PNG files, and as SVG whose colours are variables of the page that holds it.

matplotlib comes with the extra `report`. Colours are chosen so that eyes without red or green, and a printer without colour,
can tell lines apart: each run has also a marker and a pattern of its own.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.benchmark.plot_points import Plot, PlotLine, PlotPanel, PlotPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#c04f00", "#007a59", "#a8327e", "#56636b", "#8a6d00")
"""Of runs on white: Okabe and Ito's (jfly.uni-koeln.de/color), darkened to a contrast of at least 4.5 to 1."""
MARKERS = ("o", "s", "^", "D", "v", "P")
PATTERNS = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
MOST_RUNS = len(COLOURS)
_INK, _GRID, _PAPER = "#1d2327", "#d5dadd", "#ffffff"
_DPI = 160
_SETTINGS: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that every machine draws the same
    "font.size": 10,
    "svg.fonttype": "none",
    "text.parse_math": False,  # a $ is a dollar
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _GRID,
    "legend.frameon": False,
    "figure.constrained_layout.h_pad": 0.09,
    "figure.constrained_layout.w_pad": 0.06,
}


def save_png(plot: Plot, file: Path) -> None:
    """Write a plot as PNG on white."""
    with _settings():
        figure = _figure(plot, narrow=False)
        figure.savefig(file, dpi=_DPI, metadata={"Title": plot.title, "Description": plot.summary})


def as_svg(plot: Plot, *, narrow: bool) -> str:
    """Return a plot as an SVG element for a page: no fixed size, colours as variables, text as text, nothing that is looked up
    elsewhere. `narrow` puts panels below one another, for a phone."""
    buffer = io.StringIO()
    name = f"{plot.id}-{'narrow' if narrow else 'wide'}"
    with _settings() as matplotlib:
        matplotlib.rcParams["svg.hashsalt"] = name  # ids are the same in every run, and differ between plots
        figure = _figure(plot, narrow=narrow)
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _for_page(buffer.getvalue(), name)


def _settings() -> Any:
    """Return a context in which matplotlib draws as here; it yields matplotlib."""
    import contextlib

    import matplotlib

    @contextlib.contextmanager
    def drawing() -> Iterator[Any]:
        with matplotlib.rc_context(_SETTINGS):
            yield matplotlib

    return drawing()


def _figure(plot: Plot, *, narrow: bool) -> Figure:
    from matplotlib.figure import Figure  # without pyplot, which would look for a display

    panels = len(plot.panels)
    across = 1 if narrow else min(panels, 2)
    down = -(-panels // across)
    width = 4.4 if narrow else 7.2
    tall = 3.4 if narrow or across == 1 else 3.2
    figure = Figure(figsize=(width, tall * down + 0.5), layout="constrained", facecolor=_PAPER)
    flat = figure.subplots(down, across, squeeze=False, sharex=plot.x_counts).flatten()
    for axes, panel in zip(flat, plot.panels, strict=False):
        _draw_panel(axes, plot, panel)
    for axes in flat[panels:]:
        axes.set_visible(False)
    figure.supxlabel(plot.x_label, fontsize=10)
    figure.supylabel(plot.y_label, fontsize=10)
    lines = {line.number: line for panel in plot.panels for line in panel.lines}
    if len(lines) > 1:
        handles = [_handle(line) for _, line in sorted(lines.items())]
        figure.legend(handles=handles, loc="outside upper left", ncols=1 if narrow else 2)
    return figure


def _handle(line: PlotLine) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], label=line.label, **_style(line))


def _style(line: PlotLine) -> dict[str, Any]:
    number = line.number % MOST_RUNS
    return {
        "color": COLOURS[number],
        "marker": MARKERS[number],
        "linestyle": PATTERNS[number],
        "linewidth": 1.4,
        "markersize": 6,
    }


def _draw_panel(axes: Axes, plot: Plot, panel: PlotPanel) -> None:
    axes.set_title(panel.title, fontsize=10, loc="left")
    axes.grid(visible=True, linewidth=0.6)
    axes.set_axisbelow(True)
    if plot.x_counts:
        counts = sorted({point.x for one in plot.panels for line in one.lines for point in line.points})
        axes.set_xscale("log", base=2)
        axes.set_xticks(counts, [f"{count:,.0f}" for count in counts])
        axes.minorticks_off()
        axes.tick_params(labelbottom=True)
    points = [point for line in panel.lines for point in line.points]
    reach = max(point.x for point in points)
    for place, line in enumerate(panel.lines):
        shift = _shift(place, len(panel.lines)) if plot.x_counts else 1.0
        xs = [point.x * shift for point in line.points]
        axes.plot(xs, [point.y for point in line.points], zorder=3, **_style(line))
        for x, point in zip(xs, line.points, strict=True):
            _draw_uncertainty(axes, x, point, COLOURS[line.number % MOST_RUNS])
        if not plot.x_counts:
            _label(axes, line, above=bool(place % 2), apart=reach * _LABELS_APART)
    axes.set_ylim(0, 1.06 * max(point.y_high or point.y for point in points))
    if not plot.x_counts:
        axes.set_xlim(0, 1.12 * max(reach, *(point.x_high or point.x for point in points)))


_LABELS_APART = 0.09
"""Labels of one line that would be closer than this share of the axis are left out: the table has them all."""


def _shift(place: int, lines: int) -> float:
    """Return the factor that keeps bars of several runs at one concurrency apart."""
    return float(2 ** (0.09 * (place - (lines - 1) / 2)))


def _draw_uncertainty(axes: Axes, x: float, point: PlotPoint, colour: str) -> None:
    """Draw the percentiles above a median, or the interval around a figure, and the interval across."""
    low = point.y if point.y_low is None else point.y_low
    if point.y_high is not None:
        axes.plot([x, x], [low, point.y_high], color=colour, linewidth=1, zorder=2)
        axes.plot([x], [point.y_high], color=colour, marker="_", markersize=7, zorder=2)
    if point.y_ninety is not None:
        axes.plot(
            [x, x], [point.y, point.y_ninety], color=colour, linewidth=4, alpha=0.45, solid_capstyle="butt", zorder=2
        )
    if point.x_low is not None and point.x_high is not None:
        axes.plot([max(0.0, point.x_low), point.x_high], [point.y, point.y], color=colour, linewidth=1, zorder=2)


def _label(axes: Axes, line: PlotLine, *, above: bool, apart: float) -> None:
    """Write the concurrency beside points, the last one in any case, in the colour of the line."""
    written: list[float] = []
    for point in reversed(line.points):
        if any(abs(point.x - other) < apart for other in written):
            continue
        written.append(point.x)
        axes.annotate(
            str(point.key.concurrency),
            (point.x, point.y),
            textcoords="offset points",
            xytext=(0, 7) if above else (6, -10),
            ha="center" if above else "left",
            fontsize=9,
            color=COLOURS[line.number % MOST_RUNS],
        )


_VARIABLES = {
    **{colour: f"var(--run-{number})" for number, colour in enumerate(COLOURS)},
    _INK: "var(--ink)",
    _GRID: "var(--grid)",
}


def _for_page(svg: str, name: str) -> str:
    """Return an SVG file as an element of a page: see `as_svg`."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    box = re.search(r'viewBox="[^"]+"', svg)
    head = f'<svg {box[0] if box else ""} role="img" aria-labelledby="{name}-title">'
    svg = head + svg[svg.index(">") + 1 :]
    svg = re.sub(r"<g id=\"[^\"]*\">", "<g>", svg).replace("xlink:href", "href")
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    for colour, variable in _VARIABLES.items():
        svg = re.sub(re.escape(colour), variable, svg, flags=re.IGNORECASE)
    return re.sub(r"(<text style=\"(?![^\"]*fill:))", r"\1fill: var(--ink); ", svg).strip()
