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

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy.typing as npt

from harken.errors import UserError
from harken.inspection.checks import checked_weights, write_aside
from harken.inspection.picture import Picture

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

DEFAULT_TITLE = "Alignment"


class AlignmentMap(Picture):
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
        self.source_words = [str(word) for word in source_words]
        self.target_words = [str(word) for word in target_words]
        shape = (len(self.target_words), len(self.source_words))
        self.weights = checked_weights(weights, shape, "target x source words")
        self.title = title

    @property
    def heading(self) -> str:
        """The title, or what to say without one."""
        return self.title or DEFAULT_TITLE

    def to_terminal(self, width: int | None = None, color: bool | None = None) -> str:
        """Lines of text, shaded by colour, or by ░▒▓█ without.

        Args:
            width: columns to keep within; by default those of the terminal.
            color: by default only where standard output is a terminal that shows colours.
        """
        from harken.inspection.terminal import render

        return render(self, width, color)

    def to_svg(self) -> str:
        """A drawing for papers and web pages; follows the reader's light or dark setting."""
        from harken.inspection.svg import draw_svg

        return draw_svg(self)

    def to_html(self) -> str:
        """A whole page that needs no network: point at a cell to read its words and weight."""
        from harken.inspection.html import page

        return page(self)

    def to_png(self) -> bytes:
        """A picture of dots, for slides."""
        from harken.inspection.figure import draw_png

        return draw_png(self)

    def save(self, path: str | Path) -> Path:
        """Write the picture; the ending of the name says how: .html, .svg or .png.

        Raises:
            UserError: another ending, or a place that cannot be written.
        """
        path = Path(path)
        ending = path.suffix.lower()
        if ending == ".html":
            content = self.to_html().encode()
        elif ending == ".svg":
            content = self.to_svg().encode()
        elif ending == ".png":
            content = self.to_png()
        else:
            raise UserError(f'{path}: a picture cannot be written as "{ending}"; name the file .html, .svg or .png.')
        write_aside(path, content)
        return path

    def __str__(self) -> str:
        return self.to_terminal()

    def __repr__(self) -> str:
        return f"AlignmentMap({len(self.target_words)} target x {len(self.source_words)} source words)"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        from harken.inspection.terminal import lines

        yield from lines(self, options.max_width, console.color_system is not None and not console.no_color)

    def _repr_html_(self) -> str:
        from harken.inspection.html import fragment

        return fragment(self)
