"""One answer: its text, how sure the model is, and where every hop looked.

>>> found = Answer("garden", 0.97, ("Mary went to the garden.",), "Where is Mary?", np.array([[0.99]]))
>>> found.best_facts(1)
[0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harken.tasks.results import Result

if TYPE_CHECKING:
    from harken.inspection import HopMap


@dataclass(frozen=True)
class Answer(Result):
    """What `Answerer.answer` gives."""

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
