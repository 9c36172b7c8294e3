"""The alignment map: which source words each target word was made from.

Source words stand across, target words down, and the shade of a cell is the attention weight between them, as in
figure 3 of Bahdanau et al., 2015, "Neural Machine Translation by Jointly Learning to Align and Translate".

>>> picture = AlignmentMap(["the", "cat"], ["le", "chat"], [[0.9, 0.1], [0.2, 0.8]])
>>> print(picture.to_terminal(width=40, color=False))
      the   cat
le    █ .90 ░ .10
chat  ░ .20 █ .80
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy.typing as npt

from harken.inspection.shades import ShadeTable

DEFAULT_TITLE = "Alignment"


class AlignmentMap(ShadeTable):
    """Attention weights between the words of a sentence and of its translation, ready to be looked at.

    In a notebook it shows itself; `print` draws it in a terminal; `save` writes .html, .svg or .png.
    """

    def __init__(
        self,
        source_words: Sequence[str],
        target_words: Sequence[str],
        weights: npt.ArrayLike,
        title: str | None = None,
    ) -> None:
        """
        Args:
            weights: (target words, source words), each from 0 to 1.
            title: what stands above the picture; a plain "Alignment" by default.

        Raises:
            UserError: weights that do not fit the words, NaN, or numbers that are no weights.
        """
        super().__init__(source_words, target_words, weights, title, across="source word", down="target word")

    @property
    def source_words(self) -> list[str]:
        """The words across."""
        return self.columns

    @property
    def target_words(self) -> list[str]:
        """The words down."""
        return self.rows

    @property
    def heading(self) -> str:
        """The title, or what to say without one."""
        return self.title or DEFAULT_TITLE
