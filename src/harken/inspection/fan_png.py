"""A forecast as a PNG."""

from __future__ import annotations

import numpy as np

from harken.inspection.fan import FanPicture
from harken.inspection.palette import LIGHT, css
from harken.inspection.png import encode, sheet


def draw_png(picture: FanPicture) -> bytes:
    """The bytes of a PNG file."""
    figure = sheet(8, 4, picture.title)
    axes = figure.add_axes((0.09, 0.18, 0.88, 0.68))
    start = len(picture.past)
    ahead = np.arange(start, picture.steps)
    first, second = css(LIGHT.series[0]), css(LIGHT.series[1])
    if picture.shade is not None and picture.shade.max() > 0:
        low = picture.range[0]
        for step, weight in enumerate(picture.shade / picture.shade.max()):
            axes.bar(step, picture.past[step] - low, 1.0, bottom=low, color=css(LIGHT.ink), alpha=0.75 * float(weight))
    axes.plot(
        np.arange(start),
        picture.past,
        color=css(LIGHT.text),
        linewidth=1.2,
        marker="." if start == 1 else "",
        label="past",
    )
    for name, low_edge, high_edge in picture.bands:
        axes.fill_between(ahead, low_edge, high_edge, color=first, alpha=0.25, linewidth=0, label=f"quantiles {name}")
    axes.plot(ahead, picture.median, color=first, linewidth=1.8, marker="o", markersize=3, label="forecast")
    if picture.truth is not None:
        axes.plot(ahead[: len(picture.truth)], picture.truth, color=second, linewidth=1.2, ls="--", label="what came")
    axes.axvline(start - 0.5, color=css(LIGHT.muted), linewidth=0.8, linestyle=":")
    longest = max(len(picture.label(step)) for step in range(picture.steps))
    places = picture.label_places(max(2, min(5, 90 // (longest + 2))))
    axes.set_xticks(places, [picture.label(step) for step in places])
    axes.tick_params(length=0, labelsize=8, labelcolor=css(LIGHT.muted))
    axes.grid(True, axis="y", color=css(LIGHT.line), linewidth=0.8)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
    axes.ticklabel_format(axis="y", useOffset=False, style="plain")
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.08), ncols=5, fontsize=8, frameon=False)
    return encode(figure, picture.title)
