"""Maps over pictures as a page that needs no network: pictures are inside it, pointing at a cell shows its weight."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from harken.inspection.caption_svg import draw_svg
from harken.inspection.palette import DARK, LIGHT, css
from harken.inspection.words import printable

if TYPE_CHECKING:
    from harken.inspection.caption_map import CaptionPage

STYLE = (
    f"body{{margin:0 auto;max-width:900px;padding:12px;background:{css(LIGHT.paper)};color:{css(LIGHT.text)};"
    "font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
    "svg{width:100%;height:auto}h1{font-size:22px;margin:12px 20px 4px}p{margin:0 20px 12px}"
    f"@media (prefers-color-scheme:dark){{body{{background:{css(DARK.paper)};color:{css(DARK.text)}}}}}"
)


def page(picture: CaptionPage) -> str:
    """A whole HTML document, complete in itself."""
    from harken.inspection.caption_map import CaptionPage

    title = picture.title or (picture.maps[0].title if picture.maps else "Captions")
    heading = f"<h1>{_text(picture.title)}</h1>" if picture.title else ""
    about = f"<p>{_text(picture.about)}</p>" if picture.about else ""
    figures = "\n".join(f"<figure style='margin:0'>{draw_svg(CaptionPage([one]))}</figure>" for one in picture.maps)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>{heading}{about}{figures}</main>\n</body>\n</html>\n"
    )


def _text(text: str) -> str:
    return escape(printable(text))
