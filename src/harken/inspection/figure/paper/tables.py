"""Heat maps with their key, rasters over a numeric axis, and trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from harken.inspection.figure.palette import DEEP, FAINT, LIGHT, css
from harken.inspection.figure.paper.style import (
    EMPTY,
    INK,
    LINE,
    MUTED,
    PAPER,
    POINT,
    TEXT,
    WARM,
    Drawn,
    Hint,
    Measure,
    Size,
)
from harken.inspection.figure.spec import Heat, Raster
from harken.inspection.figure.text import cut, printable
from harken.inspection.figure.tree import Tree
from harken.inspection.figure.values import log_tick

LONGEST, LANE = 14, 0.3  # characters of a label; inches between lines


def draw_heat(panel: Heat, axes: Axes, measure: Measure, count: int) -> Drawn:
    down, across = len(panel.rows), len(panel.columns)
    numbers = bool(panel.form) and across <= 14
    widest = (
        max((measure(panel.number(r, c), 8) for r in range(down) for c in range(across)), default=0) if numbers else 0
    )
    room = 10.6 if panel.form else 11.8 / count - 0.62  # inches for all columns
    wide = max(0.46, widest + 0.14) if numbers else max(min(0.21, room / max(across, 1)), 0.06)
    tall = 0.3 if numbers else 0.115 if not panel.form and down > 16 else max(min(0.21, 10.0 / max(down, 1)), 0.06)
    strengths = panel.strengths()
    hints: list[Hint] = []
    axes.add_patch(Rectangle((0, 0), across, down, facecolor=EMPTY, linewidth=0))
    cells, colours = [], []
    for row in range(down):
        for column in range(across):
            strength = float(strengths[row, column])
            hints.append((axes, column, row, column + 1, row + 1, panel.hint(row, column)))
            if abs(strength) >= 0.002:
                cells.append([(column, row), (column + 1, row), (column + 1, row + 1), (column, row + 1)])
                colours.append(to_rgba(INK if strength > 0 else WARM, abs(strength)))
            if numbers and (number := panel.number(row, column)):
                colour = PAPER if abs(strength) >= DEEP else TEXT if abs(strength) >= FAINT else css(LIGHT.faint)
                look: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": 8}
                axes.text(column + 0.5, row + 0.52, number, color=colour, **look)
    axes.add_collection(PolyCollection(cells, facecolors=colours, linewidths=0))
    rules = [[(at, 0), (at, down)] for at in range(across + 1)] + [[(0, at), (across, at)] for at in range(down + 1)]
    axes.add_collection(LineCollection(rules, colors=PAPER, linewidths=1.0 if min(wide, tall) > 0.1 else 0.5))
    axes.set(xlim=(0, max(across, 1)), ylim=(max(down, 1), 0))
    _names(axes, panel, wide, tall, measure)
    size = wide * max(across, 1), tall * max(down, 1)
    _key(axes, panel, size, wide, tall)
    return size, hints


def _names(axes: Axes, panel: Heat, wide: float, tall: float, measure: Measure) -> None:
    """Columns on top, slanted where they are longer than a cell; rows on the left, marked ones with a dot."""
    axes.axis("off")  # ticks would take most of the time
    points = min(9.5, max(5.0, 48 * wide))
    names = [cut(name, 26) for name in panel.columns]
    longest = max((measure(name, points) for name in names), default=0.0)
    slanted = longest > 0.92 * wide
    turned: dict[str, Any] = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"} if slanted else {"ha": "center"}
    for at, name in enumerate(names):
        axes.text(at + 0.5, -0.06 / tall, name, fontsize=points, va="baseline", **turned)
    above = (0.71 * (longest + points * POINT) if slanted else 1.2 * points * POINT) + 0.16
    if panel.title:
        axes.text(0, -above / tall, printable(panel.title), fontsize=10.5)
    points = min(9.5, max(5.0, 62 * tall))
    for at, name in enumerate(panel.rows if panel.row_names else ()):
        words = ("● " if at in panel.marked else "") + cut(name, 48)
        axes.text(-0.06 / wide, at + 0.5, words, fontsize=points, ha="right", va="center_baseline")
    if panel.mark_label:
        corner = 0, len(panel.rows) + 0.24 / tall
        axes.text(*corner, f"● {printable(panel.mark_label)}", color=MUTED, fontsize=8.5)


def _key(axes: Axes, panel: Heat, size: Size, wide: float, tall: float) -> None:
    """Draw the key of the shades: a narrow bar on the right, in the coordinates of the cells."""
    low, high = panel.limits
    high_of_key, steps = min(size[1], 1.3) / tall, 24
    left, right, height = len(panel.columns) + 0.12 / wide, len(panel.columns) + 0.22 / wide, high_of_key / steps
    look: dict[str, Any] = {"clip_on": False, "linewidth": 0}
    axes.add_patch(Rectangle((left, 0), right - left, high_of_key, facecolor=EMPTY, **look))
    cells = [
        [(left, at * height), (right, at * height), (right, (at + 1) * height), (left, (at + 1) * height)]
        for at in range(steps)
    ]
    shares = [1 - (at + 0.5) / steps for at in range(steps)]
    strengths = [2 * share - 1 if panel.signed else share for share in shares]
    colours = [to_rgba(INK if strength > 0 else WARM, abs(strength)) for strength in strengths]
    axes.add_collection(PolyCollection(cells, facecolors=colours, linewidths=0, antialiaseds=False, clip_on=False))
    form = log_tick if panel.log else lambda value: f"{value:.3g}".replace("-", "−")
    shown = [(0.0, high, "top"), (high_of_key, low, "bottom")]
    shown += [(high_of_key / 2, 0.0, "center")] if panel.signed and size[1] > 0.5 else []
    for y, value, side in shown:
        axes.text(right + 0.04 / wide, y, form(value), fontsize=7.5, color=MUTED, va=side)


def draw_raster(panel: Raster, axes: Axes, measure: Measure, count: int) -> Drawn:
    rows, columns = panel.values.shape
    left, right = panel.x_limits
    pixels = np.zeros((rows, columns, 4))
    pixels[..., :3] = to_rgba(EMPTY)[:3]
    pixels[..., 3] = 1
    share = np.clip(panel.values, 0, 1)[..., None]
    pixels[..., :3] = (1 - share) * pixels[..., :3] + share * np.array(to_rgba(INK)[:3])
    named = bool(len(panel.rows))
    extent = (left, right, rows, 0) if named else (left, right, 0, rows)
    image = axes.imshow(
        pixels, aspect="auto", extent=extent, interpolation="nearest", origin="upper" if named else "lower"
    )
    image.set_gid("raster")
    axes.set(xlabel=printable(panel.x_label), ylabel=printable(panel.y_label))
    hints: list[Hint] = []
    if named:
        axes.set_yticks([at + 0.5 for at in range(rows)], [printable(name) for name in panel.rows])
        rules = [[(left, at), (right, at)] for at in range(1, rows)]
        axes.add_collection(LineCollection(rules, colors=PAPER, linewidths=1.0))
        wide = (right - left) / columns
        hints = [
            (
                axes,
                left + c * wide,
                r,
                left + (c + 1) * wide,
                r + 1,
                f"{panel.rows[r]} at {left + c * wide:.2f}: {panel.values[r, c]:.3f}",
            )
            for r in range(rows)
            for c in range(columns)
            if panel.values[r, c] >= 0.01
        ]
    else:
        axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.tick_params(length=0 if named else 3)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for x, label in panel.labels:
        anchor: dict[str, Any] = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points", "ha": "center"}
        axes.annotate(printable(label), (x, 1), xytext=(0, 3), color=TEXT, fontsize=9.5, **anchor)
    return (9.0, 0.2 * rows if named else 2.2), hints


def draw_tree(panel: Tree, axes: Axes, measure: Measure, count: int) -> Drawn:
    """Depth across, a line for each leaf; the highlighted path in ink, what was given up pale."""
    depths, lanes = panel.depths(), panel.lanes()
    labels = [cut(printable(node.label), LONGEST) for node in panel.nodes]
    levels = max(depths, default=0) + 1
    widths = [
        max((measure(label, 9.5) for label, at in zip(labels, depths, strict=True) if at == level), default=0.3) + 0.34
        for level in range(levels)
    ]
    bold = [1.1 if node.rank == 2 else 1.0 for node in panel.nodes]  # bold letters are wider
    starts = [sum(widths[:level]) for level in range(levels + 1)]
    colours, hints, right = (LINE, MUTED, INK), [], starts[-1]
    order = sorted(range(len(panel.nodes)), key=lambda index: panel.nodes[index].rank)
    parents = {node.parent for node in panel.nodes}
    for index in order:
        node, depth, y = panel.nodes[index], depths[index], lanes[index] * LANE
        x, wide = starts[depth], measure(labels[index], 9.5) * bold[index]
        if node.parent >= 0:
            end = (
                starts[depth - 1] + measure(labels[node.parent], 9.5) * bold[node.parent] + 0.05,
                lanes[node.parent] * LANE,
            )
            middle = x - 0.17
            line = 1.8 if node.rank == 2 else 0.9
            axes.plot(
                [end[0], middle, middle, x - 0.05], [end[1], end[1], y, y], color=colours[node.rank], linewidth=line
            )
        look = TEXT if node.rank else MUTED
        weight = "bold" if node.rank == 2 else "normal"
        axes.text(x, y, labels[index], fontsize=9.5, color=look, fontweight=weight, va="center")
        hints.append(
            (axes, x, y - 0.1, x + wide, y + 0.1, f"{node.label}: {panel.value_label} {node.value:.3f} {node.note}")
        )
        if index not in parents:
            note = f"{node.value:.2f} {printable(node.note)}".strip()
            axes.text(x + wide + 0.12, y, note, fontsize=8, color=MUTED, va="center")
            right = max(right, x + wide + 0.12 + measure(note, 8))
    bottom = (max(lanes, default=0.0) + 0.6) * LANE
    axes.set(xlim=(-0.05, right + 0.1), ylim=(bottom, -0.6 * LANE))
    axes.axis("off")
    return (right + 0.15, bottom + 0.6 * LANE), hints
