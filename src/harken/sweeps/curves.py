"""The curves of a sweep in one figure: of every setting the mean over its seeds, in a band of ± one deviation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from harken.errors import UserError
from harken.inspection.figure import Figure, Lines, Series
from harken.inspection.pictures.picture import Picture
from harken.run_folders.reading import number
from harken.sweeps.trials import Trial

MOST = 8  # settings that are drawn


class SweepCurves(Picture):
    """Validations over updates.

    Args:
        name: of the sweep.
        metric: the monitored one; the loss is drawn beside it.
        trials: of every setting, by its name, the best first.

    Raises:
        UserError: no trial has a validation.
    """

    def __init__(self, name: str, metric: str, trials: Mapping[str, Sequence[Trial]]) -> None:
        self.trials = dict(list(trials.items())[:MOST])
        self.metric, self.title = metric, f"Sweep {name}"
        self.is_cut = len(trials) > MOST
        if not any(trial.run.validations for group in self.trials.values() for trial in group):
            raise UserError(f"the sweep {name} has no validation to draw yet; wait for the first")

    @property
    def caption(self) -> str:  # type: ignore[override]
        """How to read it."""
        best = f" The best {MOST} settings are drawn." if self.is_cut else ""
        return f"Mean over seeds; the band is one standard deviation to either side.{best}"

    def figures(self) -> list[Figure]:
        metrics = dict.fromkeys((self.metric, "loss"))
        panels = [Lines(metric, "update", metric, self._series(metric), dots=True) for metric in metrics]
        return [Figure(self.title, [panel for panel in panels if panel.series])]

    def _series(self, metric: str) -> list[Series]:
        series = []
        for colour, (name, trials) in enumerate(self.trials.items()):
            curves = [curve for trial in trials if len(curve := points(trial, metric))]
            if curves:
                steps, values = aligned(curves)
                mean = values.mean(0)
                spread = values.std(0, ddof=1) if len(values) > 1 else None
                low, high = (None, None) if spread is None else ((mean - spread).tolist(), (mean + spread).tolist())
                label = f"{name} (n = {len(values)})"
                series.append(Series(label, steps.tolist(), mean.tolist(), low, high, colour=colour))
        return series


def points(trial: Trial, metric: str) -> np.ndarray:
    """(T, 2): update and value of every validation of a trial."""
    entries = trial.run.validations
    pairs = [(float(entry["step"]), number(entry, metric)) for entry in entries]
    return np.array([(step, value) for step, value in pairs if value is not None and np.isfinite(value)])


def aligned(curves: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The values of all curves at common updates: those that all of them reach, with lines drawn between points.

    Returns:
        (T,) updates, and (N, T) values.

    >>> steps, values = aligned([np.array([[1, 1.0], [3, 3.0]]), np.array([[2, 5.0], [4, 7.0]])])
    >>> steps.tolist(), values.tolist()
    ([2.0, 3.0], [[2.0, 3.0], [5.0, 6.0]])
    """
    steps = np.unique(np.concatenate([curve[:, 0] for curve in curves])).astype(float)
    first, last = max(curve[0, 0] for curve in curves), min(curve[-1, 0] for curve in curves)
    common = steps[(steps >= first) & (steps <= last)]
    if not len(common):  # one ended before another began to validate
        common = np.array([last])
    return common, np.stack([np.interp(common, curve[:, 0], curve[:, 1]) for curve in curves])
