"""The spectrogram and its symbols as a page: the drawing, and a table of what was said when. Nothing is fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.inspection.html import asset, text
from harken.inspection.spectrogram_svg import draw_svg

if TYPE_CHECKING:
    from harken.inspection.spectrogram import SpectrogramPicture

STYLE = "<style>.harken-page .sound svg { margin-left: 0; }</style>\n"  # or names at the left are cut off


def page(picture: SpectrogramPicture) -> str:
    """A whole HTML document, complete in itself."""
    from harken.inspection.spectrogram import visible

    rows = "".join(
        f'<tr><th scope="row">{text(visible(one.name))}</th><td class="number">{one.start:.2f} s</td>'
        f'<td class="number">{one.end:.2f} s</td><td class="number">{one.confidence:.3f}</td></tr>'
        for one in picture.said
    )
    table = (
        '<table class="numbers"><thead><tr><th scope="col">symbol</th><th scope="col">from</th>'
        f'<th scope="col">to</th><th scope="col">confidence</th></tr></thead><tbody>{rows}</tbody></table>'
    )
    about = (
        '<p class="about">Above, the energy of every band of frequencies, high ones on top; below, the chance of each '
        "symbol at every step, from 0 to 1, and last that of CTC's blank.</p>"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(picture.title)}</title>\n{asset('page_style')}{STYLE}</head>\n"
        f'<body class="harken-page">\n<main><h1>{text(picture.title)}</h1>{about}'
        f'<div class="scroll sound">{draw_svg(picture, titled=False)}</div>{table}</main>\n</body>\n</html>\n'
    )
