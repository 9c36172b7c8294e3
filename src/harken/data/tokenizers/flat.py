"""The ids of many texts as one flat array, by table lookups: what `encode_all` gives, several times faster.

>>> words = WordTable(lambda word: [len(word), 7] if word == "and" else [len(word)])
>>> [array.tolist() for array in words.encode(["one and", "", "three"])]
[[3, 3, 7, 5], [3, 0, 1]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

import numpy as np

from harken.data.tokenizers.tokens import UNK

MOST_WORDS = 500_000  # that a table remembers before it starts anew
CODE_POINTS = 0x110000

Flat = tuple[np.ndarray, np.ndarray]  # ids (N,) int32 and the length of every text (B,) int64


class WordTable(dict[str, int]):
    """Whitespace words by number; `pieces[starts[i] : starts[i] + lengths[i]]` are the ids of word i."""

    def __init__(self, ids_of: Callable[[str], Sequence[int]]) -> None:
        self.ids_of = ids_of
        self.reset()

    def reset(self) -> None:
        """Forget all words."""
        self.clear()
        self.pieces: list[int] = []
        self.lengths: list[int] = []

    def __missing__(self, word: str) -> int:
        ids = self.ids_of(word)
        self.pieces += ids
        self.lengths.append(len(ids))
        number = self[word] = len(self)
        return number

    def encode(self, texts: Sequence[str]) -> Flat:
        """The ids of the words of every text."""
        if len(self) > MOST_WORDS:
            self.reset()
        words = [text.split() for text in texts]
        counts = np.fromiter(map(len, words), np.int64, len(words))
        numbers = np.fromiter(map(self.__getitem__, chain.from_iterable(words)), np.int64, int(counts.sum()))
        pieces, sizes = np.array(self.pieces, np.int32), np.array(self.lengths, np.int64)
        lengths = sizes[numbers]
        ends = np.concatenate([[0], np.cumsum(lengths)])  # of every word in what follows
        starts = (np.cumsum(sizes) - sizes)[numbers]
        flat = pieces[np.repeat(starts - ends[:-1], lengths) + np.arange(ends[-1])]
        last = np.cumsum(counts)
        return flat, ends[last] - ends[last - counts]


class CharacterTable:
    """Ids by code point."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.ids = np.full(CODE_POINTS, UNK, dtype=np.int32)
        for character, index in ids.items():
            if len(character) == 1:
                self.ids[ord(character)] = index

    def encode(self, texts: Sequence[str]) -> Flat:
        """The ids of the characters of every text."""
        codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype="<u4")
        return self.ids[codes], np.fromiter(map(len, texts), np.int64, len(texts))


def encode_flat(tokenizer: object, texts: Sequence[str]) -> Flat:
    """The ids of many texts by any tokenizer; those with a method `encode_flat` are faster."""
    if hasattr(tokenizer, "encode_flat"):
        flat: Flat = tokenizer.encode_flat(texts)
        return flat
    return flatten(tokenizer.encode_all(texts))  # type: ignore[attr-defined]


def flatten(rows: Sequence[Sequence[int]]) -> Flat:
    """The ids of all texts in one array, and the length of each."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths
