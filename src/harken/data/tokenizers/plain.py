r"""Words and characters just as a text has them, for language models: nothing is cut off, joined or collapsed.

    plain word         what stands between white space; <unk> in a text is the unknown word
    plain character    every character, spaces and tabs included
    character          every character, but white space of any kind is one space

>>> PlainWordTokenizer.train(["the <unk> fell N %"], size=100).encode("the stock fell")
[7, 1, 6]
>>> tokenizer = PlainCharacterTokenizer.train(["a  b"], size=100)
>>> tokenizer.decode(tokenizer.encode("b  a"))
'b  a'
>>> tokenizer = CharacterTokenizer.train(["a cab"], size=100)
>>> tokenizer.decode(tokenizer.encode("back  a cab"))
'bac⁇ a cab'
>>> tokenizer.word_of(tokenizer.encode("a cab"), "a cab")
[0, 1, 1, 1, 1]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar, Self

from harken.data.tokenizers.flat import CharacterTable, Flat
from harken.data.tokenizers.tokens import SPECIALS, UNK
from harken.data.tokenizers.vocabulary import VocabularyTokenizer, most_frequent

UNKNOWN = SPECIALS[UNK]


class PlainWordTokenizer(VocabularyTokenizer):
    """Text as whitespace words."""

    kind: ClassVar[str] = "plain word"

    @classmethod
    def from_counts(cls, counts: Counter[str], size: int, min_count: int = 1) -> Self:
        """The words, most frequent first; the mark for unknown words is no word of its own."""
        tokens = most_frequent(counts, size + 1, min_count)
        return cls([token for token in tokens if token not in SPECIALS][: size - len(SPECIALS)])

    @classmethod
    def split(cls, text: str) -> list[str]:
        """The words between white space."""
        return text.split()

    def decode(self, ids: Sequence[int]) -> str:
        """Words with a space between them; an unknown one is <unk>."""
        return " ".join(UNKNOWN if index == UNK else self._names[index] for index in ids if index not in (0, 2, 3))

    def word_of(self, ids: Sequence[int], text: str) -> list[int]:
        """Every id is a word."""
        return list(range(len(ids)))


class PlainCharacterTokenizer(VocabularyTokenizer):
    """Text as characters, all of them."""

    kind: ClassVar[str] = "plain character"

    @staticmethod
    def clean(text: str) -> str:
        """The text whose characters are the tokens: all of it."""
        return text

    @classmethod
    def split(cls, text: str) -> list[str]:
        """Every character."""
        return list(cls.clean(text))

    @cached_property
    def table(self) -> CharacterTable:
        """Ids by code point."""
        return CharacterTable(self._ids)

    def encode_flat(self, texts: Sequence[str]) -> Flat:
        """The ids of many texts in one array, and the length of each."""
        return self.table.encode(list(map(self.clean, texts)))

    def decode(self, ids: Sequence[int]) -> str:
        """The characters; unknown ones show as ⁇."""
        return "".join(self.surfaces(ids))

    def word_of(self, ids: Sequence[int], text: str) -> list[int]:
        """The whitespace word each character belongs to; a space belongs to the word after it."""
        last, word, words = max(0, len(text.split()) - 1), 0, []
        inside = False
        for name in self.pieces(ids):
            if name.isspace():
                word += inside
                inside = False
            else:
                inside = True
            words.append(min(word, last))
        return words


class CharacterTokenizer(PlainCharacterTokenizer):
    """Text as characters; white space of any kind is one space, which belongs to the word that follows it."""

    kind: ClassVar[str] = "character"

    @staticmethod
    def clean(text: str) -> str:
        """The text with single spaces between its words."""
        return " ".join(text.split())
