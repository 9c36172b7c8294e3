"""Word vectors to begin with: those that `harken embed train` made, or a word2vec or GloVe file (S30, S31).

The embedding of a word that has a vector starts as that vector, all of them scaled to the spread that embeddings are
drawn with. Words that have a vector but do not stand in the training text are taken into the vocabulary, so that a text
with them can be read. Kim (2014).

>>> bare("￭,"), bare("film")
(',', 'film')
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from harken.data.tokenizers import Tokenizer
from harken.data.tokenizers_word import JOINED
from harken.embeddings.vectors import WordVectors
from harken.errors import UserError
from harken.models.reader import TokenInput
from harken.tasks.classify.recipe import ClassifyRecipe

OWN = "own"
EPOCHS, LEAST = 8, 3  # over the texts, and of a word, for vectors that are learnt here


def read_first_vectors(recipe: ClassifyRecipe, width: int, texts: Sequence[str]) -> WordVectors | None:
    """What `classifier.vectors` names, or learnt from the training texts.

    Raises:
        UserError: vectors of another width than the embeddings, or a model that does not read words.
    """
    place = recipe.classifier.vectors
    if place is None:
        return None
    if recipe.data.kind != "text" or recipe.tokenizer.kind != "word":
        raise UserError('classifier.vectors are of words: set data.kind = "text" and tokenizer.kind = "word"')
    vectors = learn_vectors(texts, width, recipe.train.seed) if place == OWN else load_vectors(place)
    if vectors.width != width:
        key = "width" if recipe.model.architecture == "transformer" else "embedding"
        raise UserError(f"{place} has vectors of {vectors.width} numbers, but model.{key} is {width}; make them equal")
    return vectors


def load_vectors(place: str) -> WordVectors:
    """Vectors of a folder or file."""
    return WordVectors.load(Path(place).expanduser())


def learn_vectors(texts: Sequence[str], width: int, seed: int) -> WordVectors:
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


def begin_with(inputs: TokenInput, tokenizer: Tokenizer, vectors: WordVectors) -> int:
    """Put the vectors into the embedding; how many words had one."""
    places = {word: row for row, word in enumerate(vectors.words)}
    pieces = [bare(piece) for piece in tokenizer.pieces(list(range(tokenizer.size)))]
    known = [(number, places[word]) for number, piece in enumerate(pieces) for word in _spellings(piece, places)]
    if not known:
        return 0
    rows, chosen = (np.array(column) for column in zip(*known, strict=True))
    matrix = np.asarray(vectors.matrix)[chosen].astype(np.float32)
    scale = inputs.table.weight.shape[1] ** -0.5 / max(float(matrix.std()), 1e-12)
    with torch.no_grad():
        inputs.table.weight[torch.from_numpy(rows)] = torch.from_numpy(matrix * scale)
    return len(rows)


def bare(piece: str) -> str:
    """A piece of the word tokenizer without the marks of its joins."""
    return piece.strip(JOINED) or piece


def _spellings(piece: str, places: dict[str, int]) -> list[str]:
    return [word for word in (piece, piece.lower()) if word in places][:1]
