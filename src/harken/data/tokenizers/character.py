"""One id for every character.

White space of any kind is one space, which belongs to the word that follows it.

>>> tokenizer = CharacterTokenizer.train(["a cab"], size=100)
>>> tokenizer.decode(tokenizer.encode("back  a cab"))
'bac⁇ a cab'
>>> tokenizer.word_of(tokenizer.encode("a cab"), "a cab")
[0, 1, 1, 1, 1]
"""

from __future__ import annotations

from typing import ClassVar

from harken.data.tokenizers.plain import PlainCharacterTokenizer


class CharacterTokenizer(PlainCharacterTokenizer):
    """Text as characters."""

    kind: ClassVar[str] = "character"

    @staticmethod
    def clean(text: str) -> str:
        """The text with single spaces between its words."""
        return " ".join(text.split())
