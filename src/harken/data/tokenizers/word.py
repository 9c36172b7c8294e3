"""One id for every word, with punctuation cut off in a way that can be undone.

Words have one id wherever they stand: spacing is kept on the punctuation beside them. The mark ￭ on a side of a
punctuation token means that no space is there.

>>> WordTokenizer.split("l'homme (vert), non !")
['l', "￭'￭", 'homme', '(￭', 'vert', '￭)', '￭,', 'non', '!']
>>> tokenizer = WordTokenizer.train(["l'homme dort.", "l'homme lit."], size=100)
>>> tokenizer.decode(tokenizer.encode("l'homme dort."))
"l'homme dort."
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import ClassVar

from harken.data.tokenizers.tokens import UNK
from harken.data.tokenizers.vocabulary import VocabularyTokenizer

JOINED = "￭"


class WordTokenizer(VocabularyTokenizer):
    """Text as words and punctuation."""

    kind: ClassVar[str] = "word"

    @classmethod
    def split(cls, text: str) -> list[str]:
        """The words and punctuation marks of a text."""
        return [token for word in text.split() for token in split_word(word)]

    @classmethod
    def count(cls, texts: Iterable[str]) -> Counter[str]:
        """The counts of tokens; every whitespace word is cut once."""
        counts: Counter[str] = Counter()
        for word, count in Counter(chain.from_iterable(map(str.split, texts))).items():
            for token in split_word(word):
                counts[token] += count
        return counts

    def decode(self, ids: Sequence[int]) -> str:
        """The text behind the ids; padding, beginning and end are dropped, unknown words show as ⁇."""
        return "".join(
            f" {surface}" if starts and position else surface
            for position, (surface, starts) in enumerate(_spaced(self.surfaces(ids)))
        )

    def word_of(self, ids: Sequence[int], text: str) -> list[int]:
        """The whitespace word of `text` that each id belongs to."""
        words = text.split()
        last = max(0, len(words) - 1)
        if UNK in ids and list(ids) == self.encode(text):  # an unknown mark has lost its joins, the text has them
            return [index for index, word in enumerate(words) for _ in split_word(word)]
        result: list[int] = []
        current = -1
        for _, starts in _spaced(self.pieces(ids)):
            current += starts
            result.append(min(current, last))
        return result


@lru_cache(maxsize=1 << 16)
def split_word(word: str) -> tuple[str, ...]:
    """Cut a whitespace word into runs of letters and single marks, with their joins.

    >>> split_word("non-lieu")
    ('non', '￭-￭', 'lieu')
    """
    parts: list[str] = []
    letters = ""
    for character in word:
        if is_letter(character):
            letters += character
            continue
        if letters:
            parts.append(letters)
            letters = ""
        parts.append(character)
    if letters:
        parts.append(letters)
    tokens: list[str] = []
    for position, part in enumerate(parts):
        if not is_letter(part[0]):
            before = JOINED if position else ""
            # Between two marks the join stands on the second one alone, so that there is one way to write it.
            after = JOINED if position + 1 < len(parts) and is_letter(parts[position + 1][0]) else ""
            part = f"{before}{part}{after}"
        tokens.append(part)
    return tuple(tokens)


@lru_cache(maxsize=1 << 16)
def is_letter(character: str) -> bool:
    """Whether a character is part of words: letters, digits, combining marks, format characters and ￭ itself."""
    return (
        character.isalnum() or character in ("_", JOINED) or unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf")
    )


def _spaced(tokens: Iterable[str]) -> list[tuple[str, bool]]:
    """(surface, whether a whitespace word starts here) for every token."""
    result: list[tuple[str, bool]] = []
    joined = True  # nothing comes before the first token, yet it starts the first word
    for position, token in enumerate(tokens):
        before, surface, after = _joins(token)
        result.append((surface, not (joined or before) or position == 0))
        joined = after
    return result


@lru_cache(maxsize=1 << 16)
def _joins(token: str) -> tuple[bool, str, bool]:
    """(joined to what is before, the mark or word itself, joined to what is after)."""
    marks = [character for character in token if not is_letter(character)]
    if len(marks) != 1:  # a word, or a special id
        return False, token, False
    return token[0] == JOINED, marks[0], token[-1] == JOINED
