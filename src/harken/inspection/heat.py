"""Tables of shades one below the other: tags over words, transitions between tags, guesses for gaps.

>>> tags = ShadeTable(["the", "cat"], ["DET", "NOUN"], [[0.9, 0.1], [0.1, 0.9]], "Tags")
>>> print(HeatMaps([tags]).to_terminal(width=40, color=False))
Tags
      the   cat
DET   █ .90 ░ .10
NOUN  ░ .10 █ .90
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harken.errors import UserError
from harken.inspection.picture import Picture
from harken.inspection.shades import ShadeTable
from harken.inspection.svg import svg

if TYPE_CHECKING:
    from rich.text import Text


class HeatMaps(Picture):
    """Tables one below the other."""

    def __init__(self, panels: Sequence[ShadeTable]) -> None:
        """
        Raises:
            UserError: there is no panel.
        """
        if not panels:
            raise UserError("there is nothing to draw; give at least one table")
        self.panels = list(panels)
        self.title = self.panels[0].heading

    def lines(self, width: int, color: bool) -> list[Text]:
        """A blank line between panels."""
        from rich.text import Text

        drawn = [line for panel in self.panels for line in (Text(), *panel.lines(width, color))]
        return drawn[1:]

    def to_svg(self) -> str:
        """One drawing; each panel is a drawing inside it."""
        drawn = [panel.to_svg() for panel in self.panels]
        if len(drawn) == 1:
            return drawn[0]
        parts, width, top = [], 0, 0
        for one in drawn:
            parts.append(one.replace("<svg ", f'<svg y="{top}" ', 1))
            wide, tall = _size(one)
            width, top = max(width, wide), top + tall
        return svg("heat", "", width, top, parts, label="; ".join(panel.heading for panel in self.panels))

    def to_png(self) -> bytes:
        """The pictures of all panels on white."""
        drawn = [panel.to_png() for panel in self.panels]
        return drawn[0] if len(drawn) == 1 else _pile(drawn)


def _size(drawing: str) -> tuple[int, int]:
    found = re.search(r' width="(\d+)" height="(\d+)"', drawing)
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
