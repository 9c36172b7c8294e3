"""Lines and bars over axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from harken.inspection.figure.palette import LIGHT, css
from harken.inspection.figure.paper.style import LINE, MUTED, SERIES, TEXT, WARM, Drawn, Hint, Measure, label_of
from harken.inspection.figure.spec import Bars, Group, Lines, Mark
from harken.inspection.figure.text import printable
from harken.inspection.figure.values import log_tick

MARKERS = "os^DvPX*<>hpd"  # more than there are colours
DASHES = ((5.0, 3.0), (1.5, 2.0), (7.0, 2.0, 1.5, 2.0))  # of marks, so that the legend can tell them apart


def colours_of(panel: Lines) -> list[str]:
    """The colour of every series."""
    if panel.ordered:
        return [css(colour) for colour in LIGHT.ramp_colours(len(panel.series))]
    numbers = [index if series.colour is None else series.colour for index, series in enumerate(panel.series)]
    return [SERIES[number % len(SERIES)] for number in numbers]


def draw_lines(panel: Lines, axes: Axes, measure: Measure, count: int) -> Drawn:
    if panel.log_x:
        axes.set_xscale("log")
    hints: list[Hint] = []
    if panel.shade is not None:
        _shade(axes, list(map(float, panel.series[0].x)), panel.shade)
    lines = list(zip(panel.series, colours_of(panel), strict=True))
    names = dict(zip(sorted({float(x) for line in panel.series for x in line.x}), panel.names, strict=False))
    for index, (series, colour) in enumerate(lines):
        values = [value if math.isfinite(value) else math.nan for value in map(float, series.y)]
        wide = 1.6 + (0.4 * (len(lines) - 1 - index) if len(lines) <= 4 else 0.0)  # one below another can be seen
        look: dict[str, Any] = {
            "color": colour,
            "linewidth": wide,
            "label": label_of(series.label, series.note) or None,
        }
        if panel.dots:
            look |= {"marker": MARKERS[index % len(MARKERS)], "markersize": 3.2 + wide, "markeredgewidth": 0}
            look["markevery"] = max(1, len(values) // 12) if len(values) > 50 else 1
        if series.dashed:
            look["linestyle"] = (0, (4, 2))
        if series.low is not None and series.high is not None:
            axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(series.x, values, **look)
        for x, y in zip(map(float, series.x), values, strict=True):
            if math.isfinite(y) and (y > 0 or not panel.log_y):
                hints.append((axes, x, y, x, y, f"{series.label} at {names.get(x, f'{x:g}')}: {y:.4g}".strip()))
    for number, band in enumerate(panel.bands):
        look = {
            "color": SERIES[band.colour % len(SERIES)],
            "linewidth": 0,
            "zorder": 1.2,
            "alpha": 0.16 + 0.14 * number,
        }
        axes.fill_between(band.x, band.low, band.high, label=printable(band.label), **look)
    if panel.x_limits is not None:
        axes.set_xlim(*panel.x_limits)
    _frame(axes, panel)
    wide = {1: 6.0, 2: 4.6}.get(count, 2.85)
    return (wide, 1.2 if panel.flat else 3.6 if count == 1 else 3.2), hints


def _shade(axes: Axes, x: list[float], weights: Sequence[float]) -> None:
    """Columns behind the points, the deeper the larger the weight."""
    step = (x[-1] - x[0]) / max(len(x) - 1, 1) if len(x) > 1 else 1.0
    most = max(max(weights, default=0.0), 1e-12)
    for centre, weight in zip(x, weights, strict=True):
        if weight > 0:
            axes.axvspan(centre - step / 2, centre + step / 2, color=WARM, alpha=0.4 * weight / most, linewidth=0)


def _frame(axes: Axes, panel: Lines | Bars) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    horizontal = isinstance(panel, Bars) and panel.horizontal
    if not horizontal:
        axes.grid(True, axis="both" if isinstance(panel, Lines) else "y", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=3)
    axes.set(xlabel=printable(panel.x_label), ylabel=printable(panel.y_label))
    if panel.log_y:
        axes.set_yscale("log")
    if panel.y_limits is not None:
        axes.set_ylim(*panel.y_limits)
    if panel.log_y:
        _log_ticks(axes.yaxis, *axes.get_ylim())
    elif not horizontal:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        if isinstance(panel, Lines) and panel.flat:
            axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    if isinstance(panel, Lines):
        _x_ticks(axes, panel)
    for number, mark in enumerate(panel.marks):
        _mark(axes, mark, DASHES[number % len(DASHES)])


def _x_ticks(axes: Axes, panel: Lines) -> None:
    measured = sorted({float(x) for series in panel.series for x in series.x})
    if panel.x_ticks:
        axes.set_xticks([x for x, _ in panel.x_ticks], [printable(name) for _, name in panel.x_ticks])
        axes.xaxis.set_minor_locator(NullLocator())
    elif panel.log_x:
        _log_ticks(axes.xaxis, *axes.get_xlim())
        if len(measured) <= 7:
            axes.set_xticks(measured, [f"{x:,g}" for x in measured])
            axes.xaxis.set_minor_locator(NullLocator())
    elif all(x == int(x) for x in measured):  # counted things have no halves
        if len(measured) <= 8 and panel.x_limits is None:
            axes.set_xticks(measured)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _log_ticks(axis: Axis, low: float, high: float) -> None:
    """Powers of ten, or 1, 2, 5 where the axis is short."""
    short = high / low < 30
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if short else (1.0,), numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda value, _: log_tick(value)))
    axis.set_minor_formatter(NullFormatter())
    axis.set_minor_locator(NullLocator())


def _mark(axes: Axes, mark: Mark, dash: tuple[float, ...]) -> None:
    """A horizontal line is named in the legend, a vertical one at its top."""
    look: dict[str, Any] = {"color": MUTED, "linewidth": 1.1, "linestyle": (0, dash), "zorder": 1.5}
    if mark.axis == "y":
        axes.axhline(mark.at, label=printable(mark.label) or None, **look)
        return
    axes.axvline(mark.at, **look)
    anchor: dict[str, Any] = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points", "va": "top"}
    axes.annotate(printable(mark.label), (mark.at, 1), xytext=(4, -2), color=MUTED, fontsize=8.5, **anchor)


def draw_bars(panel: Bars, axes: Axes, measure: Measure, count: int) -> Drawn:
    groups, names = len(panel.groups), [printable(name) for name in panel.names]
    thick, hints = 0.8 / max(groups, 1), []
    for index, group in enumerate(panel.groups):
        centres = [at + (index - (groups - 1) / 2) * thick for at in range(len(names))]
        bar = axes.barh if panel.horizontal else axes.bar
        bar(
            centres,
            list(group.values),
            thick * 0.92,
            color=SERIES[index % len(SERIES)],
            label=printable(group.label) or None,
        )
        tops = _whiskers(axes, centres, group) if group.low is not None else list(group.values)
        for at, (centre, value, top) in enumerate(zip(centres, group.values, tops, strict=True)):
            if not math.isfinite(value):
                continue
            hint = f"{panel.names[at]} {group.label}: {value:.4g}".replace("  ", " ")
            low, half = (axes.get_ylim()[0] if panel.log_y else 0.0), thick / 2
            area = (
                (low, centre - half, value, centre + half)
                if panel.horizontal
                else (centre - half, low, centre + half, value)
            )
            hints.append((axes, *area, hint))
            if panel.form:
                where = (max(top, value), centre) if panel.horizontal else (centre, max(top, value))
                look: dict[str, Any] = {
                    "textcoords": "offset points",
                    "color": TEXT,
                    "fontsize": 8.5 if groups * len(names) <= 16 else 7,
                }
                look |= {"xytext": (3, 0), "va": "center"} if panel.horizontal else {"xytext": (0, 2), "ha": "center"}
                axes.annotate(panel.form.format(value), where, **look)
    if panel.horizontal:
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.xaxis.set_major_locator(NullLocator())
        axes.spines["bottom"].set_visible(False)
        _frame(axes, panel)
        axes.tick_params(length=0)
        return (1.9, max(0.26 * len(names) * groups, 0.5)), hints
    axes.margins(y=0.12)
    wide = max({1: 6.0, 2: 4.4}.get(count, 2.85), 0.24 * groups * len(names))
    longest = max((measure(name, 9.5) for name in names), default=0.0)
    slanted = longest > 0.95 * wide / max(len(names), 1)
    turned: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
    axes.set_xticks(range(len(names)), names, **turned)
    _frame(axes, panel)
    return (wide, 3.6 if count == 1 else 3.2), hints


def _whiskers(axes: Axes, centres: Sequence[float], group: Group) -> list[float]:
    assert group.low is not None and group.high is not None
    below = [max(value - low, 0) for value, low in zip(group.values, group.low, strict=True)]
    above = [max(high - value, 0) for value, high in zip(group.values, group.high, strict=True)]
    axes.errorbar(centres, list(group.values), [below, above], fmt="none", ecolor=TEXT, elinewidth=1, capsize=2.5)
    return list(group.high)
