"""metrics.jsonl: one JSON object a line, `kind` "train" or "valid", in the order of steps."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

METRICS = "metrics.jsonl"


class MetricsLog:
    """Append to a run's metrics; a resumed run first drops entries after its checkpoint."""

    def __init__(self, folder: Path, resume_step: int | None = None) -> None:
        self.path = folder / METRICS
        if resume_step is None:
            self.path.unlink(missing_ok=True)
        elif self.path.exists():
            kept = [entry for entry in read_metrics(folder) if entry.get("step", 0) <= resume_step]
            temporary = self.path.with_name(METRICS + ".part")
            temporary.write_text("".join(json.dumps(entry) + "\n" for entry in kept), encoding="utf-8")
            os.replace(temporary, self.path)

    def write(self, entry: dict[str, Any]) -> None:
        """Append a line."""
        with open(self.path, "a", encoding="utf-8") as lines:
            lines.write(json.dumps(entry) + "\n")


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """All complete lines; one truncated by a kill is skipped."""
    entries = []
    path = folder / METRICS
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return entries
