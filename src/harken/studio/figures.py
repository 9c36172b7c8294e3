"""Figures of `harken.inspection` as JSON: the page draws the same panels as the files and the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from harken.inspection.figure import Figure
from harken.inspection.figure.spec import Heat, Images, Raster, Strips

DIGITS = 5  # significant figures of a number


def figures_json(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Titles, notes and panels; each panel has its `kind`, such as "lines" or "heat"."""
    return [
        {"title": one.title, "note": one.note, "name": one.name, "panels": [_panel(panel) for panel in one.panels]}
        for one in figures
    ]


def _panel(panel: Any) -> dict[str, Any]:
    made = {"kind": type(panel).__name__.lower(), **_plain(panel)}
    if isinstance(panel, Heat):
        made["limits"] = list(panel.limits)
        made["strengths"] = _plain(panel.strengths())
    if isinstance(panel, Images):
        made["weights"] = _plain(panel.strengths())
    if isinstance(panel, Strips):
        made["values"] = _plain(panel.scaled())
    if isinstance(panel, Raster):
        made["values"] = np.clip(np.nan_to_num(panel.values) * 255, 0, 255).astype(int).tolist()
    return made


def _plain(value: Any) -> Any:
    """Dataclasses as dicts, arrays and tuples as lists, numbers rounded, what is not finite as None."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, str | bool | int | None):
        return value
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, Sequence | range):
        return [_plain(part) for part in value]
    return str(value)


def plain(value: Any) -> Any:
    """A value as JSON can hold it.

    >>> plain({"a": (1, float("nan"), 0.1234567)})
    {'a': [1, None, 0.12346]}
    """
    return _plain(value)
