"""What `translate` gives back: a text, its score, and the attention behind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from harken.inspection import AlignmentMap, AttentionGrid


@dataclass
class Translation:
    """One translation of one sentence."""

    source: str
    text: str
    score: float  # log-probability, normalised by length as the search ranks it
    attention: np.ndarray | None = None  # (target words, source words), rows sum to 1
    layers: np.ndarray | None = field(default=None, repr=False)  # (L, N, target pieces + EOS, source pieces + EOS)
    source_pieces: list[str] = field(default_factory=list, repr=False)
    target_pieces: list[str] = field(default_factory=list, repr=False)

    @property
    def source_words(self) -> list[str]:
        """The whitespace words that the columns of `attention` stand for."""
        return self.source.split()

    @property
    def target_words(self) -> list[str]:
        """The whitespace words that the rows of `attention` stand for."""
        return self.text.split()

    def alignment(self) -> list[tuple[int, int]]:
        """Links (source word, target word): each target word with the source word of its largest weight."""
        from harken.metrics import links_from_attention

        return [] if self.attention is None else links_from_attention(self.attention)

    def map(self) -> AlignmentMap:
        """The attention as a picture: source across, target down."""
        from harken.errors import UserError
        from harken.inspection import AlignmentMap

        if self.attention is None:
            raise UserError("this translation carries no attention; ask with attention=True a model that attends")
        return AlignmentMap(self.source_words, self.target_words, self.attention)

    def grid(self) -> AttentionGrid:
        """Every layer and head over pieces, as a page with a picker."""
        from harken.errors import UserError
        from harken.inspection import AttentionGrid

        if self.layers is None:
            raise UserError("this translation carries no layers; ask with layers=True a model that attends")
        return AttentionGrid(self.layers, [*self.source_pieces, "</s>"], [*self.target_pieces, "</s>"])

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        import html

        if self.attention is None or not self.attention.size:
            return f"<p>{html.escape(self.text)}</p>"
        return self.map()._repr_html_()


@dataclass(frozen=True)
class TranslationFigure:
    """A translation with its attention: the alignment map, or with `layers` a map for every layer and head."""

    translation: Translation
    layers: bool = False

    def to_terminal(self) -> str:
        """The translation, its score, and the map."""
        best = self.translation
        first = f"{best.text}   (score {best.score:.3f})\n"
        if not self.layers:
            return f"{first}\n{best.map().to_terminal()}"
        grid = best.grid()
        depth, heads = grid.layers.shape[:2]
        maps = (grid.map(layer, head).to_terminal() for layer in range(depth) for head in range(heads))
        return "\n".join([first, *(f"{one}\n" for one in maps)])

    def save(self, path: str | Path) -> Path:
        """Write .html, .svg or .png."""
        return (self.translation.grid() if self.layers else self.translation.map()).save(path)
