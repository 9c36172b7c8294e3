"""Gates over time as a PNG; every unit is a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.inspection.png import BOTH_INKS, LETTER, MUTED, SLANTED, WORDS, bare, encode, sheet
from harken.inspection.words import columns, cut

if TYPE_CHECKING:
    from harken.inspection.gate_picture import GatePicture

LONGEST = 18  # columns of a word
TALL = 1.15  # inches of a field


def draw_png(picture: GatePicture) -> bytes:
    """The bytes of a PNG file."""
    rise = max((columns(cut(word, LONGEST)) for layer in picture.sheets for word in layer.words), default=0)
    top = 0.95 + rise * LETTER * 9 * 0.71
    names = [f"{layer.name}   {layer.cell}, {len(layer.fields[0].values)} units" for layer in picture.sheets]
    widths = [
        max(2.75, 0.22 * len(layer.words), columns(name) * LETTER * 9.5)
        for layer, name in zip(picture.sheets, names, strict=True)
    ]
    overhang = columns(cut(picture.sheets[-1].words[-1], LONGEST)) * LETTER * 9 * 0.6
    across = 0.3 + sum(widths) + 0.4 * len(widths) + overhang
    down = top + max(len(layer.fields) for layer in picture.sheets) * (TALL + 0.35) + 0.15
    figure = sheet(across, down, picture.title)
    width, height = figure.get_size_inches()
    left = 0.25
    for layer, name, wide in zip(picture.sheets, names, widths, strict=True):
        figure.text(left / width, 1 - 0.68 / height, name, fontsize=9.5, **WORDS)
        for row, field in enumerate(layer.fields):
            bottom = height - top - row * (TALL + 0.35) - TALL
            axes = figure.add_axes((left / width, bottom / height, wide / width, TALL / height))
            axes.imshow(field.values, cmap=BOTH_INKS, vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
            axes.set_yticks([])
            words = [cut(word, LONGEST) for word in layer.words] if row == 0 else [""] * len(layer.words)
            axes.xaxis.tick_top()
            axes.set_xticks(range(len(words)), words, fontsize=9, **SLANTED, **WORDS)
            axes.tick_params(pad=2)
            bare(axes)
            below = (bottom - 0.17) / height
            figure.text(left / width, below, field.name, fontsize=8.5, weight="bold", **WORDS)
            figure.text((left + 0.95) / width, below, " · ".join(field.notes), fontsize=7.5, **MUTED)
        left += wide + 0.4
    return encode(figure, picture.title)
