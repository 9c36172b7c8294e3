"""The symbols that a transcriber can write: characters or words, numbered from 1; 0 is CTC's blank.

>>> symbols = Symbols.learn(["ab b", "c"], "character")
>>> symbols.names, symbols.encode("cab"), symbols.decode([4, 2, 3])
([' ', 'a', 'b', 'c'], [4, 2, 3], 'cab')
>>> Symbols.learn(["one two", "two"], "word").encode("two one")
[2, 1]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from harken.errors import UserError
from harken.files import atomic_write

FILE = "symbols.json"
Kind = Literal["character", "word"]


class _Stored(BaseModel):
    """The content of the file."""

    kind: Kind
    symbols: list[str]


class Symbols:
    """A list of names; symbol i is `names[i - 1]`."""

    def __init__(self, names: Sequence[str], kind: Kind) -> None:
        self.names, self.kind = list(names), kind
        self.numbers = {name: number for number, name in enumerate(self.names, start=1)}

    @classmethod
    def learn(cls, texts: Iterable[str], kind: Kind) -> Symbols:
        """Every symbol of the training texts, in order."""
        return cls(sorted({name for text in texts for name in split(text, kind)}), kind)

    def __len__(self) -> int:
        return len(self.names)

    def split(self, text: str) -> list[str]:
        """A text as names."""
        return split(text, self.kind)

    def encode(self, text: str) -> list[int]:
        """A text as numbers; symbols that were never seen are left out."""
        return [self.numbers[name] for name in self.split(text) if name in self.numbers]

    def decode(self, numbers: Sequence[int]) -> str:
        """Numbers as a text."""
        return (" " if self.kind == "word" else "").join(self.names[number - 1] for number in numbers)

    def save(self, folder: Path) -> None:
        """Write the list beside the model."""
        atomic_write(folder / FILE, json.dumps({"kind": self.kind, "symbols": self.names}, ensure_ascii=False))

    @classmethod
    def load(cls, folder: Path) -> Symbols:
        """The list of a model folder.

        Raises:
            UserError: it is missing or damaged.
        """
        try:
            stored = _Stored.model_validate_json((folder / FILE).read_bytes(), strict=True)
        except (OSError, ValueError):
            raise UserError(
                f"{folder / FILE} is missing or damaged, so the model cannot be used; copy the folder again"
            ) from None
        return cls(stored.symbols, stored.kind)


def split(text: str, kind: Kind) -> list[str]:
    """A text as characters (spaces too) or as words."""
    return text.split() if kind == "word" else list(text)
