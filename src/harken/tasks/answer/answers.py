"""The answers that a model can give: a list in the model folder, and answers as what the loss wants.

>>> known = Answers.learn(["garden", "apple,key", "key"], "set")
>>> known.texts, known.ids_of("apple,key")
(['apple', 'garden', 'key'], [0, 2])

>>> found = Answer("garden", 0.97, ("Mary went to the garden.",), "Where is Mary?", np.array([[0.99]]))
>>> found.best_facts(1)
[0]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, Field

from harken.files import atomic_write
from harken.tasks.artifacts import ObjectArtifact, damaged
from harken.tasks.results import Result

if TYPE_CHECKING:
    from harken.inspection import HopMap

FILE = "answers.json"
BETWEEN = ","  # of a list
Kind = Literal["classes", "set", "pointer"]


@dataclass(frozen=True)
class Answers:
    """Texts by id; a list is one answer ("classes") or several ("set")."""

    texts: list[str]
    kind: Kind

    @classmethod
    def learn(cls, answers: Iterable[str], kind: Kind) -> Answers:
        """All that occur, in the order of the alphabet."""
        parts = {part for answer in answers for part in (answer.split(BETWEEN) if kind == "set" else [answer])}
        return cls(sorted(parts), kind)

    def ids_of(self, answer: str) -> list[int]:
        """The ids of an answer, less those that are not known."""
        parts = answer.split(BETWEEN) if self.kind == "set" else [answer]
        return [self.places[part] for part in parts if part in self.places]

    @cached_property
    def places(self) -> dict[str, int]:
        """The id of every text."""
        return {text: place for place, text in enumerate(self.texts)}

    def save(self, folder: Path) -> None:
        """Write answers.json."""
        text = json.dumps({"kind": self.kind, "answers": self.texts}, ensure_ascii=False, indent=0)
        atomic_write(folder / FILE, text + "\n")

    @classmethod
    def load(cls, folder: Path) -> Answers:
        """Load the answers that `save` wrote.

        Raises:
            UserError: the file is missing or damaged.
        """
        try:
            stored = _Stored.model_validate_json((folder / FILE).read_bytes(), strict=True)
        except (OSError, ValueError):
            raise damaged(folder / FILE) from None
        return cls(stored.answers, stored.kind)


class _Stored(BaseModel):
    """The content of the file."""

    kind: Kind
    answers: list[str] = Field(min_length=1)


ANSWERS = ObjectArtifact(Answers, FILE)


@dataclass(frozen=True)
class Answer(Result):
    """The result of `Answerer.answer`."""

    text: str
    score: float  # its probability
    facts: tuple[str, ...]
    question: str
    hops: np.ndarray  # (H, facts) the attention of every hop; 0 for facts too old to be read

    def best_facts(self, count: int) -> list[int]:
        """The facts that got the most attention of any hop, in the order of the story."""
        most = self.hops.max(0, initial=0.0)
        return sorted(np.argsort(-most, kind="stable")[:count].tolist())

    def map(self, supporting: Sequence[int] | None = None) -> HopMap:
        """A picture: facts down, hops across; `supporting` facts are marked."""
        from harken.inspection import HopMap

        return HopMap(self.facts, self.hops, self.question, self.text, supporting)

    def to_json(self, options: Any) -> dict[str, Any]:
        return self.to_dict()

    def __str__(self) -> str:
        return self.text

    def rows(self) -> list[dict[str, Any]]:
        return [{"name": self.text, "value": self.score}]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "question": self.question,
            "answer": self.text,
            "score": round(self.score, 4),
            "facts": list(self.facts),
            "hops": [[round(float(weight), 4) for weight in hop] for hop in self.hops],
        }
