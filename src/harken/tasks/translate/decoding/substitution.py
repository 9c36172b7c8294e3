"""Glossary terms in a finished translation: the words that translate a source term are replaced by the glossary's.

The translation is read once more under teacher forcing, and attention gives a weight w(j, i) to every pair of a target
word j and a source word i. For a term at the source words I:

    anchor     argmax_j sum over i in I of w(j, i)
    span       the anchor and the words beside it with a sum of at least SURE, but for those that are the best
               translation argmax_j w(j, i) of another source word i

The span becomes the term; all other words stay as the model wrote them, so articles and endings are those of the word
that was replaced. A model without attention gets w(j, i) from what source word i contributes: how much the
log-probability of j falls where i is read as an unknown word.

>>> weights = np.array([[0.6, 0.4, 0.0], [0.1, 0.9, 0.0], [0.0, 0.0, 1.0]])  # le chat dort <- the cat sleeps
>>> span_of(weights, [1], set())
(1, 2)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from harken.data.io.token_rows import pad
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.subword import SPACE
from harken.data.tokenizers.tokens import BOS, UNK
from harken.data.tokenizers.word import JOINED
from harken.data.tokenizers.words import joins
from harken.errors import UserError
from harken.lazy_torch import no_grad
from harken.metrics.alignment import merge_subwords
from harken.search.hypotheses import Hypothesis
from harken.search.ranking import ranking_of
from harken.tasks.translate.decoding.glossary import WORD, Match
from harken.tasks.translate.decoding.scoring import forced_scores

if TYPE_CHECKING:
    from harken.search.config import SearchOptions
    from harken.tasks.translate.sources import Sources
    from harken.tasks.translate.translator import Translator


Row = tuple[int, Hypothesis, Sequence[Match]]
ROWS = 64  # hypotheses that are read at once: their attention and logits are whole tables
SURE = 0.5  # the weight from which on a word beside the anchor belongs to the span


def substitute(
    translator: Translator,
    options: SearchOptions,
    sources: Sources,
    rows: Sequence[Row],
) -> list[Hypothesis]:
    """Hypotheses with the terms of their sources, scored by forced decoding.

    Args:
        options: those of the search, for the rank of what is scored again.
        rows: the number of the source, a hypothesis of it, and the terms that are in that source.

    Raises:
        UserError: the model's vocabulary cannot write a term; or a translation is longer with its terms than the model
            reads, which would take memory with the square of its length.
    """
    parts = (rows[start : start + ROWS] for start in range(0, len(rows), ROWS))
    return [hypothesis for part in parts for hypothesis in _substitute(translator, options, sources, part)]


def _substitute(
    translator: Translator, options: SearchOptions, sources: Sources, rows: Sequence[Row]
) -> list[Hypothesis]:
    target, edited = translator.target, [hypothesis for _, hypothesis, _ in rows]
    weights = word_weights(translator, sources, [(number, hypothesis.tokens) for number, hypothesis, _ in rows])
    changed: list[int] = []
    for index, (_, hypothesis, matches) in enumerate(rows):
        text = target.decode(hypothesis.tokens)
        tokens = _encoded(with_terms(text, weights[index], matches), matches, target)
        if len(tokens) > max(translator.limit, len(hypothesis.tokens)):
            raise UserError(
                f"the terms make a translation {len(tokens):,} tokens long, and the model reads {translator.limit:,}; "
                "shorten the terms, or the text"
            )
        if target.decode(tokens) != text:
            edited[index], changed = replace(hypothesis, tokens=tokens), [*changed, index]
    if not changed:
        return edited
    numbers = [rows[index][0] for index in changed]
    scores = forced_scores(translator, sources, numbers, [edited[index].tokens for index in changed])
    ranking = ranking_of(options)
    for index, token_scores in zip(changed, scores, strict=True):
        tokens, finished = edited[index].tokens, edited[index].finished
        token_scores = token_scores if finished else token_scores[:-1]
        total = math.fsum(token_scores)
        edited[index] = Hypothesis(tokens, total, ranking.of(total, len(token_scores)), finished, token_scores)
    return edited


def with_terms(text: str, weights: np.ndarray, matches: Sequence[Match]) -> str:
    """A translation with all terms, from weights (target words, source words)."""
    words = [match.span() for match in WORD.finditer(text)]
    taken = {index for index, (start, end) in enumerate(words) if not text[start].isalnum()}  # punctuation
    replaced: list[tuple[int, int, str]] = []
    for match in matches:
        span = span_of(weights[: len(words)], range(match.first, match.last), taken)
        if span is None:  # there is no word that it could replace
            space = " " if text and joins(text[-1], match.forms[0][0]) else ""
            replaced.append((len(text), len(text), space + match.forms[0]))
            continue
        first, last = span
        taken |= set(range(first, last))
        start, end = words[first][0], words[last - 1][1]
        is_capital = text[start].isupper() and len(match.forms) > 1
        replaced.append((start, end, match.forms[1] if is_capital else match.forms[0]))
    for start, end, term in sorted(replaced, reverse=True):
        text = text[:start] + term + text[end:]
    return text


def span_of(weights: np.ndarray, words: Sequence[int], taken: Collection[int]) -> tuple[int, int] | None:
    """The target words, first and past the last, that translate some source words; None where all are taken."""
    columns = [word for word in words if word < weights.shape[1]]
    mass = weights[:, columns].sum(1)  # (T,)
    mass[list(taken)] = -1.0
    if not columns or not mass.size or mass.max() < 0:
        return None
    others = [column for column in range(weights.shape[1]) if column not in columns]
    claimed = set(weights[:, others].argmax(0).tolist())

    def belongs(word: int) -> bool:
        return 0 <= word < len(mass) and word not in taken and word not in claimed and mass[word] >= SURE

    first = int(mass.argmax())
    last = first + 1
    while belongs(first - 1):
        first -= 1
    while belongs(last):
        last += 1
    return first, last


@no_grad
def word_weights(
    translator: Translator, sources: Sources, rows: Sequence[tuple[int, Sequence[int]]]
) -> list[np.ndarray]:
    """The weights (target words, source words) of each source and its translation's tokens; see the docstring."""
    source, lengths, distances = sources.batch([number for number, _ in rows], translator.device)
    target, _ = pad([[BOS, *tokens] for _, tokens in rows], eos=False)
    layers = translator.model.attention(source, lengths, target.to(translator.device), distances)
    aligned = None if layers is None else translator.model.alignment(layers).float().cpu().numpy()  # (B, T, S)
    shift = 1 if translator.model.alignment_shift else 0
    weights = []
    for index, (number, tokens) in enumerate(rows):
        form, text = sources.forms[number], translator.target.decode(list(tokens))
        if aligned is None:
            pieces = _contributions(translator, sources, number, tokens)
        else:
            pieces = aligned[index, shift : shift + len(tokens), : len(form.ids)]
        sides = (translator.target, tokens, text), (translator.source, form.ids, form.text)
        (target_words, target_size), (source_words, source_size) = (_words_of(*side) for side in sides)
        weights.append(merge_subwords(pieces, target_words, source_words, target_size, source_size))
    return weights


