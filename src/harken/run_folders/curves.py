"""The curves of several runs in one figure: loss, score, learning rate and speed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from harken.errors import UserError
from harken.inspection.figure import Figure, Lines, Series
from harken.inspection.figure.values import round_ticks
from harken.inspection.pictures.picture import Picture
from harken.run_folders.reading import Run, number

MOST_POINTS = 200  # of a curve; longer ones are averaged
MOST_METRICS = 3  # panels of validation metrics
AXES = {"steps": "update", "minutes": "minutes", "tokens": "million tokens"}


class RunCurves(Picture):
    """Runs side by side.

    Args:
        axis: "steps", "minutes" or "tokens".

    Raises:
        UserError: no run has an entry to draw.
    """

    title = "Training runs"

    def __init__(self, runs: Sequence[Run], axis: str = "steps") -> None:
        if axis not in AXES:
            raise UserError(f"there is no axis {axis!r}; choose {', '.join(AXES)}")
        self.runs, self.axis = [run for run in runs if run.entries], axis
        if not self.runs:
            raise UserError(
                f"{runs[0].folder if runs else 'nothing'} has no entry in metrics.jsonl yet; wait for the first updates"
            )
        self.names = short_names([run.folder for run in self.runs])
        self.title = self.names[0] if len(self.names) == 1 else f"{len(self.names)} training runs"

    @property
    def caption(self) -> str:  # type: ignore[override]
        """How to read it."""
        running = [name for name, run in zip(self.names, self.runs, strict=True) if run.state == "running"]
        dashed = "Dashed: validation." if any(run.validations for run in self.runs) else ""
        return " ".join(filter(None, [dashed, f"Still running: {', '.join(running)}." if running else ""]))

    def figures(self) -> list[Figure]:
        panels = [self._losses()]
        metrics = dict.fromkeys(metric for run in self.runs if (metric := run.metric) and metric != "loss")
        for metric in list(metrics)[:MOST_METRICS]:
            panels.append(self._panel(metric, metric, lambda run: run.validations, metric))
        panels.append(self._panel("Learning rate", "learning rate", lambda run: run.training, "learning_rate"))
        panels.append(self._panel("Speed", "tokens/s", lambda run: run.training, "tokens_per_second"))
        drawn = [panel for panel in panels if panel.series]
        last = max((max(series.x) for panel in drawn for series in panel.series), default=1.0)
        ticks = [(tick, f"{tick:,.6g}") for tick in round_ticks(0.0, last, 4)]
        drawn = [replace(panel, x_limits=(0.0, last * 1.02), x_ticks=ticks) for panel in drawn]
        return [Figure(self.title, drawn, across=2 if len(drawn) == 4 else None)]

    def _losses(self) -> Lines:
        series = []
        for colour, (name, run) in enumerate(zip(self.names, self.runs, strict=True)):
            for entries, dashed in ((run.training, False), (run.validations, True)):
                x, y = self._points(run, entries, "loss")
                if x:
                    label = f"{name}, validation" if dashed else name
                    series.append(Series(label, x, y, dashed=dashed, colour=colour))
        return Lines("Loss", AXES[self.axis], "loss", series, dots=any(len(line.x) == 1 for line in series))

    def _panel(self, title: str, y_label: str, entries: Callable[[Run], list[dict[str, Any]]], key: str) -> Lines:
        series = []
        for colour, (name, run) in enumerate(zip(self.names, self.runs, strict=True)):
            x, y = self._points(run, entries(run), key)
            if x:
                series.append(Series(name, x, y, colour=colour))
        dots = all(len(line.x) < 12 for line in series)
        return Lines(title, AXES[self.axis], y_label, series, dots=dots)

    def _points(self, run: Run, entries: Sequence[dict[str, Any]], key: str) -> tuple[list[float], list[float]]:
        place = self._places(run)
        pairs = [(place(entry), number(entry, key)) for entry in entries]
        points = [(x, y) for x, y in pairs if x is not None and y is not None and math.isfinite(y)]
        return thinned([x for x, _ in points], [y for _, y in points])

    def _places(self, run: Run) -> Callable[[dict[str, Any]], float | None]:
        """Where an entry lies on the axis."""
        if self.axis == "steps":
            return lambda entry: number(entry, "step")
        if self.axis == "minutes":
            return lambda entry: None if (seconds := number(entry, "seconds")) is None else seconds / 60
        steps = [int(entry["step"]) for entry in run.training if "step" in entry]
        tokens = np.cumsum([number(entry, "tokens") or 0.0 for entry in run.training if "step" in entry]) / 1e6
        return lambda entry: float(np.interp(entry.get("step", 0), [0, *steps], [0.0, *tokens]))


def thinned(x: list[float], y: list[float], most: int = MOST_POINTS) -> tuple[list[float], list[float]]:
    """At most so many points: the means of neighbours.

    >>> thinned([0, 1, 2, 3], [1, 3, 5, 7], most=2)
    ([0.5, 2.5], [2.0, 6.0])
    """
    if len(x) <= most:
        return x, y
    edges = np.linspace(0, len(x), most + 1).astype(int)
    return (
        [float(np.mean(x[a:b])) for a, b in pairwise(edges)],
        [float(np.mean(y[a:b])) for a, b in pairwise(edges)],
    )


def short_names(folders: Sequence[Path]) -> list[str]:
    """The ends of the paths, as long as it takes to tell them apart.

    >>> short_names([Path("runs/a/small"), Path("runs/b/small")])
    ['a/small', 'b/small']
    """
    parts = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(set(parts)):
            break
    return names
