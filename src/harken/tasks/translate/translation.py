"""Results of `translate`: a text, its score, and the attention behind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    encoder_layers: np.ndarray | None = field(default=None, repr=False)  # (L, N, S, S) self-attention, EOS included
    decoder_layers: np.ndarray | None = field(default=None, repr=False)  # (L, N, T, T) self-attention, BOS first
    source_pieces: list[str] = field(default_factory=list, repr=False)
    target_pieces: list[str] = field(default_factory=list, repr=False)
    unknown: list[int] = field(default_factory=list)  # source words, counted from 0, that the model has never seen
    token_ids: list[int] = field(default_factory=list, repr=False)  # of the target, without EOS
    token_scores: list[float] = field(default_factory=list, repr=False)  # log-probabilities, EOS last if it ended
    # What columns and rows of `attention` stand for: `harken.data.tokenizers.words`; else what spaces divide.
    source_words: list[str] = field(default_factory=list, repr=False)
    target_words: list[str] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self.source_words = self.source_words or self.source.split()
        self.target_words = self.target_words or self.text.split()

    @property
    def is_spaced(self) -> bool:
        """Whether the words are what spaces divide, so that the texts alone say which they are."""
        return self.source_words == self.source.split() and self.target_words == self.text.split()

    @property
    def unknown_words(self) -> list[str]:
        """The source words that the model has never seen; what it makes of them is a guess."""
        words = self.source_words
        return [words[index] for index in self.unknown]

    @property
    def is_aligned(self) -> bool:
        """Whether `alignment` has links to read."""
        return self.attention is not None

    def alignment(self) -> list[tuple[int, int]]:
        """Links (source word, target word): each target word with the source word of its largest weight."""
        from harken.metrics import links_from_attention

        return [] if self.attention is None else links_from_attention(self.attention)

    def map(self) -> AlignmentMap:
        """The attention as a picture: source across, target down."""
        from harken.errors import UserError
        from harken.inspection import AlignmentMap
        from harken.inspection.figure.values import left_to_right

        if self.attention is None:
            raise UserError("this translation carries no attention; ask with attention=True a model that attends")
        title = None if self.is_spaced else f"{left_to_right(self.source)} → {left_to_right(self.text)}"
        return AlignmentMap(self.source_words, self.target_words, self.attention, title, self.unknown)

    def grid(self) -> AttentionGrid:
        """Every layer and head over pieces, as a page with a picker."""
        from harken.errors import UserError
        from harken.inspection import AttentionGrid
        from harken.inspection.figure.values import left_to_right

        if self.layers is None:
            raise UserError("this translation carries no layers; ask with layers=True a model that attends")
        return AttentionGrid(
            self.layers,
            [*self.source_pieces, "</s>"],
            [*self.target_pieces, "</s>"],
            f"{left_to_right(self.source)} → {left_to_right(self.text)}",
            self.encoder_layers,
            self.decoder_layers,
        )

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        import html

        if self.attention is None or not self.attention.size:
            return f"<p>{html.escape(self.text)}</p>"
        return self.map()._repr_html_()


@dataclass
class LinkedTranslation(Translation):
    """A translation with links but no weights: of a line so long that a weight for each pair of words is too much."""

    links: list[tuple[int, int]] = field(default_factory=list, repr=False)

    @property
    def is_aligned(self) -> bool:
        return True

    def alignment(self) -> list[tuple[int, int]]:
        return self.links


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
        return f"{first}\n{best.grid().to_terminal()}\n"

    def to_dict(self) -> dict[str, Any]:
        """Words, unknown words and weights, for JSON; with `layers` the weights of every layer and head over pieces."""
        best = self.translation
        content: dict[str, Any] = {"source": best.source, "text": best.text, "score": best.score}
        content["unknown"] = best.unknown_words
        if not self.layers:
            return {
                **content,
                "source_words": best.source_words,
                "target_words": best.target_words,
                "weights": None if best.attention is None else best.attention.round(4).tolist(),
            }
        grid = best.grid()
        kinds = {kind: weights.round(4).tolist() for kind, weights in grid.kinds.items()}
        return {**content, "source_pieces": grid.source_tokens, "target_pieces": grid.target_tokens, "layers": kinds}

    def save(self, path: str | Path) -> Path:
        """Write .html, .svg or .png."""
        return (self.translation.grid() if self.layers else self.translation.map()).save(path)
