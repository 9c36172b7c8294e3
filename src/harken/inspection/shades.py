"""A table of weights as shades: columns across, rows down, every cell from 0 to 1.

Alignments, confusions, tags over words and weights over words are all such tables (`alignment.py`, `confusion.py`,
`heat.py`, `word_weights.py`).

>>> table = ShadeTable(["the", "cat"], ["DET", "NOUN"], [[0.9, 0.1], [0.1, 0.9]], "Tags", across="word", down="tag")
>>> print(table.to_terminal(width=40, color=False))
Tags
      the   cat
DET   █ .90 ░ .10
NOUN  ░ .10 █ .90
>>> table.size
'2 tags by 2 words'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy.typing as npt

from harken.inspection.checks import checked_weights
from harken.inspection.picture import Picture

if TYPE_CHECKING:
    from rich.text import Text


class ShadeTable(Picture):
    """Weights with what their columns and rows are called, ready to be looked at."""

    def __init__(
        self,
        columns: Sequence[str],
        rows: Sequence[str],
        weights: npt.ArrayLike,
        title: str | None = None,
        across: str = "column",
        down: str = "row",
    ) -> None:
        """
        Args:
            weights: (rows, columns), each from 0 to 1.
            across: what one column is.
            down: what one row is.

        Raises:
            UserError: weights that do not fit the names, NaN, or numbers that are no weights.
        """
        self.columns, self.rows = [str(name) for name in columns], [str(name) for name in rows]
        self.across, self.down = across, down
        self.weights = checked_weights(weights, (len(self.rows), len(self.columns)), f"{down}s x {across}s")
        self.title = title or ""

    @property
    def size(self) -> str:
        """`2 target words by 3 source words`."""
        counts = ((self.rows, self.down), (self.columns, self.across))
        return " by ".join(f"{len(names)} {what}{'' if len(names) == 1 else 's'}" for names, what in counts)

    def lines(self, width: int, color: bool) -> list[Text]:
        """Shaded by colour, or by ░▒▓█ without."""
        from harken.inspection.map_terminal import lines

        return lines(self, width, color)

    def to_svg(self) -> str:
        """A drawing: point at a cell to read its names and weight."""
        from harken.inspection.map_svg import draw_svg

        return draw_svg(self)

    def to_html(self) -> str:
        """A page: point at a cell, or walk there with the arrow keys, to read its names and weight."""
        from harken.inspection.map_html import draw_page

        return draw_page(self)

    def to_png(self) -> bytes:
        """A picture of dots."""
        from harken.inspection.map_png import draw_png

        return draw_png(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size})"

    def _repr_html_(self) -> str:
        from harken.inspection.map_html import fragment

        return fragment(self)