def _contributions(translator: Translator, sources: Sources, number: int, tokens: Sequence[int]) -> np.ndarray:
    """(T, S) how much the log-probability of each target token falls without each source token."""
    form = sources.forms[number]
    hidden = [replace(form, ids=[*form.ids[:at], UNK, *form.ids[at + 1 :]]) for at in range(len(form.ids))]
    texts = [form.text] * (len(hidden) + 1)
    copies = replace(sources, texts=texts, forms=[form, *hidden], trees=None)
    scores = np.array(forced_scores(translator, copies, range(len(texts)), [tokens] * len(texts)))[:, :-1]
    return np.maximum(scores[:1] - scores[1:], 0.0).T


def _words_of(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> tuple[list[int], int]:
    """The word of a text (`WORD`) that each token lies in, and the number of words."""
    ends = [match.end() for match in WORD.finditer(text)]
    words, position = [], 0
    for piece in tokenizer.pieces(ids):
        letters = piece.replace(SPACE, "").replace(JOINED, "")
        start = text.find(letters, position) if letters else -1
        position = position if start < 0 else start + len(letters)
        words.append(min(int(np.searchsorted(ends, max(position, 1))), max(len(ends) - 1, 0)))
    return words, max(len(ends), 1)


def _encoded(text: str, matches: Sequence[Match], target: Tokenizer) -> list[int]:
    ids = target.encode(text)
    for match in matches if UNK in ids else ():
        if UNK in target.encode(match.forms[0]):
            raise UserError(f"the model's vocabulary cannot write {match.forms[0]!r}; leave that phrase out")
    return ids
