r"""Byte-pair encoding of UTF-8 bytes, as in GPT-2, RoBERTa and BART: every text has ids, and all white space stays.

A text is cut into words with the space before them, numbers, marks and white space; within each, the pair of pieces
that was merged first in training is merged, until no pair is left. Radford et al. (2019), "Language Models are
Unsupervised Multitask Learners". Files write a byte as a printable character: `Ġ` is a space.

>>> tokenizer = ByteLevelTokenizer(["a", "b", "Ġ", "Ġa", "Ġab"], merges=[["Ġ", "a"], ["Ġa", "b"]])
>>> tokenizer.encode("a ab"), tokenizer.pieces(tokenizer.encode("a ab"))
([4, 8], ['a', '▁ab'])
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar

from harken.data.tokenizers.flat import MOST_WORDS, Flat, flatten
from harken.data.tokenizers.subword import SPACE
from harken.data.tokenizers.tokens import SPECIALS, UNK
from harken.data.tokenizers.vocabulary import UNKNOWN_SURFACE, VocabularyTokenizer

WHITE_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # as Unicode defines it; \s has more
LETTERS_END = 0x40000  # no letter or number has a higher code point


@cache
def byte_characters() -> dict[int, str]:
    """The character for each byte: its own where that is printable, otherwise one from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + at) for at, byte in enumerate(others)}


@cache
def byte_numbers() -> dict[str, int]:
    """The byte of each character."""
    return {character: byte for byte, character in byte_characters().items()}


@cache
def _splitter() -> re.Pattern[str]:
    r"""GPT-2's pattern, whose \p{L} and \p{N} the standard library does not have."""
    letters, numbers = (_character_class(kind) for kind in "LN")
    return re.compile(
        rf"'s|'t|'re|'ve|'m|'ll|'d| ?[{letters}]+| ?[{numbers}]+| ?[^{WHITE_SPACE}{letters}{numbers}]+"
        rf"|[{WHITE_SPACE}]+(?![^{WHITE_SPACE}])|[{WHITE_SPACE}]+"
    )


def _character_class(kind: str) -> str:
    """The ranges of all characters whose category begins with a letter."""
    members = [code for code in range(LETTERS_END) if unicodedata.category(chr(code))[0] == kind]
    starts = [members[0], *(code for before, code in pairwise(members) if code != before + 1)]
    ends = [*(before for before, code in pairwise(members) if code != before + 1), members[-1]]
    return "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends, strict=True))


class ByteLevelTokenizer(VocabularyTokenizer):
    """Text as pieces of bytes.

    Args:
        tokens: the pieces in the characters of their bytes, in the order of their ids.
        merges: pairs of pieces, the first merged first.
        prefix_space: whether a text is read as if a space stood before it.
        start: the token that begins every text (`harken.data.tokenizers.marks`).
    """

    kind: ClassVar[str] = "byte-level bpe"
    keeps_lines: ClassVar[bool] = True  # ends of lines are pieces

    def __init__(
        self, tokens: Sequence[str], merges: Sequence[Sequence[str]], prefix_space: bool = False, start: str = ""
    ) -> None:
        super().__init__(tokens)
        self.merges, self.prefix_space, self.start = (
            [(left, right) for left, right in merges],
            bool(prefix_space),
            start,
        )
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        numbers = byte_numbers()
        self._bytes = [b""] * len(SPECIALS) + [
            bytes(numbers[character] for character in token)
            if all(map(numbers.__contains__, token))
            else token.encode()
            for token in self.tokens
        ]
        self._names[len(SPECIALS) :] = map(_shown, self._bytes[len(SPECIALS) :])
        self._words: dict[str, list[int]] = {}

    @property
    def settings(self) -> dict[str, Any]:
        return {"merges": [list(pair) for pair in self.merges], "prefix_space": self.prefix_space, "start": self.start}

    @classmethod
    def split(cls, text: str) -> list[str]:
        """The parts of a text within which bytes are merged."""
        return _splitter().findall(text)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without beginning or end of sentence."""
        if self.prefix_space and not text.startswith(" "):
            text = f" {text}"
        return [index for word in self.split(text) for index in self._word_ids(word)]

    def encode_flat(self, texts: Sequence[str]) -> Flat:
        """The ids of many texts in one array, and the length of each."""
        return flatten(self.encode_all(texts))

    def decode(self, ids: Sequence[int]) -> str:
        """The text behind the ids; special ids are dropped, unknown bytes show as ⁇ and parts of a character as �."""
        unknown = UNKNOWN_SURFACE.encode()
        parts = [unknown if index == UNK else self._bytes[index] for index in ids]
        text = b"".join(parts).decode("utf-8", "replace")
        return text.removeprefix(" ") if self.prefix_space else text

    def word_of(self, ids: Sequence[int], text: str) -> list[int]:
        """The whitespace word of `text` that the last byte of each id belongs to; white space belongs to the next."""
        owners, word, inside = [0] * (self.prefix_space and not text.startswith(" ")), -1, False
        for character in text:
            word += not inside and not character.isspace()
            inside = not character.isspace()
            owners += [word + (not inside)] * len(character.encode("utf-8", "replace"))
        end, last, result = 0, max(0, word), []
        for index in ids:
            end += len(self._bytes[index])
            result.append(min(owners[min(max(end, 1), len(owners)) - 1], last) if owners else 0)
        return result

    def _word_ids(self, word: str) -> list[int]:
        ids = self._words.get(word)
        if ids is None:
            if len(self._words) > MOST_WORDS:
                self._words.clear()
            ids = self._words[word] = [self._ids.get(piece, UNK) for piece in self._merged(word)]
        return ids

    def _merged(self, word: str) -> list[str]:
        """The pieces of a word: the pair of the lowest rank is joined wherever it stands, again and again."""
        characters, never = byte_characters(), len(self._ranks)
        pieces = [characters[byte] for byte in word.encode("utf-8", "replace")]
        while len(pieces) > 1:
            first = min(pairwise(pieces), key=lambda pair: self._ranks.get(pair, never))
            if first not in self._ranks:
                break
            joined, at = [], 0
            while at < len(pieces):
                is_pair = tuple(pieces[at : at + 2]) == first
                joined.append("".join(first) if is_pair else pieces[at])
                at += 1 + is_pair
            pieces = joined
        return pieces


def _shown(piece: bytes) -> str:
    """A piece in pictures: text with ▁ for spaces, or the numbers of bytes that are no whole or visible characters."""
    text = piece.decode("utf-8", "replace")
    if text and text.isprintable() and "\ufffd" not in text and SPACE not in text:
        return text.replace(" ", SPACE)
    return "".join(f"<0x{byte:02X}>" for byte in piece)
