"""A recipe that was inferred from data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MINUTES = 10.0


@dataclass
class Inferred:
    """A recipe that was inferred, and why."""

    task: str
    reason: str
    data: dict[str, Any]
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)  # others than [data] and [train]
    rows: list[tuple[str, str]] | None = None  # of a table that has to be written: a file and its text

    def to_toml(self, minutes: float = MINUTES) -> str:
        """The recipe, with the reason as a comment; tables that are not in it have their defaults."""
        import tomli_w

        budget = int(minutes) if minutes == int(minutes) else minutes
        values = {
            "task": self.task,
            "data": self.data,
            **self.tables,
            "train": {"max_minutes": budget},
        }
        return f"# {self.task}: {self.reason} (inferred by harken)\n\n{tomli_w.dumps(values)}"
