"""A signal and its weights as a PNG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harken.inspection.palette import LIGHT, css
from harken.inspection.png import WORDS, encode, sheet
from harken.inspection.words import cut

if TYPE_CHECKING:
    from harken.inspection.signal_weights import SignalWeights


def draw_png(picture: SignalWeights) -> bytes:
    """The bytes of a PNG file."""
    curves, steps, strips = picture.scaled(), len(picture.frames), len(picture.names)
    height = 0.9 + 0.7 * strips
    figure = sheet(9, height, picture.title)
    for place, name in enumerate(picture.names):
        bottom = (height - 0.6 - 0.7 * (place + 1)) / height
        axes = figure.add_axes((0.16, bottom, 0.82, 0.62 / height), facecolor=css(LIGHT.paper))
        for step in np.flatnonzero(picture.weights >= 0.01):
            shade = 0.45 * float(picture.weights[step])
            axes.axvspan(step - 0.5, step + 0.5, color=css(LIGHT.warm), alpha=shade, linewidth=0)
        axes.plot(np.arange(steps), curves[:, place], color=css(LIGHT.ink), linewidth=1.3)
        axes.set(xlim=(-0.5, steps - 0.5), ylim=(-0.08, 1.08), yticks=[])
        axes.tick_params(length=0, labelsize=8, labelbottom=place == strips - 1, labelcolor=css(LIGHT.muted))
        axes.set_ylabel(cut(name, 16), rotation=0, ha="right", va="center", fontsize=9, **WORDS)
        for side, spine in axes.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(css(LIGHT.line))
    return encode(figure, picture.title)
