"""Word alignment: agreement with gold links, and links from attention weights.

    AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

A are the predicted links, S the sure and P the possible gold links (S is part of P): leaving out a sure link and adding
an impossible one are errors, a possible link is neither. Och and Ney, 2003, "A Systematic Comparison of Various
Statistical Alignment Models". A link (i, j) joins source word i and target word j, counted from 0.

Attention is a soft alignment (Bahdanau et al., 2015). To compare it with gold word links, the weights of subwords are
merged into weights of words, so that rows still sum to 1; each target word is then linked to the source word with the
largest weight:

    w(word j, word i) = mean over the subwords t of j of the sum over the subwords s of i of w(t, s)

>>> gold = Alignment(sure=frozenset({(0, 0), (1, 1)}), possible=frozenset({(0, 0), (1, 1), (2, 1)}))
>>> alignment_error_rate([{(0, 0), (2, 1)}], [gold])        # 1 - (1 + 2) / (2 + 2)
0.25
>>> weights = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]])          # 2 target subwords, 3 source subwords
>>> merge_subwords(weights, [0, 0], [0, 1, 1], n_target=1, n_source=2)
array([[0.25, 0.75]])
>>> links_from_attention(np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]]))
[(0, 0), (1, 1), (1, 2)]
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harken.data.text.pairs import Alignment, Link
from harken.data.text.scripts import chunk_numbers
from harken.errors import UserError


@dataclass(frozen=True, slots=True)
class AlignmentScore:
    """Agreement over a whole test set."""

    precision: float  # share of predicted links that are possible
    recall: float  # share of sure links that were predicted
    error_rate: float


def alignment_score(predicted: Sequence[Collection[Link]], gold: Sequence[Alignment]) -> AlignmentScore:
    """Precision, recall and error rate, counted over all sentences together.

    With no predicted and no sure links, precision and recall are 1 and the error rate is 0.

    Raises:
        UserError: not one prediction for every gold alignment.
    """
    if len(predicted) != len(gold):
        raise UserError(f"There are {len(predicted)} predicted and {len(gold)} gold alignments; give one for each.")
    links = sure = in_sure = in_possible = 0
    for guess, truth in zip(predicted, gold, strict=True):
        guess = set(guess)
        links += len(guess)
        sure += len(truth.sure)
        in_sure += len(guess & truth.sure)
        in_possible += len(guess & (truth.possible | truth.sure))
    return AlignmentScore(
        precision=in_possible / links if links else 1.0,
        recall=in_sure / sure if sure else 1.0,
        error_rate=1.0 - (in_sure + in_possible) / (links + sure) if links + sure else 0.0,
    )


def alignment_error_rate(predicted: Sequence[Collection[Link]], gold: Sequence[Alignment]) -> float:
    """The alignment error rate over all sentences together: 0 is perfect, 1 is all wrong."""
    return alignment_score(predicted, gold).error_rate


def merge_subwords(
    weights: npt.ArrayLike, target_word_of: Sequence[int], source_word_of: Sequence[int], n_target: int, n_source: int
) -> np.ndarray:
    """Merge weights of subwords (T, S) into weights of words (n_target, n_source) whose rows sum to 1.

    Pass rows and columns of subwords only, without EOS; rows are normalised, which distributes the weight of EOS. A
    target word without subwords, or one that attended to EOS alone, has a row of zeros.

    Args:
        target_word_of: (T,) the word each target subword belongs to.
        source_word_of: (S,) the word each source subword belongs to.

    Raises:
        UserError: weights of another shape than (T, S).
    """
    subwords = np.asarray(weights, dtype=np.float64)  # (T, S)
    if subwords.shape != (len(target_word_of), len(source_word_of)):
        expected = f"{len(target_word_of)} target x {len(source_word_of)} source subwords"
        raise UserError(
            f"The attention weights have shape {subwords.shape} but there are {expected}; pass one row and column each."
        )
    target = _membership(target_word_of, n_target)  # (T, n_target)
    source = _membership(source_word_of, n_source)  # (S, n_source)
    words = target.T @ subwords @ source / np.maximum(target.sum(0), 1.0)[:, None]
    totals = words.sum(1, keepdims=True)
    return np.divide(words, totals, out=np.zeros_like(words), where=totals > 0)


def spaced_weights(
    weights: npt.ArrayLike, target_words: Sequence[str], source_words: Sequence[str], target: str, source: str
) -> np.ndarray:
    """Merge weights of words (T, S), as `harken.data.tokenizers.words` has them, into those of what spaces divide."""
    n_target, n_source = len(target.split()), len(source.split())
    if (len(target_words), len(source_words)) == (n_target, n_source):
        return np.asarray(weights, dtype=np.float64)
    owners = chunk_numbers(target_words, target), chunk_numbers(source_words, source)
    return merge_subwords(weights, *owners, n_target, n_source)


def links_from_attention(weights: npt.ArrayLike) -> list[Link]:
    """Link every target word to the source word with the largest weight: (T, S) -> links (source, target).

    Of equal weights the leftmost is taken; a row of zeros has no link. A source word can have several links, or none.
    """
    words = np.asarray(weights, dtype=np.float64)
    if words.size == 0:
        return []
    best = words.argmax(1)
    return [(int(source), target) for target, source in enumerate(best) if words[target, source] > 0]


def _membership(word_of: Sequence[int], words: int) -> np.ndarray:
    """(subwords, words): 1 where the subword belongs to the word."""
    numbers = np.asarray(word_of, dtype=np.int64).reshape(-1)
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < words:
        raise UserError(f"A subword belongs to word {numbers.max()} of {words}; words are counted from 0.")
    return np.asarray(numbers[:, None] == np.arange(words)[None, :], dtype=np.float64)
