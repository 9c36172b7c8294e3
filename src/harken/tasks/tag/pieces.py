"""Sentences of words as the pieces that a masked model reads, and the place of the first piece of every word.

>>> from harken.data.tokenizers.marks import MarkedTokenizer
>>> from harken.data.tokenizers.wordpiece import WordPieceTokenizer
>>> tokenizer = MarkedTokenizer(WordPieceTokenizer(["[CLS]", "the", "cat", "##s"]), before=[4])
>>> pieces_of([["the", "cats", "\\u200b", "cat"]], tokenizer)
([[4, 5, 6, 7, 1, 6, 3]], [[1, 2, 4, 5]])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from harken.data.io.token_rows import TokenRows
from harken.data.rows import NUMBER, Columns, Rows, id_type
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.marks import forced_tokens, inner_tokenizer
from harken.data.tokenizers.tokens import EOS, UNK
from harken.models.reader import PieceBatch
from harken.tasks.words import Vocabulary


class PieceRows:
    """All sentences of a split as pieces; a sentence is as long as it has words."""

    def __init__(self, ids: TokenRows, first: TokenRows) -> None:
        self.ids, self.first = ids, first

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]], tokenizer: Tokenizer) -> PieceRows:
        """The pieces of some sentences."""
        return cls(*map(TokenRows.from_lists, pieces_of(sentences, tokenizer)))

    @classmethod
    def of_tagged(cls, sentences: Rows, tokenizer: Tokenizer, vocabulary: Vocabulary) -> tuple[PieceRows, TokenRows]:
        """Training sentences and their tags."""

        def encode(columns: Columns) -> list[TokenRows]:
            tags = [vocabulary.tag_ids(tags) for tags in columns[1]]
            return [TokenRows.from_lists(rows) for rows in (*pieces_of(columns[0], tokenizer), tags)]

        types = {"pieces": id_type(tokenizer.size), "first": NUMBER, "tags": id_type(len(vocabulary.tags))}
        ids, first, tags = sentences.encode(types, encode, ["pieces", tokenizer, vocabulary.tags])
        return cls(ids, first), tags

    def __len__(self) -> int:
        return len(self.first)

    @property
    def lengths(self) -> np.ndarray:
        """Words of every sentence."""
        return self.first.lengths

    def gather(self, rows: Sequence[int] | np.ndarray) -> tuple[PieceBatch, Tensor]:
        """The chosen sentences, and their lengths (B,) in words."""
        first, lengths = self.first.gather(rows)
        return PieceBatch(*self.ids.gather(rows), first), lengths


def pieces_of(sentences: Sequence[Sequence[str]], tokenizer: Tokenizer) -> tuple[list[list[int]], list[list[int]]]:
    """The ids of sentences with their ends, and the place of each word's first piece; a word without any is UNK."""
    before, inner = forced_tokens(tokenizer), inner_tokenizer(tokenizer)
    texts = [" ".join("".join(word.split()) or "_" for word in words) for words in sentences]
    rows, firsts = [], []
    for words, text, ids in zip(sentences, texts, inner.encode_all(texts), strict=True):
        row, first, number = list(before), [], 0
        owners = inner.word_of(ids, text)
        for word in range(len(words)):
            first.append(len(row))
            start = number
            while number < len(ids) and owners[number] <= word:
                number += 1
            row += ids[start:number] or [UNK]
        rows.append([*row, EOS])
        firsts.append(first)
    return rows, firsts
