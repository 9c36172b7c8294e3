"""A forecast as a PNG, drawn by matplotlib without a screen and without its global state."""

from __future__ import annotations

import io

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from harken.inspection.fan import FanPicture
from harken.inspection.figure import FONT
from harken.inspection.palette import LIGHT, css


def draw_png(picture: FanPicture) -> bytes:
    """The bytes of a PNG file."""
    figure = Figure(figsize=(8, 4), dpi=150, facecolor=css(LIGHT.paper))
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0.09, 0.12, 0.88, 0.76))
    start = len(picture.past)
    ahead = np.arange(start, picture.steps)
    first, second = css(LIGHT.series[0]), css(LIGHT.series[1])
    if picture.shade is not None and picture.shade.max() > 0:
        low = picture.range[0]
        for step, weight in enumerate(picture.shade / picture.shade.max()):
            axes.bar(step, picture.past[step] - low, 1.0, bottom=low, color=css(LIGHT.ink), alpha=0.75 * float(weight))
    axes.plot(np.arange(start), picture.past, color=css(LIGHT.text), linewidth=1.2, label="past")
    for name, low_edge, high_edge in picture.bands:
        axes.fill_between(ahead, low_edge, high_edge, color=first, alpha=0.25, linewidth=0, label=f"quantiles {name}")
    axes.plot(ahead, picture.median, color=first, linewidth=1.8, marker="o", markersize=3, label="forecast")
    if picture.truth is not None:
        axes.plot(ahead[: len(picture.truth)], picture.truth, color=second, linewidth=1.2, ls="--", label="what came")
    axes.axvline(start - 0.5, color=css(LIGHT.muted), linewidth=0.8, linestyle=":")
    places = picture.label_places()
    axes.set_xticks(places, [picture.label(step) for step in places])
    axes.tick_params(length=0, labelsize=8, labelcolor=css(LIGHT.muted))
    axes.grid(True, axis="y", color=css(LIGHT.line), linewidth=0.8)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
    axes.legend(loc="upper left", fontsize=8, frameon=False)
    words = {"family": FONT, "parse_math": False}
    figure.text(0.03, 0.93, picture.title, fontsize=13, weight="bold", color=css(LIGHT.text), **words)  # type: ignore[arg-type]
    file = io.BytesIO()
    canvas.print_png(file)
    return file.getvalue()
