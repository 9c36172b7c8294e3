"""A lexical shortlist: the target tokens that a source may need, learnt from the training data.

    allowed(x) = the FREQUENT most frequent target tokens  +  for every token of x the N with the largest t(f | e)

t is the table of IBM model 1 over tokens (`harken.metrics.ibm`). Where both sides share one vocabulary, the tokens of
the source are allowed too, as names and numbers are copied. The output layer of the search computes the allowed tokens
alone (`harken.search.rules.penalties.Shortlist`), which saves most of its time where the vocabulary is large.

The table is a file of the model folder. It is learnt with the model if its recipe sets `search.shortlist`, otherwise
from the recipe's data at the first search that asks for it.

>>> source, target = [np.array([4, 5]), np.array([4])], [np.array([6, 7]), np.array([6])]
>>> table = ShortlistTable.learn(source, target, sizes=(6, 9))
>>> table.candidates(5, 1).tolist()
[7]
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harken.data.text.parallel import read_corpus
from harken.errors import UserError
from harken.lazy_torch import torch
from harken.metrics.ibm import learn_table
from harken.tasks.artifacts import ObjectArtifact
from harken.tasks.translate.sources import encode_pairs
from harken.training.weights import load_arrays, save_tensors

if TYPE_CHECKING:
    from harken.data.io.token_rows import ParallelIds
    from harken.tasks.translate.translator import Translator

FILE = "shortlist.safetensors"
MOST = 250  # target tokens that are kept for each source token
FREQUENT = 500  # most frequent target tokens, which are always allowed
PAIRS_OF_TOKENS = 2**26  # that are learnt from at most
ITERATIONS = 5


@dataclass(frozen=True)
class ShortlistTable:
    """The target tokens that each source token may need, most probable first, and the most frequent tokens."""

    offsets: np.ndarray  # (V + 1,) where the targets of each source token begin
    targets: np.ndarray  # (C,)
    frequent: np.ndarray  # (F,) most frequent first
    size: int  # of the target vocabulary

    @classmethod
    def learn(
        cls, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], sizes: tuple[int, int]
    ) -> ShortlistTable:
        """From the tokens of sentence pairs; `sizes` are those of the vocabularies."""
        table = learn_table([row + 1 for row in sources], targets, ITERATIONS, tension=0.0)
        known = table.source > 0  # without the empty word
        source, target, probability = table.source[known] - 1, table.target[known], table.probability[known]
        order = np.lexsort((target, -probability, source))
        source, target = source[order], target[order]
        rank = np.arange(len(source)) - np.searchsorted(source, source)
        source, target = source[rank < MOST], target[rank < MOST]
        counts = np.bincount(np.concatenate([np.empty(0, np.int64), *targets]), minlength=sizes[1])
        frequent = np.argsort(-counts, kind="stable")[: min(FREQUENT, int((counts > 0).sum()))]
        return cls(np.searchsorted(source, np.arange(sizes[0] + 1)), target, frequent, sizes[1])

    def candidates(self, token: int, count: int) -> np.ndarray:
        """The `count` most probable target tokens of a source token."""
        start, end = self.offsets[token], self.offsets[token + 1]
        return self.targets[start : min(end, start + count)]

    def allowed(self, rows: Sequence[Sequence[int]], count: int, joint: bool) -> np.ndarray:
        """(B, V) bool: the tokens that sources (lists of tokens) may write; `joint`: also those of the source."""
        allowed = np.zeros((len(rows), self.size), bool)
        allowed[:, self.frequent] = True
        for row, tokens in zip(allowed, rows, strict=True):
            unique = np.unique(np.asarray(tokens, np.int64))
            for token in unique.tolist():
                row[self.candidates(token, count)] = True
            if joint:
                row[unique] = True
        return allowed

    def save(self, folder: Path) -> None:
        """Into a model folder."""
        arrays = {"offsets": self.offsets, "targets": self.targets, "frequent": self.frequent}
        tensors = {name: torch.from_numpy(array.astype(np.int32)) for name, array in arrays.items()}
        save_tensors(folder / FILE, {**tensors, "size": torch.tensor([self.size])})

    @classmethod
    def load(cls, folder: Path) -> ShortlistTable:
        """From a model folder.

        Raises:
            UserError: the file is damaged.
        """
        arrays, _ = load_arrays(folder / FILE)
        names = {"offsets", "targets", "frequent", "size"}
        fits = arrays.keys() == names and all(arrays[name].ndim == 1 for name in names) and len(arrays["size"]) == 1
        if fits:
            offsets, targets, frequent = (arrays[name].astype(np.int64) for name in ("offsets", "targets", "frequent"))
            size, both = int(arrays["size"][0]), np.concatenate((targets, frequent, [0]))
            fits = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(targets)
            fits = fits and bool((np.diff(offsets) >= 0).all()) and both.min() >= 0 and both.max() < size
        if not fits:
            raise _foreign(folder)
        return cls(offsets, targets, frequent, size)


SHORTLIST = ObjectArtifact(ShortlistTable, FILE)


def _foreign(folder: Path) -> UserError:
    return UserError(f"{folder / FILE} does not belong to this model; delete it, and it is learnt again from the data")


def learn_from(ids: ParallelIds, sizes: tuple[int, int]) -> ShortlistTable:
    """From encoded training pairs, EOS included; of a large corpus a part, drawn by a fixed seed."""
    each = (ids.source.lengths.astype(np.int64) + 1) * ids.target.lengths
    rows = np.random.default_rng(0).permutation(len(each))
    chosen = np.sort(rows[np.cumsum(each[rows]) <= PAIRS_OF_TOKENS]).tolist()
    return ShortlistTable.learn([ids.source[row] for row in chosen], [ids.target[row] for row in chosen], sizes)


def shortlist_of(translator: Translator) -> ShortlistTable:
    """The shortlist of the model folder; where it has none, it is learnt from the recipe's training data and saved.

    Raises:
        UserError: there is none, and the training data cannot be read.
    """
    folder, sizes = translator.folder, (translator.source.size, translator.target.size)
    if folder is not None and (folder / FILE).is_file():
        table = SHORTLIST.load(folder)
        if (len(table.offsets) - 1, table.size) != sizes:
            raise _foreign(folder)
        return table
    try:
        pairs = read_corpus(translator.recipe.data).train
    except UserError as problem:
        raise UserError(
            f"search.shortlist needs {FILE}, which {folder} does not have, and the training data to learn it from "
            f"cannot be read ({problem}); set search.shortlist to 0, or train with it"
        ) from None
    table = learn_from(encode_pairs(pairs, translator.source, translator.target, translator.placeholders), sizes)
    if folder is not None:
        with suppress(OSError, UserError):  # a folder that cannot be written: it is learnt again the next time
            table.save(folder)
    return table
