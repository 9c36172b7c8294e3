"""Words cut into the longest pieces of a vocabulary, as BERT reads them.

A text is cleaned of control characters, perhaps lower-cased and freed of accents, cut at white space, before and after
every mark and every Chinese character; each word is then covered from its beginning by the longest piece there is.
Pieces inside of words begin with ##. Wu et al. (2016); Devlin et al. (2019), "BERT".

>>> tokenizer = WordPieceTokenizer(["the", "cat", "##s", "!"], lowercase=True)
>>> tokenizer.pieces(tokenizer.encode("The cats!"))
['the', 'cat', '##s', '!']
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

from harken.data.tokenizers.flat import MOST_WORDS, Flat, flatten
from harken.data.tokenizers.tokens import UNK
from harken.data.tokenizers.vocabulary import VocabularyTokenizer

INSIDE = "##"  # before pieces that begin no word
LONGEST = 100  # characters of a word that is not unknown
CHINESE = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F)),
    *((0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)
KEPT, SPACE, DROPPED, APART = "kept", "space", "dropped", "apart"  # what becomes of a character


class WordPieceTokenizer(VocabularyTokenizer):
    """Text as pieces of words.

    Args:
        tokens: the pieces in the order of their ids.
        lowercase: whether capitals are read as small letters.
        strip_accents: whether letters lose their accents.
        split_chinese: whether Chinese characters are words of their own.
        start: the token that begins every text (`harken.data.tokenizers.marks`).
    """

    kind: ClassVar[str] = "wordpiece"

    def __init__(
        self,
        tokens: Sequence[str],
        lowercase: bool = False,
        strip_accents: bool = False,
        split_chinese: bool = True,
        start: str = "",
    ) -> None:
        super().__init__(tokens)
        self.lowercase, self.strip_accents, self.split_chinese = lowercase, strip_accents, split_chinese
        self.start = start
        self._words: dict[str, list[int]] = {}

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "lowercase": self.lowercase, "strip_accents": self.strip_accents, "split_chinese": self.split_chinese,
            "start": self.start,
        }  # fmt: skip

    def split_words(self, text: str) -> list[str]:
        """The words and marks of a text, as they are looked up."""
        text = "".join(" " if _fate(c) == SPACE else c for c in text if _fate(c) != DROPPED)
        if self.split_chinese:
            text = "".join(f" {c} " if _is_chinese(c) else c for c in text)
        if self.strip_accents:
            text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
        if self.lowercase:
            text = "".join(map(str.lower, text))  # one by one: the end of a word does not count
        return "".join(f" {c} " if _fate(c) == APART else c for c in text).split()

    @classmethod
    def split(cls, text: str) -> list[str]:
        """The words of a text as it stands."""
        return cls(()).split_words(text)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without beginning or end of sentence."""
        return [index for word in self.split_words(text) for index in self._word_ids(word)]

    def encode_flat(self, texts: Sequence[str]) -> Flat:
        """The ids of many texts in one array, and the length of each."""
        return flatten(self.encode_all(texts))

    def decode(self, ids: Sequence[int]) -> str:
        """The words behind the ids; special ids are dropped, unknown words show as ⁇."""
        return " ".join(self.surfaces(ids)).replace(f" {INSIDE}", "")

    def word_of(self, ids: Sequence[int], text: str) -> list[int]:
        """The whitespace word of `text` that each id belongs to."""
        words = text.split()
        owners = [index for index, word in enumerate(words) for _ in self.encode(word)]
        return (owners + [max(0, len(words) - 1)] * len(ids))[: len(ids)]

    def _word_ids(self, word: str) -> list[int]:
        ids = self._words.get(word)
        if ids is None:
            if len(self._words) > MOST_WORDS:
                self._words.clear()
            ids = self._words[word] = self._cover(word)
        return ids

    def _cover(self, word: str) -> list[int]:
        """The longest pieces from the beginning on; a word that they do not cover is unknown as a whole."""
        ids, start = [], 0
        while start < len(word) <= LONGEST:
            prefix = INSIDE if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self._ids), None)
            if end is None:
                return [UNK]
            ids.append(self._ids[prefix + word[start:end]])
            start = end
        return ids or [UNK]


@lru_cache(maxsize=1 << 16)
def _fate(character: str) -> str:
    category = unicodedata.category(character)
    if character in "\t\n\r" or category[0] == "Z":
        return SPACE
    if category in ("Cc", "Cf", "Co", "Cs") or character == "\ufffd":
        return DROPPED
    is_mark = category[0] == "P" or (character.isascii() and not character.isalnum())
    return APART if is_mark else KEPT


def _is_chinese(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in CHINESE)
