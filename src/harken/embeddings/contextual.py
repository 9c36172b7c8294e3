"""Contextual word vectors from an ELMo or any language model of harken.

    v_t = gamma sum_j s_j h_{j,t}          h_j: the layers of the model, s: weights that sum to 1

An ELMo gives (L, T, D), layers by words. A language model gives the states of its tokens; a word has those of its last
token, which has seen all of the word. Words in context are compared by the cosine, as static vectors are.

>>> layers = np.array([[[2.0, 0.0]], [[4.0, 2.0]]])
>>> mixed(layers).tolist(), mixed(layers, [1, 0], gamma=2).tolist()
([[3.0, 1.0]], [[4.0, 0.0]])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harken.embeddings.vectors import unit
from harken.errors import UserError


def mixed(layers: np.ndarray, weights: Sequence[float] | None = None, gamma: float = 1.0) -> np.ndarray:
    """(L, T, D) -> (T, D); without weights the mean of all layers.

    Raises:
        UserError: not one weight for each layer.
    """
    chosen = np.full(len(layers), 1 / len(layers)) if weights is None else np.asarray(weights, dtype=np.float64)
    if chosen.shape != (len(layers),):
        raise UserError(f"{chosen.size} weights were given for {len(layers)} layers; give one for each layer")
    return (gamma * np.tensordot(chosen, layers, axes=1)).astype(layers.dtype)


def words_and_layers(
    model: Any, sentences: Sequence[str], progress: Callable[[int], None] | None = None
) -> list[tuple[list[str], np.ndarray]]:
    """For every sentence its words and (L, T, D), from a model of either kind.

    Raises:
        UserError: the model gives no contextual vectors.
    """
    if hasattr(model, "vectors_of_all"):
        by_sentence = model.vectors_of_all(sentences, progress)
        return [(model.words(sentence), layers) for sentence, layers in zip(sentences, by_sentence, strict=True)]
    if not hasattr(model, "states"):
        raise UserError(
            f"a model with the task {model.recipe.task!r} gives no contextual word vectors; use one with the "
            "task elmo or language"
        )
    results = []
    for sentence in sentences:
        words = sentence.split()
        results.append((words, word_states(model, words)))
        if progress:
            progress(1)
    return results


def word_states(model: Any, words: Sequence[str]) -> np.ndarray:
    """(L, T, D) of words by a language model: the states of each word's last token."""
    text = " ".join(words)
    states = model.states(text)  # (L, tokens, D)
    owner = model.tokenizer.word_of(model.tokenizer.encode(text), text)
    last = {word: token for token, word in enumerate(owner)}
    reached, last_tokens = 0, []
    for word in range(len(words)):  # a word without a token of its own has the state before it
        reached = last.get(word, reached)
        last_tokens.append(reached)
    return np.asarray(states[:, last_tokens])


@dataclass(frozen=True)
class Occurrence:
    """A word in its sentence."""

    word: str
    place: int  # index in the sentence, from 0
    sentence: str
    vector: np.ndarray  # (D,)


def occurrences(
    model: Any,
    sentences: Sequence[str],
    *,
    layer: int | None = None,
    weights: Sequence[float] | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Occurrence]:
    """Every word of the sentences with its vector, of one layer or the weighted sum.

    Raises:
        UserError: there is no such layer.
    """
    results = []
    read = words_and_layers(model, sentences, progress)
    for sentence, (words, layers) in zip(sentences, read, strict=True):
        if layer is not None and not 0 <= layer < len(layers):
            raise UserError(f"--layer is {layer}, but the model has layers 0 to {len(layers) - 1}")
        vectors = mixed(layers, weights) if layer is None else layers[layer]
        results += [Occurrence(word, at, sentence, vectors[at]) for at, word in enumerate(words)]
    return results


def of_word(among: Sequence[Occurrence], word: str, sentences: Sequence[str]) -> list[Occurrence]:
    """The first occurrence of a word in each sentence.

    Raises:
        UserError: a sentence does not contain the word.
    """
    chosen = []
    for sentence in sentences:
        here = [
            occurrence
            for occurrence in among
            if occurrence.sentence == sentence and occurrence.word.lower() == word.lower()
        ]
        if not here:
            raise UserError(f'"{word}" is no word of "{sentence}"; give --word one of its words')
        chosen.append(here[0])
    return chosen


def cosines(queries: Sequence[Occurrence], others: Sequence[Occurrence]) -> np.ndarray:
    """Cosines (Q, N) of every query with every other occurrence."""
    products: np.ndarray = (
        unit(np.stack([occurrence.vector for occurrence in queries]))
        @ unit(np.stack([occurrence.vector for occurrence in others])).T
    )
    return products


def nearest(query: Occurrence, among: Sequence[Occurrence], count: int = 10) -> list[tuple[Occurrence, float]]:
    """The occurrences with the highest cosines."""
    if not among:
        return []
    scores = cosines([query], among)[0]
    best = np.argsort(-scores, kind="stable")[:count]
    return [(among[number], float(scores[number])) for number in best]
