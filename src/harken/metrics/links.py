"""From attention weights over subwords to links between words.

Attention is a soft alignment (Bahdanau et al., 2015). To compare it with gold word links, the pieces of a word are
put together first: a target word attends to a source word with

    w(word j, word i) = mean over the pieces t of j of the sum over the pieces s of i of w(t, s)

so that rows still sum to 1. Then every target word is linked to the source word it attends to most.

>>> weights = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]])          # 2 target pieces, 3 source pieces
>>> merge_subwords(weights, [0, 0], [0, 1, 1], n_target=1, n_source=2)
array([[0.25, 0.75]])
>>> links_from_attention(np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]]))
[(0, 0), (1, 1), (1, 2)]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harken.data.text.pairs import Link
from harken.errors import UserError


def merge_subwords(
    weights: npt.ArrayLike, target_word_of: Sequence[int], source_word_of: Sequence[int], n_target: int, n_source: int
) -> np.ndarray:
    """Weights of pieces (T, S) -> weights of words (n_target, n_source), every row summing to 1.

    The caller passes the columns and rows of pieces only, those of EOS cut off; the weight EOS had is shared out by
    making rows sum to 1 again. A target word without pieces, or one that attended to EOS alone, keeps a row of zeros.

    Args:
        target_word_of: (T,) the word each target piece belongs to.
        source_word_of: (S,) the word each source piece belongs to.

    Raises:
        UserError: weights that do not fit the pieces.
    """
    pieces = np.asarray(weights, dtype=np.float64)  # (T, S)
    if pieces.shape != (len(target_word_of), len(source_word_of)):
        wanted = f"{len(target_word_of)} target x {len(source_word_of)} source pieces"
        raise UserError(f"The attention weights have shape {pieces.shape} but there are {wanted}; pass one each.")
    target = _membership(target_word_of, n_target)  # (T, n_target)
    source = _membership(source_word_of, n_source)  # (S, n_source)
    words = target.T @ pieces @ source / np.maximum(target.sum(0), 1.0)[:, None]
    totals = words.sum(1, keepdims=True)
    return np.divide(words, totals, out=np.zeros_like(words), where=totals > 0)


def links_from_attention(weights: npt.ArrayLike) -> list[Link]:
    """Link every target word to the source word it attends to most: weights (T, S) -> links (source, target).

    Of equal weights the leftmost word wins; a row of zeros has no link. One link for each target word, so a source
    word can have several, or none.
    """
    words = np.asarray(weights, dtype=np.float64)
    if words.size == 0:
        return []
    best = words.argmax(1)
    return [(int(source), target) for target, source in enumerate(best) if words[target, source] > 0]


def _membership(word_of: Sequence[int], words: int) -> np.ndarray:
    """(pieces, words): 1 where the piece belongs to the word."""
    numbers = np.asarray(word_of, dtype=np.int64).reshape(-1)
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < words:
        raise UserError(f"A piece is said to belong to word {numbers.max()} of {words}; words are counted from 0.")
    return np.asarray(numbers[:, None] == np.arange(words)[None, :], dtype=np.float64)
