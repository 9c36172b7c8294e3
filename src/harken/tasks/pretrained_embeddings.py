"""`[embeddings]` of a recipe: pretrained word vectors for the embeddings of any model, frozen or fine-tuned.

    pretrained = PretrainedEmbeddings(recipe, folder, resuming)
    pretrained.fill(model.embedding.weight, words_of(tokenizer), texts, "model.embedding")      for every table of words
    Prepared(..., facts={..., **pretrained.facts}, lines=[..., *pretrained.notes])

The row of a word that has a vector becomes that vector (less the mean of all, if asked for), all of them scaled to the
spread that the table is drawn with; vectors of n-grams serve words that have none of their own. With `tuned = false`
the whole table is frozen. A run that is resumed reads no vectors, because its checkpoint has them, and repeats what
was said of them at first. Kim (2014).

>>> bare("￭,"), bare("film")
(',', 'film')

>>> learn_vectors(["the cat sat", "the dog sat"] * 3, width=4, seed=1).words[:2]
['the', 'sat']
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.subword import SubwordTokenizer
from harken.data.tokenizers.tokens import SPECIALS
from harken.data.tokenizers.word import JOINED, WordTokenizer, split_word
from harken.embeddings.vectors import WordVectors
from harken.errors import UserError
from harken.files import atomic_write, expand_user

FILE = "embeddings.json"  # in the model folder: what was said of the vectors when training began
SPACE = "▁"  # begins the first piece of a word


class PretrainedEmbeddings:
    """The pretrained embeddings of one run, as `[embeddings]` asks for them."""

    def __init__(self, recipe: Any, folder: Path | None = None, resuming: bool = False) -> None:
        self.config, self.seed = recipe.embeddings, recipe.train.seed
        self.folder, self.resuming = folder, resuming
        self.notes: list[str] = []
        self._read: dict[str, WordVectors] = {}
        notes = folder / FILE if folder is not None else None
        if resuming and notes is not None and notes.is_file():
            self.notes = json.loads(notes.read_text(encoding="utf-8"))

    @property
    def facts(self) -> dict[str, str]:
        """The row of the card about them."""
        return {"pretrained embeddings": "; ".join(self.notes)} if self.notes else {}

    def vectors(self, width: int, texts: Iterable[str], key: str, side: str = "words") -> WordVectors | None:
        """The vectors of a side; None where the recipe names none, or a run is resumed.

        Args:
            width: of the embeddings, which is `key` of the recipe.
            texts: of the training data, to learn them from where the recipe says `own`.

        Raises:
            UserError: vectors of another width than the embeddings, or none.
        """
        path = self.config.of(side)
        if path is None or self.resuming:
            return None
        if side not in self._read:
            self._read[side] = read_first_vectors(path, width, key, texts, self.seed)
        return self._read[side]

    def fill(
        self,
        table: Tensor | Sequence[Tensor],
        names: Sequence[str | None],
        texts: Iterable[str],
        key: str,
        *,
        side: str = "words",
        spread: float | None = None,
        ids: np.ndarray | None = None,
    ) -> None:
        """Put vectors into a table (V, E), or several alike; row i is of the word `names[i]`, None where it is of none.

        Args:
            spread: the deviation that the table is drawn with; by default E^-1/2.
            ids: all those of the training text, where words of the vectors were taken into the vocabulary.

        Raises:
            UserError: as `vectors`; or no word has one.
        """
        tables = [table] if isinstance(table, Tensor) else list(table)
        for matrix in tables:
            matrix.requires_grad_(self.config.tuned)
        width = tables[0].shape[1]
        vectors = self.vectors(width, texts, key, side)
        if vectors is None:
            return
        for matrix in tables:
            filled = begin_with(matrix, names, vectors, spread or width**-0.5, self.config.centred)
        occurring = set(range(len(names)) if ids is None else np.unique(ids).tolist())
        total, path = sum(names[row] is not None for row in occurring), str(self.config.of(side))
        covered = len(occurring.intersection(filled))
        if not covered:
            raise UserError(
                f"none of the {total:,} words of the training text has a vector in {path}; check its language, and "
                "that it holds vectors of words"
            )
        pieces = sum(name is None for name in names[len(SPECIALS) :])
        note = coverage(covered, total, path, self.config.tuned, len(filled) - covered, pieces)
        self.add_note(note if side == "words" else f"{side}: {note}")

    def add_note(self, sentence: str) -> None:
        """Keep a sentence for the card and the user; a resumed run has it already."""
        if self.resuming and self.notes:
            return
        self.notes.append(sentence)
        if self.folder is not None:
            atomic_write(self.folder / FILE, json.dumps(self.notes) + "\n")


def begin_with(
    table: Tensor, names: Sequence[str | None], vectors: WordVectors, spread: float, centred: bool
) -> list[int]:
    """Put the vectors into a table (V, E), whose rows have these names; the rows that had one."""
    indices = {word: row for row, word in enumerate(vectors.words)}
    rows, chosen = [], []
    for number, name in enumerate(names):
        vector = None if name is None else _vector(name, indices, vectors)
        if vector is not None:
            rows.append(number)
            chosen.append(vector)
    if not rows:
        return []
    matrix = np.stack(chosen).astype(np.float32)
    if centred:
        matrix -= matrix.mean(0)
    scale = spread / max(float(matrix.std()), 1e-12)
    with torch.no_grad():
        table[torch.tensor(rows)] = torch.from_numpy(matrix * scale)
    return rows


def words_of(tokenizer: Tokenizer) -> list[str | None]:
    """The word behind every id; None for the special ids, and for pieces that no word begins with."""
    pieces = tokenizer.pieces(list(range(len(SPECIALS), tokenizer.size)))
    if isinstance(tokenizer, SubwordTokenizer):
        words = [piece[1:] if piece.startswith(SPACE) and len(piece) > 1 else None for piece in pieces]
    else:
        words = [bare(piece) for piece in pieces]
    return [*([None] * len(SPECIALS)), *words]


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


def width_key(model: Any, section: str = "model") -> str:
    """The key of a recipe that says how wide embeddings are."""
    return f"{section}.embedding" if hasattr(model, "embedding") else f"{section}.width"


def coverage(covered: int, total: int, path: str, tuned: bool = True, more: int = 0, pieces: int = 0) -> str:
    """Describe how many words have vectors, for the card and the user.

    >>> coverage(2, 4, "runs/words", tuned=False)
    '2 of 4 words (50%) initialised from runs/words, frozen'
    >>> coverage(2, 4, "runs/words", more=1)
    '2 of 4 words (50%) initialised from runs/words; 1 more is known by its vector'
    """
    text = f"{covered:,} of {total:,} words ({covered / max(total, 1):.0%}) initialised from {path}"
    text += "" if tuned else ", frozen"
    if more:
        text += f"; {more:,} more {'is known by its vector' if more == 1 else 'are known by their vectors'}"
    if pieces:
        text += f"; {pieces:,} pieces from inside of words have none (tokenizer.kind = word reads whole words)"
    return text


def _vector(word: str, indices: dict[str, int], vectors: WordVectors) -> np.ndarray | None:
    for spelling in (word, word.lower()):
        if spelling in indices:
            return np.asarray(vectors.matrix[indices[spelling]])
    return vectors.vector(word.lower()) if vectors.knows(word.lower()) else None


OWN = "own"
EPOCHS, LEAST = 8, 3  # over the texts, and of a word, for vectors that are learnt here


def read_first_vectors(path: str, width: int, key: str, texts: Iterable[str], seed: int) -> WordVectors:
    """The vectors of a folder or file, or (own) learnt from the training texts.

    Raises:
        UserError: vectors of another width than the embeddings, or none.
    """
    vectors = learn_vectors(texts, width, seed) if path == OWN else WordVectors.load(expand_user(path))
    if vectors.width != width:
        raise UserError(
            f"{path} has vectors of {vectors.width} numbers, but {key} is {width}; set {key} = {vectors.width}, or "
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
