"""Maps over pictures as a page: pictures are inside it, pointing at a cell shows its weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.inspection.page import page, text

if TYPE_CHECKING:
    from harken.inspection.caption_map import CaptionPage


def draw_page(picture: CaptionPage) -> str:
    """A whole HTML document, complete in itself."""
    heading = f"<h1>{text(picture.title)}</h1>" if picture.title else ""
    about = f'<p class="about">{text(picture.about)}</p>' if picture.about else ""
    figures = "\n".join(f'<div class="scroll">{one.to_svg()}</div>' for one in picture.maps)
    return page(picture.heading, f"{heading}{about}{figures}")
