"""The vocabulary of word and character tokenizers: a list of tokens by frequency, kept as a JSON file.

The file holds `{"kind": "word", "tokens": [...]}`, without the four special ids that come first in every vocabulary.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Self

from harken.data.tokenizers.flat import CharacterTable, Flat, WordTable
from harken.data.tokenizers.tokens import BOS, EOS, PAD, SPECIALS, UNK
from harken.errors import UserError
from harken.files import atomic_write

UNKNOWN_SURFACE = "⁇"  # how an unknown piece reads in decoded text


def most_frequent(counts: Counter[str], size: int, min_count: int) -> list[str]:
    """The tokens seen at least `min_count` times, most frequent first, at most `size` less the special ids.

    >>> most_frequent(Counter("banana"), size=6, min_count=1)
    ['a', 'n']
    """
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [token for token, count in ordered if count >= min_count][: max(0, size - len(SPECIALS))]


class VocabularyTokenizer(ABC):
    """Ids for a fixed list of tokens; subclasses say how text is cut and put together."""

    kind: ClassVar[str]
    fallback_ids: frozenset[int] = frozenset((UNK,))
    start: str = ""  # the token that begins every text, which `load_tokenizer` adds; most have none

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = list(tokens)
        self.size = len(SPECIALS) + len(self.tokens)
        self._names = [*SPECIALS, *self.tokens]
        self._ids = {token: index for index, token in enumerate(self.tokens, start=len(SPECIALS))}

    @classmethod
    def train(cls, texts: Iterable[str], size: int, min_count: int = 1) -> Self:
        """Learn the vocabulary from the texts; streamed ones (`harken.data.prepared`) count their tokens themselves."""
        counts = texts.token_counts(cls.count) if hasattr(texts, "token_counts") else cls.count(texts)
        return cls.from_counts(counts, size, min_count)

    @classmethod
    def count(cls, texts: Iterable[str]) -> Counter[str]:
        """The counts of tokens."""
        return Counter(chain.from_iterable(map(cls.split, texts)))

    @classmethod
    def from_counts(cls, counts: Counter[str], size: int, min_count: int = 1) -> Self:
        """The vocabulary of counted tokens."""
        return cls(most_frequent(counts, size, min_count))

    @classmethod
    @abstractmethod
    def split(cls, text: str) -> list[str]:
        """The tokens of a text."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text behind the ids; padding, beginning and end are dropped, unknown tokens show as ⁇."""

    @abstractmethod
    def word_of(self, ids: Sequence[int], text: str) -> list[int]:
        """The whitespace word of `text` that each id belongs to."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without beginning or end of sentence."""
        lookup = self._ids.get
        return [lookup(token, UNK) for token in self.split(text)]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts."""
        return [self.encode(text) for text in texts]

    @cached_property
    def table(self) -> WordTable | CharacterTable:
        """The ids of whitespace words that were met, for `encode_flat`."""
        return WordTable(self.encode)

    def encode_flat(self, texts: Sequence[str]) -> Flat:
        """The ids of many texts in one array, and the length of each."""
        return self.table.encode(texts)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The token behind every id."""
        return [self._names[index] for index in ids]

    def surfaces(self, ids: Sequence[int]) -> list[str]:
        """The tokens to show for ids: special ids dropped, unknown ones as ⁇."""
        dropped = (PAD, BOS, EOS)
        return [UNKNOWN_SURFACE if index == UNK else self._names[index] for index in ids if index not in dropped]

    @property
    def settings(self) -> dict[str, Any]:
        """The further arguments of the constructor, as the file holds them."""
        return {}

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write NAME.json; a NAME.model that an earlier tokenizer left is removed."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.json"
        text = json.dumps({"kind": self.kind, "tokens": self.tokens, **self.settings}, ensure_ascii=False, indent=0)
        atomic_write(path, text + "\n")
        (folder / f"{name}.model").unlink(missing_ok=True)
        return [path]


def read_vocabulary(path: Path) -> tuple[str, list[str], dict[str, Any]]:
    """(kind, tokens, settings) of a file that `VocabularyTokenizer.save` wrote.

    Raises:
        UserError: the file is not such a file.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        kind, tokens = content.pop("kind"), content.pop("tokens")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{path} is not a saved tokenizer ({error!r}): copy it again or train anew.") from error
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise UserError(f"{path} is not a saved tokenizer (its tokens are no list of strings): copy it again.")
    if len(set(tokens)) != len(tokens):
        raise UserError(f"{path} is not a saved tokenizer (a token stands in it twice): copy it again.")
    return str(kind), tokens, content
