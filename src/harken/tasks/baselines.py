"""The baseline of a run: scored when training starts, kept in baseline.json, and compared with the model afterwards.

A job computes it in `prepare` (`Baseline`, stored by `BASELINE`), and `compare` puts it beside the scores of
`harken evaluate`. Both say so where the model is worse.

>>> baseline = Baseline("most frequent tag", "accuracy", {"valid": {"accuracy": 0.796, "count": 2001}}, 12544)
>>> baseline.line
'baseline (most frequent tag): accuracy 0.796 on validation'
>>> baseline.on_card({"accuracy": 0.9})
'most frequent tag: accuracy 0.7960; model 0.9000'
>>> baseline.warning({"accuracy": 0.49})
'the model is worse than its baseline: accuracy 0.4900, and most frequent tag has 0.7960; train longer or on more data'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harken.data.rows import Rows
from harken.data.splits import digest
from harken.errors import UserError
from harken.tasks.artifacts import JsonArtifact, damaged
from harken.tasks.scores import Metric, Scores

COUNT = "count"  # of the examples of a split, beside its scores


@dataclass(frozen=True)
class Baseline:
    """A trivial method and its scores on the splits that were held out."""

    name: str
    metric: str  # that the model is compared by
    scores: dict[str, dict[str, float]]  # split -> metric -> value, and the number of examples
    fitted_on: int  # training examples
    sampled: bool = False  # whether these are a part of them
    mode: str = "max"

    @property
    def line(self) -> str:
        """The baseline in one line, for the start of a run."""
        sample = f" (fitted on a sample of {self.fitted_on:,})" * self.sampled
        metrics = ", ".join(f"{name} {value:.3f}" for name, value in self.scores["valid"].items() if name != COUNT)
        return f"baseline ({self.name}): {metrics} on validation{sample}"

    def on_card(self, best: Mapping[str, Any]) -> str:
        """Beside the best validation of the model."""
        value = self.scores["valid"][self.metric]
        model = f"; model {best[self.metric]:.4f}" if self.metric in best else ""
        worse = ", worse than the baseline" * self.is_above(best.get(self.metric))
        return f"{self.name}: {self.metric} {value:.4f}{model}{worse}"

    def is_above(self, value: float | None, split: str = "valid") -> bool:
        """Whether the baseline is better than a model with this score; false where there is none."""
        own = self.scores[split][self.metric]
        return value is not None and (own > value if self.mode == "max" else own < value)

    def warning(self, metrics: Mapping[str, Any], split: str = "valid") -> str:
        """Says that the model is worse; empty where it is not."""
        value = metrics.get(self.metric)
        if value is None or not self.is_above(value, split):
            return ""
        return (
            f"the model is worse than its baseline: {self.metric} {value:.4f}, and {self.name} has "
            f"{self.scores[split][self.metric]:.4f}; train longer or on more data"
        )


class BaselineArtifact(JsonArtifact[Baseline]):
    """baseline.json."""

    def load(self, folder: Path) -> Baseline:
        baseline = super().load(folder)
        if any(baseline.metric not in scores or COUNT not in scores for scores in baseline.scores.values()):
            raise damaged(folder / self.file)
        return baseline

    def find(self, folder: Path | None) -> Baseline | None:
        """Load the baseline of a run folder; None for a run without one."""
        return self.load(folder) if folder is not None and (folder / self.file).is_file() else None


BASELINE = BaselineArtifact("baseline.json", Baseline)


def learn_baseline(
    folder: Path, resuming: bool, rows: Rows[Any], settings: Any, parts: Mapping[str, Any], fit: Callable[[], Baseline]
) -> Baseline:
    """The baseline of a run, fitted on rows and scored on these parts; of rows on disk that is done once."""

    def learn() -> Baseline:
        key = ["baseline", settings, {name: digest(part) for name, part in parts.items()}]
        return Baseline(**rows.cached(key, lambda: asdict(fit())))

    return BASELINE.learn_or_load(folder, resuming, learn)


def compare(
    scores: Scores, folder: Path | None, split: str | None, compute: Callable[[], Baseline], name: str = ""
) -> Scores:
    """Add the baseline to the scores of a model.

    Args:
        scores: of the model; changed in place.
        folder: of the run; its baseline.json is used where it has the split with as many examples.
        split: its name; None for files.
        compute: fits the baseline anew and scores it on "test", for other examples. Where the training data cannot
            be read, the scores stay as they are.
        name: of the model's metric, where it is not that of the baseline.
    """
    stored = BASELINE.find(folder)
    if stored is None or split is None or stored.scores.get(split, {}).get(COUNT) != scores.count:
        try:
            stored, split = compute(), "test"
        except UserError:  # the training data is not there
            return scores
    baseline_scores = stored.scores[split]
    value = scores[name or stored.metric]
    if not name:
        note = f"{stored.name}, fitted on {stored.fitted_on:,} training examples"
        scores.metrics.append(
            Metric(f"baseline {stored.metric}", baseline_scores[stored.metric], note=note, digits=4, key=None)
        )
    scores.details["baseline"] = {
        "name": stored.name,
        **{metric: number for metric, number in baseline_scores.items() if metric != COUNT},
        "is_above_model": stored.is_above(value, split),
    }
    if warning := stored.warning({stored.metric: value}, split):
        scores.notes.append(warning)
    return scores
