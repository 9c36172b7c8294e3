"""Run folders as the page shows them: state, metrics so far, recipe and card."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from harken.studio.library import Library, cached_run, network_name
from harken.tasks.data_record import DataRecord
from harken.training.folder import CARD, MODEL, RECIPE

MAX_POINTS = 2000  # of a curve; longer ones are thinned evenly


def list_runs(library: Library) -> list[dict[str, Any]]:
    """Every run: what it trains, how far it is, and its last metrics; the one that changed last comes first."""
    runs = [describe_run(name, folder) for name, folder in library.folders().items()]
    return sorted(runs, key=lambda run: -run["changed"])


def describe_run(name: str, folder: Path) -> dict[str, Any]:
    """One run."""
    run = cached_run(folder)
    last = run.training[-1] if run.training else {}
    best = run.best or (run.validations[-1] if run.validations else {})
    limits = run.table("train")
    return {
        "name": name,
        "task": run.task,
        "network": network_name(run.table("model")),
        "data": data_name(run.table("data")),
        "state": run.state,
        "changed": run.changed,
        "step": last.get("step"),
        "max_steps": limits.get("max_steps"),
        "max_minutes": limits.get("max_minutes"),
        "seconds": run.entries[-1].get("seconds") if run.entries else None,
        "loss": last.get("loss"),
        "tokens_per_second": last.get("tokens_per_second"),
        "best": {key: value for key, value in best.items() if key not in ("kind", "best")},
        "has_model": (folder / MODEL).is_file(),
    }


def curves(folder: Path, after: int = 0) -> dict[str, Any]:
    """The metrics of a run as columns: kind -> name -> values; lines before `after` are left out.

    Returns: `lines`, how many there are, to be given as `after` of the next call; `train` and `valid` columns.
    """
    run = cached_run(folder)
    columns: dict[str, Any] = {"lines": len(run.entries), "state": run.state, "at": time.time()}
    for kind in ("train", "valid"):
        rows = [entry for entry in run.entries[after:] if entry.get("kind") == kind]
        rows = rows[:: max(1, -(-len(rows) // MAX_POINTS))]
        names = sorted({name for row in rows for name, value in row.items() if isinstance(value, int | float)})
        columns[kind] = {name: [row.get(name) for row in rows] for name in names}
    return columns


def documents(folder: Path) -> dict[str, str]:
    """The recipe and the card as text."""
    texts = {}
    for key, name in (("recipe", RECIPE), ("card", CARD)):
        path = folder / name
        texts[key] = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return texts


def count_examples(folder: Path) -> int | None:
    """How many examples a model was trained on; None where its folder does not say.

    Raises:
        UserError: data.json is damaged.
    """
    record = DataRecord.load(folder)
    part = record.parts.get("train") if record else None
    return int(part.partition(":")[0]) if part else None


def data_name(data: dict[str, Any]) -> str:
    """The name of the data that a run is trained on."""
    for key in ("corpus", "train", "source", "dir", "text"):
        value = data.get(key)
        if isinstance(value, str) and value:
            return Path(value).name
        if isinstance(value, list) and value:
            return Path(str(value[0])).name
    return ""
