"""Word vectors to begin with: those that `harken embed train` made, or a word2vec or GloVe file (S30, S31).

The embedding of a word that has a vector starts as that vector, all of them scaled to the spread that embeddings are
drawn with. Words that have a vector but do not stand in the training text are taken into the vocabulary, so that a text
with them can be read; vectors of n-grams serve words that have none of their own. Kim (2014).

>>> bare("￭,"), bare("film")
(',', 'film')
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

from harken.data.tokenizers_word import JOINED, WordTokenizer, split_word
from harken.data.tokens import SPECIALS
from harken.embeddings.vectors import WordVectors
from harken.errors import UserError
from harken.models.reader import TokenInput

OWN = "own"
EPOCHS, LEAST = 8, 3  # over the texts, and of a word, for vectors that are learnt here


def read_first_vectors(place: str, width: int, key: str, texts: Iterable[str], seed: int) -> WordVectors:
    """The vectors of a folder or file, or (own) learnt from the training texts.

    Args:
        width: of the embeddings, which is `key` of the recipe.

    Raises:
        UserError: vectors of another width than the embeddings, or none.
    """
    vectors = learn_vectors(texts, width, seed) if place == OWN else WordVectors.load(Path(place).expanduser())
    if vectors.width != width:
        raise UserError(f"{place} has vectors of {vectors.width} numbers, but {key} is {width}; make them equal")
    return vectors


def learn_vectors(texts: Iterable[str], width: int, seed: int) -> WordVectors:
    """Skip-gram vectors (S30) of the words in these texts; the same for the same seed.

    Raises:
        UserError: too few words to learn from.
    """
    from harken.embeddings.reading import read_corpus
    from harken.embeddings.settings import Settings
    from harken.embeddings.word2vec import train_word2vec

    settings = Settings(width=width, epochs=EPOCHS, seed=seed, threads=1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "texts.txt"
        file.write_text("\n".join(" ".join(text.split()) for text in texts) + "\n", encoding="utf-8")
        corpus = read_corpus([file], min_count=LEAST, folder=folder)
        return train_word2vec(corpus, settings).vectors(corpus, settings)


def begin_with(inputs: TokenInput, names: Sequence[str], vectors: WordVectors) -> int:
    """Put the vectors into the embedding, whose rows have these names; how many of them had one."""
    places = {word: row for row, word in enumerate(vectors.words)}
    rows, made = [], []
    for number, name in enumerate(names):
        vector = _vector(bare(name), places, vectors)
        if vector is not None:
            rows.append(number)
            made.append(vector)
    if not rows:
        return 0
    matrix = np.stack(made).astype(np.float32)
    scale = inputs.table.weight.shape[1] ** -0.5 / max(float(matrix.std()), 1e-12)
    with torch.no_grad():
        inputs.table.weight[torch.tensor(rows)] = torch.from_numpy(matrix * scale)
    return len(rows)


def with_words(tokenizer: WordTokenizer, words: Iterable[str], size: int) -> WordTokenizer:
    """A tokenizer that knows more words, after its own, in the order given, up to `size` of all.

    Words that the tokenizer would cut, as rock-and-roll, are left out: no text has them in one piece.

    >>> with_words(WordTokenizer(["film"]), ["the", "film", "rock-and-roll", "actor"], 6).tokens
    ['film', 'the']
    """
    known = dict.fromkeys(tokenizer.tokens)
    known.update((word, None) for word in words if split_word(word) == (word,))
    return WordTokenizer(list(known)[: max(len(tokenizer.tokens), size - len(SPECIALS))])


def bare(piece: str) -> str:
    """A piece of the word tokenizer without the marks of its joins."""
    return piece.strip(JOINED) or piece


def _vector(word: str, places: dict[str, int], vectors: WordVectors) -> np.ndarray | None:
    for spelling in (word, word.lower()):
        if spelling in places:
            return np.asarray(vectors.matrix[places[spelling]])
    return vectors.vector(word.lower()) if vectors.knows(word.lower()) else None


def coverage(found: int, total: int, place: str, frozen: bool) -> str:
    """For the card and the person who waits.

    >>> coverage(2, 4, "runs/words", True)
    '2 of 4 words (50%) begin as vectors of runs/words, and stay so'
    """
    share = f"{found:,} of {total:,} words ({found / max(total, 1):.0%})"
    return f"{share} begin as vectors of {place}" + (", and stay so" if frozen else "")
