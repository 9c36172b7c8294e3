"""The word vectors that a recipe names: those of a folder or file, or learnt from the training texts first.

>>> learn_vectors(["the cat sat", "the dog sat"] * 3, width=4, seed=1).words[:2]
['the', 'sat']
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from harken.embeddings.vectors import WordVectors
from harken.errors import UserError
from harken.files import expand_user

OWN = "own"
EPOCHS, LEAST = 8, 3  # over the texts, and of a word, for vectors that are learnt here


def read_first_vectors(place: str, width: int, key: str, texts: Iterable[str], seed: int) -> WordVectors:
    """The vectors of a folder or file, or (own) learnt from the training texts.

    Raises:
        UserError: vectors of another width than the embeddings, or none.
    """
    vectors = learn_vectors(texts, width, seed) if place == OWN else WordVectors.load(expand_user(place))
    if vectors.width != width:
        raise UserError(
            f"{place} has vectors of {vectors.width} numbers, but {key} is {width}; set {key} = {vectors.width}, or "
            f"train vectors with --width {width}"
        )
    return vectors


def learn_vectors(texts: Iterable[str], width: int, seed: int) -> WordVectors:
    """Skip-gram vectors of the words in these texts; the same for the same seed.

    Raises:
        UserError: too few words to learn from.
    """
    from harken.embeddings.corpus import read_corpus
    from harken.embeddings.word2vec.settings import Settings
    from harken.embeddings.word2vec.training import train_word2vec

    settings = Settings(width=width, epochs=EPOCHS, seed=seed, threads=1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "texts.txt"
        with file.open("w", encoding="utf-8") as lines:
            lines.writelines(f"{' '.join(text.split())}\n" for text in texts)
        corpus = read_corpus([file], min_count=LEAST, folder=folder)
        return train_word2vec(corpus, settings).vectors(corpus, settings)
