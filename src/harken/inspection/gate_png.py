"""Gates over time as a PNG, drawn by matplotlib without a screen and without its global state; every unit is a row."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from harken.inspection.figure import FONT, LARGEST, LETTER
from harken.inspection.palette import LIGHT, css
from harken.inspection.words import columns, cut

if TYPE_CHECKING:
    from harken.inspection.gate_picture import GatePicture

LONGEST = 18  # columns of a word
TALL = 1.15  # inches of a field


def draw_png(picture: GatePicture) -> bytes:
    """The bytes of a PNG file."""
    shades = [css(LIGHT.warm), css(LIGHT.empty), css(LIGHT.ink)]
    colours = LinearSegmentedColormap.from_list("harken", shades)
    rise = max((columns(cut(word, LONGEST)) for sheet in picture.sheets for word in sheet.words), default=0)
    top = 0.95 + rise * LETTER * 9 * 0.71
    widths = [max(2.75, 0.22 * len(sheet.words)) for sheet in picture.sheets]
    overhang = columns(cut(picture.sheets[-1].words[-1], LONGEST)) * LETTER * 9 * 0.6
    width = max(0.3 + sum(widths) + 0.4 * len(widths) + overhang, 0.6 + columns(picture.title) * LETTER * 14)
    height = top + max(len(sheet.fields) for sheet in picture.sheets) * (TALL + 0.35) + 0.15
    figure = Figure(figsize=(width, height), dpi=min(150, LARGEST / max(width, height)), facecolor=css(LIGHT.paper))
    canvas = FigureCanvasAgg(figure)
    text: dict[str, Any] = {"family": FONT, "parse_math": False, "color": css(LIGHT.text)}
    muted = text | {"color": css(LIGHT.muted), "fontsize": 7.5}
    figure.text(0.25 / width, 1 - 0.4 / height, picture.title, fontsize=14, weight="bold", **text)
    left = 0.25
    for sheet, wide in zip(picture.sheets, widths, strict=True):
        name = f"{sheet.name}   {sheet.cell}, {len(sheet.fields[0].values)} units"
        figure.text(left / width, 1 - 0.68 / height, name, fontsize=9.5, **text)
        for row, field in enumerate(sheet.fields):
            bottom = height - top - row * (TALL + 0.35) - TALL
            axes = figure.add_axes((left / width, bottom / height, wide / width, TALL / height))
            axes.imshow(field.values, cmap=colours, vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
            axes.set_yticks([])
            words = [cut(word, LONGEST) for word in sheet.words] if row == 0 else [""] * len(sheet.words)
            slanted: dict[str, Any] = {"rotation": 45, "ha": "left", "rotation_mode": "anchor", "fontsize": 9}
            axes.xaxis.tick_top()
            axes.set_xticks(range(len(words)), words, **slanted, **text)
            axes.tick_params(length=0, pad=2)
            for spine in axes.spines.values():
                spine.set_visible(False)
            below = (bottom - 0.17) / height
            figure.text(left / width, below, field.name, fontsize=8.5, weight="bold", **text)
            figure.text((left + 0.95) / width, below, " · ".join(field.notes), **muted)
        left += wide + 0.4
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a letter the font lacks is drawn as a box
        canvas.print_png(file)
    return file.getvalue()
