"""Figures as SVG and PNG, drawn by matplotlib without a screen and without its global state.

The legend stands beside its panel, never on the data; text in an SVG stays text.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from harken.inspection.chart import power_of_ten
from harken.inspection.palette import DEEP, LIGHT, css
from harken.inspection.png import FONT, INK
from harken.inspection.words import breadth, wrap
from harken.lab.figure import Bars, Figure, Group, Heat, Lines, Mark

COLOURS = ("#1c4280", "#e07b28", "#2a9d6f", "#b8336a", "#7a5cc0", "#3fa7d6", "#8a6d3b", "#626b76")
PALE_TO_DARK = ("#f2b34b", "#e4743a", "#c2395a", "#7f2a84", "#2f2470")  # for steps of one quantity; pale is still seen
DASHES = ((5.0, 3.0), (1.5, 2.0), (7.0, 2.0, 1.5, 2.0))  # of the marks, so that the legend can tell them
FEW = 7  # up to this many places on a logarithmic axis, each has its tick
TEXT, MUTED, GRID = css(LIGHT.text), css(LIGHT.muted), "#e3e6ea"
STYLE: Any = {
    "font.family": FONT,
    "font.size": 10,
    "text.color": TEXT,
    "axes.labelcolor": TEXT,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "harken",  # the same figure gives the same file
}


def draw_svg(figure: Figure) -> str:
    """A complete SVG document."""
    file = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        canvas = _draw(figure)
        FigureCanvasSVG(canvas)
        canvas.savefig(file, format="svg", metadata={"Date": None, "Title": figure.title})
    return file.getvalue().decode()


def draw_png(figure: Figure) -> bytes:
    """The bytes of a PNG file."""
    file = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        canvas = _draw(figure)
        FigureCanvasAgg(canvas)
        canvas.savefig(file, format="png", dpi=130)
    return file.getvalue()


def _draw(figure: Figure) -> Canvas:
    count = max(len(figure.panels), 1)
    across = count if count <= 3 else 2
    down = math.ceil(count / across)
    legends = [_labels(panel) for panel in figure.panels]
    shared = all(legend == legends[0] for legend in legends)  # then the last panel's serves all
    beside = 1.9 if shared else 1.6 * across
    size = ((6.3, 5.2, 4.5)[across - 1] * across + beside, 0.9 + 4.1 * down)
    canvas = Canvas(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1), facecolor="white")
    room = (size[0] - 0.3) * 72  # points that a line may take
    title = "\n".join(wrap(figure.title, room / 14, breadth))
    canvas.suptitle(title, x=0.012, ha="left", fontsize=14, fontweight="bold")
    if figure.note:
        note = "\n".join(wrap(figure.note, room / 9, lambda line: 0.9 * breadth(line)))  # not bold, so narrower
        canvas.supxlabel(note, x=0.012, ha="left", fontsize=9, color=MUTED)
    for index, panel in enumerate(figure.panels):
        axes = canvas.add_subplot(down, across, index + 1)
        if panel.title:
            axes.set_title(panel.title, loc="left", fontsize=11, color=TEXT, pad=9)
        axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
        if isinstance(panel, Lines):
            _lines(axes, panel)
        elif isinstance(panel, Bars):
            _bars(axes, panel)
        else:
            _heat(canvas, axes, panel)
        if any(legends[index]) and (not shared or (index + 1) % across == 0 or index + 1 == count):
            axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9.5, handlelength=1.6)
    return canvas


def _labels(panel: Lines | Bars | Heat) -> list[str]:
    if isinstance(panel, Heat):
        return []
    drawn = panel.series if isinstance(panel, Lines) else panel.groups
    return [*(part.label for part in drawn), *(mark.label for mark in panel.marks if mark.axis == "y")]


def _frame(axes: Axes, panel: Lines | Bars) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(True, axis="both" if isinstance(panel, Lines) else "y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=3)
    if panel.log_y:
        axes.set_yscale("log")
    if panel.y_limits is not None:
        axes.set_ylim(*panel.y_limits)
    if panel.log_y:
        _log_ticks(axes.yaxis, *axes.get_ylim())
    if isinstance(panel, Lines) and panel.log_x:
        _log_ticks(axes.xaxis, *axes.get_xlim())
        measured = sorted({float(x) for series in panel.series for x in series.x})
        if len(measured) <= FEW:
            axes.set_xticks(measured, [f"{x:,g}" for x in measured])
            axes.set_xticks([], minor=True)
    for number, mark in enumerate(panel.marks):
        _mark(axes, mark, DASHES[number % len(DASHES)])


def _log_ticks(axis: Axis, low: float, high: float) -> None:
    """Powers of ten, or 1, 2, 5 where the axis is short; plain digits where they are few."""
    short = high / low < 30
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if short else (1.0,), numticks=9))
    axis.set_major_formatter(FuncFormatter(lambda value, _: log_tick(value)))
    axis.set_minor_formatter(NullFormatter())


def log_tick(value: float) -> str:
    """0.01 and 1000 as they are, the others as powers.

    >>> log_tick(0.01), log_tick(1000.0), log_tick(1e-16)
    ('0.01', '1,000', '10⁻¹⁶')
    """
    power = math.log10(value) if value > 0 else 0.0
    if -3.5 < power < 3.5 or abs(power - round(power)) > 1e-6:
        return f"{value:,.6g}" if power > -3.5 else f"{value:.0e}"
    return power_of_ten(round(power))


def _mark(axes: Axes, mark: Mark, dash: tuple[float, ...]) -> None:
    """A level line is named in the legend, where it is in nobody's way; an upright one at its top."""
    look: dict[str, Any] = {"color": MUTED, "linewidth": 1.1, "linestyle": (0, dash), "zorder": 1.5}
    if mark.axis == "y":
        axes.axhline(mark.at, label=mark.label or None, **look)
    else:
        axes.axvline(mark.at, **look)
        word: dict[str, Any] = {"color": MUTED, "fontsize": 8.5, "textcoords": "offset points", "zorder": 1.6}
        place = axes.get_xaxis_transform()
        axes.annotate(mark.label, (mark.at, 1), xycoords=place, xytext=(3, -2), va="top", **word)


