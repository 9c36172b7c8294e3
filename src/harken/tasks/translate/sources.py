"""Sentences on their way into a model: their words, their ids, and their trees where the model reads those.

`translator.py` and `task.py` make batches through it, so that one place knows what a model is given beside ids and
lengths, and how long sentences may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from harken.data.io.token_rows import ParallelIds, TokenRows
from harken.data.rows import Columns, id_type, rows_of
from harken.data.text.dependency_heads import Trees, read_heads
from harken.data.text.pairs import Pair
from harken.data.text.placeholders import Placeholders
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.tokens import PAD
from harken.lazy_torch import torch
from harken.models.config import longest_of
from harken.tasks.translate.known_form import KnownForm, known_forms
from harken.tasks.translate.recipe import TranslateRecipe
from harken.tasks.translate.seen_words import SeenWords

if TYPE_CHECKING:
    from torch import Tensor


class SourceBatch(NamedTuple):
    """A batch of source sentences for the encoder."""

    ids: Tensor  # (B, S), each row ended by EOS
    lengths: Tensor  # (B,)
    distances: Tensor | None  # (B, S, S) in the tree of each sentence


@dataclass(frozen=True)
class Sources:
    """Some sentences, encoded."""

    texts: list[str]  # without heads
    forms: list[KnownForm]  # the texts as the model reads them
    trees: Trees | None = None

    @classmethod
    def read(
        cls,
        lines: Sequence[str],
        tokenizer: Tokenizer,
        headed: bool,
        with_trees: bool,
        numbers: Sequence[int] | None = None,
        placeholders: Placeholders | None = None,
        seen_words: SeenWords | None = None,
    ) -> Sources:
        """Encode lines; `headed` ones carry heads (`harken.data.text.dependency_heads`), which are kept for models
        that read trees. `numbers` are those of the lines in their file, from 0, for errors. Words that are not among
        `seen_words` are unknown.

        Raises:
            UserError: heads are missing, or make no tree.
        """
        if not headed:
            forms = known_forms(lines, tokenizer, placeholders)
            if seen_words is not None:
                forms = [
                    replace(form, unknown=sorted({*form.unknown, *seen_words.unseen(form.text)})) for form in forms
                ]
            return cls(list(lines), forms)
        names = [f"sentence {number}" for number in range(1, len(lines) + 1)]
        names = names if numbers is None else [f"line {number + 1}" for number in numbers]
        read = [read_heads(line, name) for line, name in zip(lines, names, strict=True)]
        texts, heads = [text for text, _ in read], [tree for _, tree in read]
        ids = tokenizer.encode_all(texts)  # as they are: a tree has a head for every word
        forms = [KnownForm(text, row) for text, row in zip(texts, ids, strict=True)]
        return cls(texts, forms, trees_of(texts, ids, heads, tokenizer) if with_trees else None)

    @property
    def ids(self) -> list[list[int]]:
        """The ids of every sentence, without EOS."""
        return [form.ids for form in self.forms]

    def arrays(self, numbers: Sequence[int]) -> SourceBatch:
        """The sentences of these numbers, padded, as arrays and without their trees."""
        rows = TokenRows.from_lists([self.forms[number].ids for number in numbers], eos=True)
        return SourceBatch(*rows.padded(np.arange(len(rows)), PAD, np.int64), None)  # type: ignore[arg-type]

    def batch(self, numbers: Sequence[int], device: torch.device | str) -> SourceBatch:
        """The sentences of these numbers, padded."""
        ids, lengths = map(torch.as_tensor, self.arrays(numbers)[:2])
        distances = None if self.trees is None else distances_of(self.trees, numbers).to(device)
        return SourceBatch(ids.to(device), lengths.to(device), distances)


def encode_pairs(
    pairs: Sequence[Pair], source: Tokenizer, target: Tokenizer, placeholders: Placeholders, as_read: bool = False
) -> ParallelIds:
    """Encode both sides as ids, each row ended by EOS, with symbols for markup (`Placeholders.mask_pair`)."""

    def encode(columns: Columns) -> list[TokenRows]:
        columns = tuple(placeholders.mask_columns(columns, as_read))
        return [TokenRows.encode(source, columns[0]), TokenRows.encode(target, columns[1])]

    dtype = id_type(max(source.size, target.size))
    key = [source, target, *([sorted(placeholders.kinds), as_read] if placeholders.kinds else [])]
    return ParallelIds(*rows_of(pairs).encode({"source": dtype, "target": dtype}, encode, key))


def trees_of_pairs(
    pairs: Sequence[Pair], ids: ParallelIds, tokenizer: Tokenizer, recipe: TranslateRecipe
) -> Trees | None:
    """The trees of the sources, where the model reads them."""
    if not recipe.reads_trees:
        return None
    rows = [ids.source[row][:-1].tolist() for row in range(len(ids))]  # without EOS
    return trees_of([pair.source for pair in pairs], rows, [pair.heads or () for pair in pairs], tokenizer)


def trees_of(
    texts: Sequence[str], ids: Sequence[Sequence[int]], heads: Sequence[Sequence[int]], tokenizer: Tokenizer
) -> Trees:
    """Trees over words, with the word of every piece."""
    return Trees.of(heads, (tokenizer.word_of(row, text) for row, text in zip(ids, texts, strict=True)))


def distances_of(trees: Trees, numbers: Sequence[int] | np.ndarray) -> Tensor:
    """Distances (B, S, S) between the pieces of the chosen sentences."""
    from harken.nn.positions.dependency import piece_distances  # imports torch

    heads, words = trees.gather(numbers)
    return piece_distances(torch.from_numpy(heads), torch.from_numpy(words))


def max_lengths(recipe: TranslateRecipe, source_lengths: Tensor | np.ndarray) -> Any:
    """The most tokens each output may have, from the recipe's `[search]`, and no more than have positions."""
    search, limit = recipe.search, longest_of(recipe.model)
    if isinstance(source_lengths, np.ndarray):
        factor = np.float32(search.max_length_factor)  # torch multiplies in float32, too
        most = (source_lengths.astype(np.float32) * factor).astype(np.int64) + search.max_length_extra
        return most if limit is None else np.minimum(most, limit - 1)
    lengths = (source_lengths * search.max_length_factor).long() + search.max_length_extra
    return lengths if limit is None else lengths.clamp(max=limit - 1)  # one is for BOS
