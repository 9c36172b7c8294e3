"""Figures of `harken.inspection` as JSON: the page draws the same panels as the files and the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from harken.inspection.figure import Figure, values
from harken.inspection.figure.spec import Heat, Images, Raster, Strips

plain = partial(values.plain, digits=5)  # significant figures of a number


def figures_json(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Titles, notes and panels; each panel has its `kind`, such as "lines" or "heat"."""
    return [
        {"title": figure.title, "note": figure.note, "name": figure.name, "panels": list(map(_panel, figure.panels))}
        for figure in figures
    ]


def _panel(panel: Any) -> dict[str, Any]:
    content = {"kind": type(panel).__name__.lower(), **plain(panel)}
    if isinstance(panel, Heat):
        content["limits"] = list(panel.limits)
        content["strengths"] = plain(panel.strengths())
    if isinstance(panel, Images):
        content["weights"] = plain(panel.strengths())
    if isinstance(panel, Strips):
        content["values"] = plain(panel.scaled())
    if isinstance(panel, Raster):
        content["values"] = np.clip(np.nan_to_num(panel.values) * 255, 0, 255).astype(int).tolist()
    return content