def _lines(axes: Axes, panel: Lines) -> None:
    if panel.log_x:
        axes.set_xscale("log")
    for series, colour in zip(panel.series, colours_of(panel), strict=True):
        gapped = [value if math.isfinite(value) else math.nan for value in map(float, series.y)]
        look: dict[str, Any] = {"color": colour, "linewidth": 1.8, "label": series.label or None}
        if panel.dots:
            look |= {"marker": "o", "markersize": 3.6}
        if series.dashed:
            look["linestyle"] = (0, (4, 2))
        if series.low is not None and series.high is not None:
            axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(series.x, gapped, **look)
    if panel.x_limits is not None:
        axes.set_xlim(*panel.x_limits)
    _frame(axes, panel)


def colours_of(panel: Lines) -> list[str]:
    """The colour of every series."""
    if panel.ordered:
        ramp = LinearSegmentedColormap.from_list("ordered", PALE_TO_DARK)
        last = max(len(panel.series) - 1, 1)
        return [matplotlib.colors.to_hex(ramp(index / last)) for index in range(len(panel.series))]
    numbers = [index if series.colour is None else series.colour for index, series in enumerate(panel.series)]
    return [COLOURS[number % len(COLOURS)] for number in numbers]


def _bars(axes: Axes, panel: Bars) -> None:
    width = 0.8 / max(len(panel.groups), 1)
    size = 8.5 if len(panel.groups) * len(panel.names) <= 16 else 7
    for index, group in enumerate(panel.groups):
        places = [place + (index - (len(panel.groups) - 1) / 2) * width for place in range(len(panel.names))]
        bars = axes.bar(places, list(group.values), width * 0.92, color=COLOURS[index % 8], label=group.label or None)
        top = list(group.values)
        if group.low is not None and group.high is not None:
            _whiskers(axes, places, group)
            top = list(group.high)
        if panel.form:
            for bar, value, high in zip(bars, group.values, top, strict=True):
                if math.isfinite(value):
                    middle = bar.get_x() + bar.get_width() / 2
                    place: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom"}
                    words = panel.form.format(value)
                    axes.annotate(words, (middle, max(high, value)), xytext=(0, 2), fontsize=size, color=TEXT, **place)
    axes.set_xticks(range(len(panel.names)), list(panel.names), color=TEXT)
    axes.margins(y=0.12)
    _frame(axes, panel)


def _whiskers(axes: Axes, places: Sequence[float], group: Group) -> None:
    assert group.low is not None and group.high is not None
    below = [max(value - low, 0) for value, low in zip(group.values, group.low, strict=True)]
    above = [max(high - value, 0) for value, high in zip(group.values, group.high, strict=True)]
    axes.errorbar(places, list(group.values), [below, above], fmt="none", ecolor=TEXT, elinewidth=1, capsize=2.5)


def _heat(canvas: Canvas, axes: Axes, panel: Heat) -> None:
    finite = [float(value) for row in panel.values for value in row if math.isfinite(value)]
    low = min(finite, default=0.0) if panel.low is None else panel.low
    high = max(finite, default=1.0) if panel.high is None else panel.high
    norm = (LogNorm if panel.log else Normalize)(low, high if high > low else low + 1, clip=True)
    drawn = axes.pcolormesh([list(row) for row in panel.values], cmap=INK, norm=norm, edgecolors="white", linewidth=1)
    axes.set_ylim(len(panel.rows), 0)
    axes.set_xticks([index + 0.5 for index in range(len(panel.columns))], list(panel.columns), color=TEXT)
    axes.set_yticks([index + 0.5 for index in range(len(panel.rows))], list(panel.rows), color=TEXT)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for down, row in enumerate(panel.values):
        for across, value in enumerate(row):
            if panel.form and math.isfinite(value):
                colour = "white" if norm(value) >= DEEP else TEXT
                place: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8.5}
                axes.text(across + 0.5, down + 0.5, panel.form.format(value), color=colour, **place)
    bar = canvas.colorbar(drawn, ax=axes, fraction=0.05, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=2, labelsize=8.5)
