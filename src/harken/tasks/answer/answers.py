"""The answers that a model can give: a list in the model folder, and answers as what the loss wants.

>>> known = Answers.learn(["garden", "apple,key", "key"], "set")
>>> known.texts, known.wanted("apple,key")
(['apple', 'garden', 'key'], [0, 2])
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harken.errors import UserError
from harken.files import atomic_write

FILE = "answers.json"
BETWEEN = ","  # of a list


@dataclass(frozen=True)
class Answers:
    """Texts by id; a list is one answer ("classes") or several ("set")."""

    texts: list[str]
    kind: str

    @classmethod
    def learn(cls, answers: Iterable[str], kind: str) -> Answers:
        """All that occur, in the order of the alphabet."""
        parts = {part for answer in answers for part in (answer.split(BETWEEN) if kind == "set" else [answer])}
        return cls(sorted(parts), kind)

    def wanted(self, answer: str) -> list[int]:
        """The ids of an answer, less those that are not known."""
        parts = answer.split(BETWEEN) if self.kind == "set" else [answer]
        return [self.texts.index(part) for part in parts if part in self.texts]

    def save(self, folder: Path) -> None:
        """Write answers.json."""
        text = json.dumps({"kind": self.kind, "answers": self.texts}, ensure_ascii=False, indent=0)
        atomic_write(folder / FILE, text + "\n")

    @classmethod
    def load(cls, folder: Path) -> Answers:
        """What `save` wrote.

        Raises:
            UserError: the file is missing or none of these.
        """
        try:
            content = json.loads((folder / FILE).read_text(encoding="utf-8"))
            return cls([str(text) for text in content["answers"]], str(content["kind"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{folder / FILE} is no list of answers ({error!r}); copy it again or train anew") from None
