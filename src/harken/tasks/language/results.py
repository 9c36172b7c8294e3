"""Results of a language model for a prompt: continuations, or how surprising each of its tokens is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harken.inspection.pictures.sequences import Surprisal
from harken.tasks.results import Printing, Result


@dataclass(frozen=True)
class Continuations(Result):
    """Texts that go on from one prompt."""

    prompt: str
    texts: list[str]

    def to_json(self, options: Any) -> dict[str, Any]:
        return {"prompt": self.prompt, "texts": self.texts}

    def to_records(self, options: Any) -> list[dict[str, Any]]:
        return [{"prompt": self.prompt, "text": text} for text in self.texts]

    def to_text(self, options: Any, printing: Printing) -> str:
        return "\n" * bool(printing.number) + "\n\n".join(self.prompt + text for text in self.texts)


@dataclass(frozen=True)
class SurprisingText(Result):
    """How surprising every token of a text is."""

    picture: Surprisal

    def to_records(self, options: Any) -> list[Any]:
        pairs = zip(self.picture.tokens, self.picture.nats, strict=True)
        return [[{"token": token, "nats": round(value, 4)} for token, value in pairs]]

    def to_text(self, options: Any, printing: Printing) -> str:
        return self.picture.to_terminal()
