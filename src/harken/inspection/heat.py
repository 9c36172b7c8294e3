"""Tables of shares as shades, one below the other: tags over words, transitions between tags, confusions.

A panel is drawn like an alignment map (`alignment.py`): columns across, rows down, every cell from 0 to 1.

>>> picture = HeatMaps([Panel("Tags", ["the", "cat"], ["DET", "NOUN"], [[0.9, 0.1], [0.1, 0.9]])])
>>> print(picture.to_terminal(width=40, color=False))
Tags
      the   cat
DET   █ .90 ░ .10
NOUN  ░ .10 █ .90
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy.typing as npt

from harken.errors import UserError
from harken.inspection.alignment import AlignmentMap
from harken.inspection.palette import DARK, LIGHT, css
from harken.inspection.picture import Picture


@dataclass(frozen=True)
class Panel:
    """One table."""

    title: str
    columns: Sequence[str]
    rows: Sequence[str]
    weights: npt.ArrayLike  # (rows, columns), each from 0 to 1

    @property
    def map(self) -> AlignmentMap:
        """The table as a map of shades."""
        return AlignmentMap(self.columns, self.rows, self.weights, self.title)

    def to_svg(self) -> str:
        """A drawing that says of itself what it is."""
        drawn = self.map.to_svg()
        label = escape(f"{self.title}: {len(self.rows)} rows by {len(self.columns)} columns", quote=True)
        return re.sub(r'aria-label="[^"]*"', lambda _: f'aria-label="{label}"', drawn, count=1)


class HeatMaps(Picture):
    """Panels one below the other."""

    def __init__(self, panels: Sequence[Panel]) -> None:
        """
        Raises:
            UserError: there is no panel.
        """
        if not panels:
            raise UserError("there is nothing to draw; give at least one table")
        self.panels = list(panels)

    def to_terminal(self, width: int | None = None, color: bool | None = None) -> str:
        """Lines of text, a blank one between panels."""
        return "\n\n".join(panel.map.to_terminal(width, color) for panel in self.panels)

    def to_svg(self) -> str:
        """One drawing; each panel is a drawing inside it."""
        drawn = [panel.to_svg() for panel in self.panels]
        if len(drawn) == 1:
            return drawn[0]
        sizes = [_size(one) for one in drawn]
        width, height = max(size[0] for size in sizes), sum(size[1] for size in sizes)
        parts, top = [], 0
        for one, size in zip(drawn, sizes, strict=True):
            parts.append(one.replace("<svg ", f'<svg y="{top}" ', 1))
            top += size[1]
        paper = (
            f"<style>.harken-heat{{fill:{css(LIGHT.paper)}}}"
            f"@media (prefers-color-scheme:dark){{.harken-heat{{fill:{css(DARK.paper)}}}}}</style>"
            f'<rect class="harken-heat" width="{width}" height="{height}"/>'
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img">\n{paper}\n{"".join(parts)}</svg>\n'
        )

    def to_png(self) -> bytes:
        """A picture of dots."""
        drawn = [panel.map.to_png() for panel in self.panels]
        return drawn[0] if len(drawn) == 1 else _pile(drawn)

    def to_html(self) -> str:
        """A page that needs no network: point at a cell to read its row, its column and its number."""
        title = escape(self.panels[0].title)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta name="color-scheme" content="light dark">\n<title>{title}</title>\n'
            f"<style>body{{margin:0;background:{css(LIGHT.paper)}}}"
            f"@media (prefers-color-scheme:dark){{body{{background:{css(DARK.paper)}}}}}</style>\n"
            f"</head>\n<body>\n<main>{self.to_svg()}</main>\n</body>\n</html>\n"
        )


def _size(svg: str) -> tuple[int, int]:
    found = re.search(r'viewBox="0 0 (\d+) (\d+)"', svg)
    assert found is not None
    return int(found[1]), int(found[2])


def _pile(pictures: Sequence[bytes]) -> bytes:
    """PNG files one below the other, on white."""
    import matplotlib.image
    import numpy as np

    arrays = [matplotlib.image.imread(io.BytesIO(one), format="png") for one in pictures]  # (H, W, 4) each
    width = max(array.shape[1] for array in arrays)
    padded = [np.pad(array, ((0, 0), (0, width - array.shape[1]), (0, 0)), constant_values=1.0) for array in arrays]
    file = io.BytesIO()
    matplotlib.image.imsave(file, np.concatenate(padded), format="png")
    return file.getvalue()
