"""A recipe that was inferred from data."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from harken.recipe.files import apply

MINUTES = 10.0


@dataclass
class Inferred:
    """A recipe that was inferred, and why."""

    task: str
    reason: str
    data: dict[str, Any]
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)  # others than [data] and [train]
    rows: list[tuple[str, str]] | None = None  # of a table that has to be written: a file and its text

    def values(self, minutes: float = MINUTES, overrides: Sequence[str] = ()) -> dict[str, Any]:
        """The tables of the recipe, with overrides applied; what is not in them has its default."""
        budget = int(minutes) if minutes == int(minutes) else minutes
        tables = {"task": self.task, "data": self.data, **self.tables, "train": {"max_minutes": budget}}
        values = deepcopy(tables)
        for override in overrides:
            apply(values, override)
        return values

    def to_toml(self, minutes: float = MINUTES, overrides: Sequence[str] = ()) -> str:
        """The recipe, with the reason as a comment."""
        import tomli_w

        text = tomli_w.dumps(self.values(minutes, overrides))
        return f"# {self.task}: {self.reason} (inferred by harken)\n\n{text}"
