"""One id for every character.

White space of any kind is one space, which belongs to the word that follows it.

>>> tokenizer = CharacterTokenizer.train(["a cab"], size=100)
>>> tokenizer.decode(tokenizer.encode("back  a cab"))
'bac⁇ a cab'
>>> tokenizer.word_of(tokenizer.encode("a cab"), "a cab")
[0, 1, 1, 1, 1]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from harken.data.tokenizers.flat import CharacterTable, Flat
from harken.data.tokenizers.vocabulary import VocabularyTokenizer


class CharacterTokenizer(VocabularyTokenizer):
    """Text as characters."""

    kind: ClassVar[str] = "character"
    _table: CharacterTable | None = None  # of `encode_flat`

    @staticmethod
    def split(text: str) -> list[str]:
        """The characters of a text, white space collapsed."""
        return list(" ".join(text.split()))

    def encode_flat(self, texts: Sequence[str]) -> Flat:
        """The ids of many texts in one array, and the length of each."""
        if self._table is None:
            self._table = CharacterTable(self._ids)
        return self._table.encode([" ".join(text.split()) for text in texts])

    def decode(self, ids: Sequence[int]) -> str:
        """The text behind the ids; padding, beginning and end are dropped, unknown characters show as ⁇."""
        return "".join(self.surfaces(ids))

    def word_of(self, ids: Sequence[int], text: str) -> list[int]:
        """For every id the whitespace word of `text` it belongs to."""
        last = max(0, len(text.split()) - 1)
        words: list[int] = []
        word, inside = -1, False
        for name in self.pieces(ids):
            if name == " ":
                words.append(min(word + 1, last))
                inside = False
                continue
            if not inside:
                word, inside = word + 1, True
            words.append(min(word, last))
        return words
