"""Artifacts that a job learns from its training data and keeps in the run folder: tokenizers, labels ...

    LABELS = JsonArtifact("labels.json", list[str])
    labels = LABELS.learn_or_load(folder, resuming, lambda: sorted(set(train.labels)))      in `Job.prepare`
    labels = LABELS.load(folder)                                                            in `Predictor.open`

A job lists them in `Job.artifacts`; their `names` tell the leftovers of a killed run from the files of a user.

>>> import tempfile
>>> counts = JsonArtifact("counts.json", dict[str, int])
>>> with tempfile.TemporaryDirectory() as folder:
...     _ = counts.learn_or_load(Path(folder), False, lambda: {"a": 2})
...     counts.learn_or_load(Path(folder), True, dict)
{'a': 2}
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from harken.data.tokenizers.base import (
    JOINT,
    SOURCE,
    TARGET,
    Tokenizer,
    load_tokenizer,
    load_tokenizers,
    save_tokenizers,
)
from harken.errors import UserError
from harken.files import atomic_write

T = TypeVar("T")


class Artifact(ABC, Generic[T]):
    """One thing that is learnt once, saved into the run folder, and loaded ever after."""

    names: frozenset[str]  # of the files or folders it may write

    @abstractmethod
    def save(self, value: T, folder: Path) -> None:
        """Write it into the folder."""

    @abstractmethod
    def load(self, folder: Path) -> T:
        """Read it back.

        Raises:
            UserError: it is missing or damaged.
        """

    def learn_or_load(self, folder: Path, resuming: bool, learn: Callable[[], T]) -> T:
        """The artifact: that of the folder where a run is resumed, else one learnt from the data and saved."""
        if resuming:
            return self.load(folder)
        value = learn()
        self.save(value, folder)
        return value


def _tokenizer_files(*names: str) -> frozenset[str]:
    return frozenset(f"{name}{ending}" for name in names for ending in (".model", ".json"))


class TokenizerArtifact(Artifact[Tokenizer]):
    """One tokenizer, in NAME.model or NAME.json."""

    def __init__(self, name: str = JOINT) -> None:
        self.name = name
        self.names = _tokenizer_files(name)

    def save(self, value: Tokenizer, folder: Path) -> None:
        value.save(folder, self.name)

    def load(self, folder: Path) -> Tokenizer:
        return load_tokenizer(folder, self.name)


class OptionalTokenizerArtifact(Artifact[Tokenizer | None]):
    """One tokenizer, or none, of which there is no file then."""

    names = _tokenizer_files(JOINT)

    def save(self, value: Tokenizer | None, folder: Path) -> None:
        if value is not None:
            value.save(folder, JOINT)

    def load(self, folder: Path) -> Tokenizer | None:
        return load_tokenizer(folder, JOINT) if any((folder / name).is_file() for name in self.names) else None


class TokenizerPairArtifact(Artifact[tuple[Tokenizer, Tokenizer]]):
    """The tokenizers of source and target; a joint one is kept once."""

    def __init__(self) -> None:
        self.names = _tokenizer_files(SOURCE, TARGET, JOINT)

    def save(self, value: tuple[Tokenizer, Tokenizer], folder: Path) -> None:
        save_tokenizers(folder, *value)

    def load(self, folder: Path) -> tuple[Tokenizer, Tokenizer]:
        return load_tokenizers(folder)


class JsonArtifact(Artifact[T]):
    """A plain value or a dataclass in a JSON file, checked against its type when it is read."""

    def __init__(self, file: str, kind: Any, indent: int | None = None) -> None:
        self.file, self.kind, self.indent, self.names = file, kind, indent, frozenset((file,))

    def save(self, value: T, folder: Path) -> None:
        content: Any = asdict(value) if is_dataclass(value) else value  # type: ignore[arg-type]
        atomic_write(folder / self.file, json.dumps(content, ensure_ascii=False, indent=self.indent) + "\n")

    def load(self, folder: Path) -> T:
        from pydantic import TypeAdapter, ValidationError

        try:
            text = (folder / self.file).read_text(encoding="utf-8")
            value: T = TypeAdapter(self.kind).validate_json(text, strict=True)
        except (OSError, UnicodeDecodeError, ValidationError):
            raise damaged(folder / self.file) from None
        return value


class Saveable(Protocol):
    """A class that knows its own file, as the vocabulary of a tagger does."""

    @classmethod
    def load(cls, folder: Path) -> Self: ...

    def save(self, folder: Path) -> Any: ...


S = TypeVar("S", bound=Saveable)


class ObjectArtifact(Artifact[S]):
    """An object of a class with `save(folder)` and `load(folder)`."""

    def __init__(self, kind: type[S], *names: str) -> None:
        self.kind, self.names = kind, frozenset(names)

    def save(self, value: S, folder: Path) -> None:
        value.save(folder)

    def load(self, folder: Path) -> S:
        return self.kind.load(folder)


def damaged(path: Path) -> UserError:
    """The error on an artifact that is not there or cannot be read."""
    return UserError(f"{path} is missing or damaged, so the model cannot be used; copy the folder again")
