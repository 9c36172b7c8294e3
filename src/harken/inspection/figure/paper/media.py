"""Texts with bars, images with veils, pen strokes and signals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from harken.inspection.figure.paper.style import INK, LINE, MUTED, POINT, TEXT, WARM, Drawn, Hint, Measure
from harken.inspection.figure.spec import Images, Strips, Strokes, Tokens
from harken.inspection.figure.text import cut, printable, wrap


def draw_tokens(panel: Tokens, axes: Axes, measure: Measure, count: int) -> Drawn:
    bar, line, points = 0.5, 0.86, 10.0  # inches of the highest bar and from line to line; the size of the text
    x, y, edge, hints = 0.0, bar, 0.0, []
    for token, value in zip(panel.tokens, panel.values, strict=True):
        word = cut(token, 24)
        wide = max(measure(word, points) + 0.06, 0.16)
        if x + wide > 9.0 and x > 0:
            x, y = 0.0, y + line
        share = value / panel.high
        tall = max(bar * share, 0.01)
        axes.add_patch(Rectangle((x, y - tall), wide, tall, facecolor=to_rgba(INK, 0.3 + 0.7 * share), linewidth=0))
        axes.text(x + wide / 2, y + 0.18, word, ha="center", va="baseline", fontsize=points)
        hints.append(
            (axes, x, y - bar, x + wide, y + 0.2, f"{word}: {value:.3f} {panel.unit}, p = {math.exp(-value):.4f}")
        )
        edge, x = max(edge, x + wide), x + wide + 0.05
    size = edge, y + 0.22
    axes.set(xlim=(0, size[0]), ylim=(size[1], 0))
    axes.axis("off")
    return size, hints


def draw_images(panel: Images, axes: Axes, measure: Measure, count: int) -> Drawn:
    side, gap, above, across = 1.12, 0.13, 0.24, 8  # inches; images in a row
    y, hints = 0.0, []
    lines = [(line, 10.5, TEXT) for line in wrap(panel.title, 9.6, lambda part: measure(part, 10.5)) if line]
    lines += [(line, 9.0, MUTED) for note in panel.notes for line in wrap(note, 9.6, lambda part: measure(part, 9.0))]
    for line, points, colour in lines:
        y += 1.55 * points * POINT
        axes.text(0, y - 0.06, line, fontsize=points, color=colour)
    strengths, edge = panel.strengths(), side
    for index in range(len(panel.words) + 1):
        row, column = divmod(index, across)
        left, top = column * (side + gap), y + above + row * (side + above + 0.08)
        edge = max(edge, left + side)
        pixels, extent = panel.pixels, (left, left + side, top + side, top)
        if index:
            word = panel.words[index - 1]
            axes.text(left, top - 0.06, cut(word, 14), fontsize=9.5)
            pixels = veiled(pixels, strengths[index - 1])
            hints += _regions(axes, panel, index - 1, left, top, side)
        axes.imshow(pixels, extent=extent, interpolation="nearest", aspect="auto")
        for x0, y0, x1, y1 in panel.boxes if index == 0 else ():
            corner = left + x0 * side, top + y0 * side
            look: dict[str, Any] = {"fill": False, "edgecolor": "#ffffff", "linewidth": 1.2, "linestyle": (0, (4, 3))}
            axes.add_patch(Rectangle(corner, (x1 - x0) * side, (y1 - y0) * side, **look))
    bottom = y + above + (len(panel.words) // across) * (side + above + 0.08) + side
    axes.set(xlim=(0, edge), ylim=(bottom, 0))
    axes.axis("off")
    return (edge, bottom), hints


def veiled(pixels: np.ndarray, strengths: np.ndarray) -> np.ndarray:
    """The image darkened where a word does not look, with regions that divide it evenly."""
    tall, wide = pixels.shape[:2]
    rows = np.arange(tall) * strengths.shape[0] // tall
    columns = np.arange(wide) * strengths.shape[1] // wide
    light = 1 - 0.78 * (1 - strengths[np.ix_(rows, columns)])
    return np.rint(pixels * light[..., None]).astype(np.uint8)


def _regions(axes: Axes, panel: Images, word: int, left: float, top: float, side: float) -> list[Hint]:
    rows, columns = panel.weights.shape[1:]
    high, wide = side / rows, side / columns
    return [
        (
            axes,
            left + c * wide,
            top + r * high,
            left + (c + 1) * wide,
            top + (r + 1) * high,
            f"{panel.words[word]}: {panel.weights[word, r, c]:.3f}",
        )
        for r in range(rows)
        for c in range(columns)
    ]


def draw_strokes(panel: Strokes, axes: Axes, measure: Measure, count: int) -> Drawn:
    boxes = [_box(strokes) for strokes in panel.drawings]
    tallest = max((bottom - top for _, top, _, bottom in boxes), default=1.0)
    widest = max((right - left for left, _, right, _ in boxes), default=1.0)
    scale = min(0.95 / max(tallest, 1e-9), 9.6 / max(widest, 1e-9))  # inches of a drawing
    captions = 0.3 if any(panel.captions) else 0.0
    names = [cut(caption, 60) for caption in panel.captions]
    step = max(widest * scale, max((measure(name, 9.0) for name in names), default=0.0), 0.25) + 0.35
    across = max(1, min(int(10.2 / step), len(boxes)))
    y, edge = 0.0, max(across * step - 0.35, 0.5)
    for at, (strokes, name, (left, top, _, bottom)) in enumerate(zip(panel.drawings, names, boxes, strict=True)):
        x, y = at % across * step, at // across * (tallest * scale + captions + 0.22)
        shift = x, y + (tallest - (bottom - top)) * scale / 2  # drawings stand in the middle of their row
        for stroke in strokes:
            path = (stroke - [left, top]) * scale + shift
            path = np.vstack([path, path + np.array([1e-3, 0.0])]) if len(path) == 1 else path  # a dot
            axes.plot(path[:, 0], path[:, 1], color=INK, linewidth=1.7, solid_capstyle="round", solid_joinstyle="round")
        axes.text(x, y + tallest * scale + 0.22, name, fontsize=9, color=MUTED)
    size = edge, y + tallest * scale + captions
    axes.set(xlim=(-0.03, size[0] + 0.03), ylim=(size[1] + 0.03, -0.03))
    axes.axis("off")
    return (size[0] + 0.06, size[1] + 0.06), []


def _box(strokes: Sequence[np.ndarray]) -> tuple[float, float, float, float]:
    """Left, top, right, bottom."""
    if not strokes:
        return 0.0, 0.0, 1.0, 1.0
    points = np.concatenate(list(strokes))
    return (*points.min(0).tolist(), *points.max(0).tolist())


def draw_strips(panel: Strips, axes: Axes, measure: Measure, count: int) -> Drawn:
    steps, channels = panel.values.shape
    curves, x = panel.scaled(), list(range(1, steps + 1))
    hints: list[Hint] = []
    for at, weight in zip(x, panel.weights.tolist(), strict=True):
        hints.append((axes, at - 0.5, channels, at + 0.5, 0, f"{panel.x_label} {at}: {weight:.3f}"))
        if weight > 0:
            axes.axvspan(at - 0.5, at + 0.5, color=WARM, alpha=0.45 * weight, linewidth=0)
    for channel in range(channels):
        axes.plot(x, channel + 0.92 - 0.84 * curves[:, channel], color=INK, linewidth=1.4)
    axes.add_collection(LineCollection([[(0.5, at), (steps + 0.5, at)] for at in range(1, channels)], colors=LINE))
    axes.set(xlim=(0.5, steps + 0.5), ylim=(channels, 0), xlabel=printable(panel.x_label))
    axes.set_yticks([at + 0.5 for at in range(channels)], [cut(name, 24) for name in panel.names])
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.tick_params(length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    return (7.5, max(0.55 * channels, 0.8)), hints
