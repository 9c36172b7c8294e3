"""Tokens around every text: the language of a sentence, or the beginning that a pretrained model reads.

>>> from harken.data.tokenizers.word import WordTokenizer
>>> inner = WordTokenizer.train(["<en> the cat"], size=20)
>>> tokenizer = MarkedTokenizer(inner, before=inner.encode("the")[:1])
>>> tokenizer.pieces(tokenizer.encode("cat")), tokenizer.word_of(tokenizer.encode("cat"), "cat")
(['the', 'cat'], [0, 0])
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.data.text.languages import THREE_LETTERS, canonical
from harken.data.tokenizers.tokens import SPECIALS
from harken.errors import UserError

if TYPE_CHECKING:
    from harken.data.tokenizers.base import Tokenizer


class MarkedTokenizer:
    """Another tokenizer, with fixed ids before and after the ids of every text that is not empty."""

    def __init__(self, inner: Tokenizer, before: Sequence[int] = (), after: Sequence[int] = ()) -> None:
        self.inner, self.before, self.after = inner, list(before), list(after)
        self.size, self.fallback_ids = inner.size, inner.fallback_ids

    def encode(self, text: str) -> list[int]:
        """The ids of a text with the marks, without beginning or end of sentence."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts."""
        return [[*self.before, *ids, *self.after] if ids else [] for ids in self.inner.encode_all(texts)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text behind the ids, marks dropped."""
        marks = {*self.before, *self.after}
        return self.inner.decode([index for index in ids if int(index) not in marks])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The piece behind every id."""
        return self.inner.pieces(ids)

    def word_of(self, ids: Sequence[int], text: str) -> list[int]:
        """The word of each id; marks count to the word beside them."""
        first, last = len(self.before), len(ids) - len(self.after)
        if list(ids[:first]) != self.before or list(ids[last:]) != self.after:
            return self.inner.word_of(ids, text)
        words = self.inner.word_of(ids[first:last], text)
        return [*(words[:1] or [0]) * first, *words, *(words[-1:] or [0]) * len(self.after)]

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write the inner tokenizer; the marks are in the recipe, or the inner one names its `start`."""
        return self.inner.save(folder, name)


def add_marks(recipe: Any, source: Tokenizer, target: Tokenizer) -> tuple[Tokenizer, Tokenizer]:
    """Both tokenizers, with the marks that a recipe of translation names.

    Raises:
        UserError: a language or token is unknown.
    """
    config, data = recipe.tokenizer, recipe.data
    before = {"source": config.source_prefix, "target": config.target_prefix}
    for side in before if config.languages else ():
        before[side] = language_token(config.languages, getattr(data, f"{side}_language"), side)
    first, last = before["source"], config.source_suffix
    marked = MarkedTokenizer(source, token_ids(source, first), token_ids(source, last)) if first or last else source
    return marked, MarkedTokenizer(target, token_ids(target, before["target"])) if before["target"] else target


def language_token(languages: dict[str, str], code: str | None, side: str) -> str:
    """The token of a language by its code, which may have a region.

    Raises:
        UserError: the model does not have it.
    """
    if code in languages:
        return languages[code]
    short = {_two_letters(known): token for known, token in reversed(languages.items())}
    if code is None or _two_letters(code) not in short:
        known = ", ".join(languages)
        raise UserError(f"the {side} language is {code!r}, which the model does not have; it has {known}")
    return short[_two_letters(code)]


def _two_letters(code: str) -> str:
    """A code without region or script, with two letters where there are some: en of eng_Latn."""
    return THREE_LETTERS.get(canonical(code), canonical(code))


def inner_tokenizer(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer without marks; source and target share a vocabulary where these are one object."""
    return tokenizer.inner if isinstance(tokenizer, MarkedTokenizer) else tokenizer


def forced_tokens(tokenizer: Tokenizer) -> list[int]:
    """The ids that begin every text: the forced beginning of a translation."""
    return tokenizer.before if isinstance(tokenizer, MarkedTokenizer) else []


def token_ids(tokenizer: Tokenizer, token: str) -> list[int]:
    """The id of a token; none of the empty one.

    Raises:
        UserError: the vocabulary does not have it.
    """
    if not token:
        return []
    pieces = tokenizer.pieces(range(len(SPECIALS), tokenizer.size))
    if token not in pieces:
        raise UserError(f"the vocabulary has no token {token!r}, which the [tokenizer] table of the recipe names")
    return [len(SPECIALS) + pieces.index(token)]
