"""metrics.jsonl: one JSON object a line, `kind` "train", "valid" or "event", in the order of steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harken.files import atomic_write

METRICS = "metrics.jsonl"
TEXTS = ("kind", "event")  # keys whose values are no numbers


class MetricsLog:
    """Append to a run's metrics; a resumed run first drops entries after its checkpoint."""

    def __init__(self, folder: Path, resume_step: int | None = None) -> None:
        self.path = folder / METRICS
        if resume_step is None:
            self.path.unlink(missing_ok=True)
        elif self.path.exists():
            kept = [entry for entry in read_metrics(folder) if entry.get("step", 0) <= resume_step]
            atomic_write(self.path, "".join(json.dumps(entry) + "\n" for entry in kept))

    def write(self, entry: dict[str, Any]) -> None:
        """Append a line."""
        with open(self.path, "a", encoding="utf-8") as lines:
            lines.write(json.dumps(entry) + "\n")


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """All intact lines; a line cut short by a kill, or damaged since, is left out."""
    entries = []
    path = folder / METRICS
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if is_entry(entry):
            entries.append(entry)
    return entries


def is_entry(value: Any) -> bool:
    """Whether a value of a file is an entry as `MetricsLog` writes it: numbers, beside its kind and an event's text."""
    if not isinstance(value, dict) or type(value.get("step")) is not int or not isinstance(value.get("kind", ""), str):
        return False
    return all(isinstance(number, int | float) for key, number in value.items() if key not in TEXTS)
