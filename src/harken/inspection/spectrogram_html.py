"""The spectrogram and its symbols as a page: the drawing, and a table of what was said when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.inspection.page import number_table, page, text
from harken.inspection.spectrogram_svg import draw_svg

if TYPE_CHECKING:
    from harken.inspection.spectrogram import SpectrogramPicture


def draw_page(picture: SpectrogramPicture) -> str:
    """A whole HTML document, complete in itself."""
    from harken.inspection.spectrogram import visible

    rows = [
        [visible(one.name), f"{one.start:.2f} s", f"{one.end:.2f} s", f"{one.confidence:.3f}"] for one in picture.said
    ]
    about = (
        '<p class="about">Above, the energy of every band of frequencies, high ones on top; below, the chance of each '
        "symbol at every step, from 0 to 1, and last that of CTC's blank.</p>"
    )
    body = (
        f'<h1>{text(picture.title)}</h1>{about}<div class="scroll">{draw_svg(picture, titled=False)}</div>'
        + number_table(["symbol", "from", "to", "confidence"], rows)
    )
    return page(picture.title, body)
