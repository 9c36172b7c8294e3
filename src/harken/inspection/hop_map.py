"""Where each hop of a model that answers questions looked: facts down, hops across, the facts it needs marked.

The shade of a cell is the attention of a hop to a fact, as in figure 3 of Sukhbaatar et al., 2015, "End-To-End Memory
Networks". Facts that are known to be needed have a dot.

>>> picture = HopMap(["Mary slept.", "Bill ran."], [[0.9, 0.1], [0.2, 0.8]], "Who ran?", "Bill", needed=(1,))
>>> print(picture.to_terminal(width=60, color=False))
Who ran?   Bill
               hop 1  hop 2
  Mary slept.  █ .90  ░ .20
● Bill ran.    ░ .10  █ .80
● needed
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harken.inspection.checks import checked_weights
from harken.inspection.picture import Picture

if TYPE_CHECKING:
    from rich.text import Text


class HopMap(Picture):
    """Attention (hops, facts) over the sentences that a question was asked about."""

    def __init__(
        self,
        facts: Sequence[str],
        hops: npt.ArrayLike,
        question: str,
        answer: str,
        needed: Sequence[int] | None = None,
    ) -> None:
        """
        Args:
            hops: (hops, facts), each weight from 0 to 1.
            needed: the facts that the answer needs, counted from 0, where that is known.

        Raises:
            UserError: weights that do not fit the facts, or are none.
        """
        self.facts = [str(fact) for fact in facts]
        count = np.asarray(hops).shape[0] if np.asarray(hops).ndim else 0
        self.hops = checked_weights(hops, (count, len(self.facts)), "hops x facts")
        self.question, self.answer = question, answer
        self.needed = None if needed is None else frozenset(needed)

    @property
    def heading(self) -> str:
        """The question and what was answered."""
        return f"{self.question}   {self.answer}"

    @property
    def names(self) -> list[str]:
        """What the columns are called."""
        return [f"hop {number}" for number in range(1, len(self.hops) + 1)]

    def marked(self, fact: int) -> bool:
        """Whether a fact is known to be needed."""
        return self.needed is not None and fact in self.needed

    def lines(self, width: int, color: bool) -> list[Text]:
        """Shaded by colour, or by ░▒▓█ without."""
        from harken.inspection.hop_terminal import lines

        return lines(self, width, color)

    def to_svg(self) -> str:
        """A drawing for papers and web pages; follows the reader's light or dark setting."""
        from harken.inspection.hop_svg import draw_svg

        return draw_svg(self)

    def to_png(self) -> bytes:
        """A picture of dots, for slides."""
        from harken.inspection.hop_png import draw_png

        return draw_png(self)
