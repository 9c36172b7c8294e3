"""Source words that carry their head in a dependency tree: `the|2 cat|3 sleeps|0`.

The number behind the last `|` of a word is that of the word that governs it, counted from 1; 0 is a root, as in
CoNLL-U. Written into the line itself, trees travel through every format, through stdin and through pipes.

>>> read_heads("the|2 cat|3 sleeps|0", "line 1")
('the cat sleeps', (2, 3, 0))

A model knows pieces, not words. `Trees` keeps both the heads and the word each piece belongs to; the end of a sentence
is a word of its own, and a root.

>>> trees = Trees.of([(2, 0)], [[0, 0, 1]])     # two words; the first has two pieces
>>> [values.tolist() for values in trees.gather([0])]
[[[1, -1, -1]], [[0, 0, 1, 2]]]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from harken.data.io.ragged import Ragged
from harken.errors import UserError

NO_HEAD = -1  # a root, the end of a sentence, and padding


def read_heads(line: str, where: str) -> tuple[str, tuple[int, ...]]:
    """The sentence, and for every word the number of its head.

    Raises:
        UserError: a word without a number, a number without a word, or heads that make no tree.
    """
    words, heads = [], []
    for item in line.split():
        word, bar, number = item.rpartition("|")
        if not bar or not word or not number.isdecimal():
            raise UserError(
                f'{where} has "{item}" where data.source_heads wants a word and the number of its head: write it '
                f"like cat|3, or set data.source_heads = false"
            )
        words.append(word)
        heads.append(int(number))
    check_tree(heads, words, where)
    return " ".join(words), tuple(heads)


def write_heads(text: str, heads: Sequence[int] | None) -> str:
    """The way back; without heads, the text as it is.

    >>> write_heads("the cat sleeps", (2, 3, 0))
    'the|2 cat|3 sleeps|0'
    """
    if heads is None:
        return text
    return " ".join(f"{word}|{head}" for word, head in zip(text.split(), heads, strict=True))


def check_tree(heads: Sequence[int], words: Sequence[str], where: str) -> None:
    """Refuse heads that point outside the sentence or run in a circle."""
    for start, head in enumerate(heads):
        if head > len(heads):
            raise UserError(f'{where}: "{words[start]}" has head {head}, but there are {len(heads)} words: fix it')
        visited, here = set(), start + 1
        while here:
            if here in visited:
                raise UserError(
                    f'{where}: the heads of "{words[start]}" run in a circle; let one word of a sentence have head 0'
                )
            visited.add(here)
            here = heads[here - 1]


@dataclass(frozen=True)
class Trees:
    """One tree a sentence, over words, and the word of every piece."""

    heads: Ragged  # from 0, NO_HEAD for roots; the end of a sentence included
    words: Ragged  # the word of every piece, the end included

    @classmethod
    def of(cls, heads: Iterable[Sequence[int]], words: Iterable[Sequence[int]]) -> Trees:
        """From heads counted from 1 (0: root) and the word, from 0, of every piece of each sentence."""
        trees = [np.array([*(head - 1 for head in row), NO_HEAD], np.int16) for row in heads]
        pieces = [
            np.array([*row, len(tree) - 1], np.int16)  # the end comes after the last word
            for row, tree in zip(words, trees, strict=True)
        ]
        return cls(Ragged.of(trees), Ragged.of(pieces))

    def gather(self, indices: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Heads (B, W) padded with NO_HEAD, and the word (B, S) of every piece, padded with 0."""
        return self.heads.padded(indices, NO_HEAD, np.int64)[0], self.words.padded(indices, 0, np.int64)[0]
