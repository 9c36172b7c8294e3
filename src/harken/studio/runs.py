"""Run folders as the page shows them: state, metrics so far, recipe and card."""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from harken.run_folders.reading import is_running
from harken.studio.library import Library, network_name, read_toml
from harken.training.folder import CARD, MODEL, RECIPE
from harken.training.log import METRICS, read_metrics

MAX_POINTS = 2000  # of a curve; longer ones are thinned evenly


def list_runs(library: Library) -> list[dict[str, Any]]:
    """Every run: what it trains, how far it is, and its last metrics; the one that changed last comes first."""
    runs = [describe_run(name, folder) for name, folder in library.folders().items()]
    return sorted(runs, key=lambda run: -run["changed"])


def describe_run(name: str, folder: Path) -> dict[str, Any]:
    """One run."""
    recipe = read_toml(folder / RECIPE)
    lines = metrics_of(folder)
    train = [line for line in lines if line.get("kind") == "train"]
    valid = [line for line in lines if line.get("kind") == "valid"]
    best = next((line for line in reversed(valid) if line.get("best")), valid[-1] if valid else None)
    path = folder / METRICS
    last = train[-1] if train else {}
    return {
        "name": name,
        "task": recipe.get("task", ""),
        "network": network_name(recipe.get("model", {})),
        "data": data_name(recipe.get("data", {})),
        "state": state_of(folder),
        "changed": path.stat().st_mtime if path.is_file() else 0.0,
        "step": last.get("step"),
        "max_steps": recipe.get("train", {}).get("max_steps"),
        "max_minutes": recipe.get("train", {}).get("max_minutes"),
        "seconds": lines[-1].get("seconds") if lines else None,
        "loss": last.get("loss"),
        "tokens_per_second": last.get("tokens_per_second"),
        "best": {key: value for key, value in (best or {}).items() if key not in ("kind", "best")},
        "has_model": (folder / MODEL).is_file(),
    }


def state_of(folder: Path) -> str:
    """`finished` where the card is written, `running` while a process holds the folder, `stopped` otherwise."""
    if (folder / CARD).is_file():
        return "finished"
    return "running" if is_running(folder) else "stopped"


def curves(folder: Path, after: int = 0) -> dict[str, Any]:
    """The metrics of a run as columns: kind -> name -> values; lines before `after` are left out.

    Returns: `lines`, how many there are, to be given as `after` of the next call; `train` and `valid` columns.
    """
    lines = metrics_of(folder)
    columns: dict[str, Any] = {"lines": len(lines), "state": state_of(folder), "at": time.time()}
    for kind in ("train", "valid"):
        rows = [line for line in lines[after:] if line.get("kind") == kind]
        rows = rows[:: max(1, -(-len(rows) // MAX_POINTS))]
        names = sorted({name for row in rows for name, value in row.items() if isinstance(value, int | float)})
        columns[kind] = {name: [row.get(name) for row in rows] for name in names}
    return columns


def metrics_of(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl, read again where its time or size has changed: the page asks every few seconds."""
    try:
        status = (folder / METRICS).stat()
        return _cached_metrics(folder, status.st_mtime_ns, status.st_size)
    except OSError:
        return []


@lru_cache(maxsize=64)
def _cached_metrics(folder: Path, changed: int, size: int) -> list[dict[str, Any]]:
    return read_metrics(folder)


def documents(folder: Path) -> dict[str, str]:
    """The recipe and the card as text."""
    texts = {}
    for key, name in (("recipe", RECIPE), ("card", CARD)):
        path = folder / name
        texts[key] = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return texts


def data_name(data: dict[str, Any]) -> str:
    """The name of the data that a run is trained on."""
    for key in ("corpus", "train", "source", "dir", "text"):
        value = data.get(key)
        if isinstance(value, str) and value:
            return Path(value).name
        if isinstance(value, list) and value:
            return Path(str(value[0])).name
    return ""
