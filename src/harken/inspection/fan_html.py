"""A forecast as a page: the drawing, and its numbers in a table."""

from __future__ import annotations

from harken.inspection.fan import FanPicture
from harken.inspection.fan_svg import draw_svg
from harken.inspection.page import number_table, page


def draw_page(picture: FanPicture) -> str:
    """A whole HTML document, complete in itself."""
    others = [level for level in picture.levels if level != 0.5]
    rows = []
    for step, values in enumerate(picture.values):
        numbers = [picture.median[step], *(values[picture.levels.index(level)] for level in others)]
        rows.append([picture.label(len(picture.past) + step), *(f"{number:.4g}" for number in numbers)])
    table = number_table(["step", "forecast", *(f"q{level:g}" for level in others)], rows)
    return page(picture.title, f'<div class="scroll">{draw_svg(picture)}</div>{table}')
