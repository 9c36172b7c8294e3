"""The results of a sweep: a table, a data frame, paired tests against a baseline, curves with bands.

The best setting is chosen by the validation metric alone. The test part is scored for that one and for the baseline.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from harken.errors import UserError
from harken.files import atomic_write
from harken.metrics.significance import PairedTest, holm, paired_t_test
from harken.recipe.files import apply
from harken.run_folders.comparing import paired_tests
from harken.run_folders.frame import as_frame
from harken.run_folders.reading import number
from harken.sweeps.curves import SweepCurves
from harken.sweeps.space import Setting
from harken.sweeps.trials import Plan, Trial, write_record

TABLE = "sweep.csv"


@dataclass
class Summary:
    """One setting over its seeds."""

    name: str
    setting: Setting
    share: float  # of the budget that it was trained for
    scores: dict[int, float]  # seed -> the monitored metric of the best validation
    failed: int
    seconds: float  # of training, the mean
    parameters: int | None
    test: dict[str, dict[int, float]] = field(default_factory=dict)  # metric of the test part -> seed -> value
    paired: PairedTest | None = None  # against the baseline, over the seeds that both have
    p_adjusted: float | None = None  # for the number of settings

    @property
    def mean(self) -> float:
        """Over seeds; NaN where no trial has a score."""
        return fmean(self.scores.values()) if self.scores else math.nan

    @property
    def deviation(self) -> float:
        """The standard deviation over seeds; NaN for a single one."""
        return stdev(self.scores.values()) if len(self.scores) > 1 else math.nan


class Sweep:
    """A sweep that was run: what `harken.sweep` gives back.

    Attributes:
        notes: sentences for the user.
    """

    def __init__(self, plan: Plan, baseline: str | None = None) -> None:
        """
        Raises:
            UserError: the baseline is none of the settings.
        """
        self.plan, self.notes = plan, list(plan.notes)
        names = list(plan.settings)
        if baseline is not None and baseline not in names:
            raise UserError(f"there is no setting {baseline!r} to be the baseline; choose from {', '.join(names[:20])}")
        self.baseline = baseline or names[0]

    @property
    def folder(self) -> Path:
        """The folder with the trials."""
        return self.plan.folder

    @property
    def trials(self) -> list[Trial]:
        """Every setting with every seed."""
        return self.plan.trials

    @property
    def metric(self) -> str:
        """The monitored metric."""
        return next((metric for trial in self.trials if (metric := trial.run.metric)), "loss")

    @property
    def sign(self) -> int:
        """1 where a larger value of the metric is better, -1 where a smaller one is."""
        return next((trial.run.sign for trial in self.trials if trial.run.metric), -1)

    def score(self, trial: Trial, share: float = 1.0) -> float:
        """The metric of the best validation of a trial within a share of the budget; NaN where there is none."""
        best = [entry for entry in trial.validations(share) if entry.get("best")]
        value = number(best[-1], self.metric) if best else None
        return math.nan if value is None else value

    def summary(self, name: str, share: float = 1.0) -> Summary:
        """One setting over its seeds."""
        trials = [trial for trial in self.plan.of(name) if trial.share >= share or trial.is_complete(share)]
        scores = {trial.seed: score for trial in trials if math.isfinite(score := self.score(trial, share))}
        metrics = dict.fromkeys(metric for trial in trials for metric in trial.test)
        return Summary(
            name,
            self.plan.settings[name],
            share,
            scores,
            failed=sum(bool(trial.error) for trial in self.plan.of(name)),
            seconds=fmean([trial.run.seconds for trial in trials]) if trials else math.nan,
            parameters=next((count for trial in trials if (count := trial.run.parameters)), None),
            test={name: {trial.seed: trial.test[name] for trial in trials if name in trial.test} for name in metrics},
        )

    def ranked(self, names: Sequence[str], share: float = 1.0) -> list[Summary]:
        """Settings by their mean, the best first; those without a score last."""
        summaries = [self.summary(name, share) for name in names]
        return sorted(summaries, key=lambda row: (math.isnan(row.mean), -self.sign * row.mean, row.name))

    def summaries(self) -> list[Summary]:
        """All settings, the best first, each with a paired t-test against the baseline over the seeds of both.

        Settings that halving left behind come after those that were trained for longer; they are compared with what
        the baseline had reached by then.
        """
        shares = {name: max(trial.share for trial in self.plan.of(name)) or 1.0 for name in self.plan.settings}
        rows = []
        for share in sorted(set(shares.values()), reverse=True):
            rows += self.ranked([name for name in shares if shares[name] == share], share)
        tests = {}
        for row in rows:
            share = min(row.share, shares[self.baseline])
            own, reference = (self.summary(name, share).scores for name in (row.name, self.baseline))
            seeds = [seed for seed in own if seed in reference]
            if row.name != self.baseline and len(seeds) > 1:
                tests[row.name] = paired_t_test(*([scores[seed] for seed in seeds] for scores in (own, reference)))
        adjusted = dict(zip(tests, holm([test.p_value for test in tests.values()]), strict=True))
        for row in rows:
            row.paired, row.p_adjusted = tests.get(row.name), adjusted.get(row.name)
        return rows

    @property
    def best(self) -> str:
        """The setting with the best mean of the validation metric.

        Raises:
            UserError: no trial has a score.
        """
        first = self.summaries()[0]
        if math.isnan(first.mean):
            errors = dict.fromkeys(trial.error for trial in self.trials if trial.error)
            raise UserError(f"no trial of {self.folder} has a score: {'; '.join(errors) or 'none was validated yet'}")
        return first.name

    def load(self) -> Any:
        """The model of the best setting with the best seed, as `harken.load` gives it."""
        from harken.api import load

        return load(max(self.plan.of(self.best), key=lambda trial: self._rank(trial)).folder)

    def _rank(self, trial: Trial) -> float:
        score = self.score(trial)
        return -math.inf if math.isnan(score) else self.sign * score

    def bootstrap(self) -> list[dict[str, Any]]:
        """The best setting against the baseline on the test examples, by paired bootstrap of their outputs."""
        rows = []
        for first, other in zip(self.plan.of(self.baseline), self.plan.of(self.best), strict=True):
            if first is not other:
                tests = paired_tests([first.run, other.run], [first.name, other.name])
                rows += [{"seed": first.seed, **test} for test in tests if test["split"] == "test"]
        return rows

    def frame(self) -> Any:
        """One row for each trial: a `pandas.DataFrame` where pandas is installed, else a dict of columns."""
        return as_frame(self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "name": trial.name,
                **{key: plain(value) for key, value in trial.setting.items()},
                "seed": trial.seed,
                "state": "failed" if trial.error else trial.run.state,
                f"valid {self.metric}": none_if_nan(self.score(trial)),
                "steps": trial.run.step,
                "seconds": trial.run.seconds,
                "parameters": trial.run.parameters,
                **{f"test {name}": value for name, value in trial.test.items()},
                "error": trial.error or None,
                "folder": str(trial.folder),
            }
            for trial in self.trials
        ]

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """The table for people: headings, and a row for each setting."""
        summaries = self.summaries()
        shown = next((next(iter(row.test)) for row in summaries if row.test), None)
        is_halved = any(row.share < 1 for row in summaries)
        headings = ["setting", *(["budget"] if is_halved else []), "n", f"validation {self.metric}"]
        headings += [f"against {self.baseline}", "p (Holm)", *([f"test {shown}"] if shown else [])]
        headings += ["parameters", "seconds"]
        table = []
        for row in summaries:
            count = f"{len(row.scores)}, {row.failed} failed" if row.failed else str(len(row.scores))
            cells = [row.name, *([f"{row.share:.0%}"] if is_halved else []), count, spread(row.mean, row.deviation)]
            if row.name == self.baseline:
                cells += ["baseline", ""]
            elif row.paired is None:
                cells += ["", ""]
            else:
                cells += [f"{row.paired.difference:+.4g}", f"{row.p_adjusted:.3f}"]
            if shown:
                values = list(row.test.get(shown, {}).values())
                deviation = stdev(values) if len(values) > 1 else math.nan
                cells.append(spread(fmean(values) if values else math.nan, deviation))
            cells.append("" if row.parameters is None else f"{row.parameters:,}")
            cells.append("" if math.isnan(row.seconds) else f"{row.seconds:,.0f}")
            table.append(cells)
        return headings, table

    def table(self) -> str:
        """The table as text: mean ± standard deviation over seeds, the best setting first."""
        headings, rows = self.rows()
        widths = [max(len(row[column]) for row in (headings, *rows)) for column in range(len(headings))]
        lines = (
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (headings, *rows)
        )
        return "\n".join(line.rstrip() for line in lines)

    def plot(self) -> SweepCurves:
        """The curves of the validations: of each setting the mean over its seeds, in a band of ± one deviation.

        Raises:
            UserError: there is no validation to draw.
        """
        return SweepCurves(
            self.folder.name, self.metric, {row.name: self.plan.of(row.name) for row in self.summaries()}
        )

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        summaries = self.summaries()
        return {
            "metric": self.metric,
            "mode": "max" if self.sign > 0 else "min",
            "baseline": self.baseline,
            "best": None if not summaries[0].scores else summaries[0].name,
            "settings": [
                {
                    "name": row.name,
                    "setting": {key: plain(value) for key, value in row.setting.items()},
                    "share": row.share,
                    "n": len(row.scores),
                    "failed": row.failed,
                    "mean": none_if_nan(row.mean),
                    "deviation": none_if_nan(row.deviation),
                    "seconds": none_if_nan(row.seconds),
                    "parameters": row.parameters,
                    "test": {name: list(values.values()) for name, values in row.test.items()},
                    "difference": None if row.paired is None else row.paired.difference,
                    "p": None if row.paired is None else row.paired.p_value,
                    "p_holm": row.p_adjusted,
                }
                for row in summaries
            ],
            "bootstrap": self.bootstrap() if summaries[0].scores else [],
            "notes": self.notes,
        }

    def note(self, text: str) -> None:
        """Add a sentence for the user, once."""
        if text not in self.notes:
            self.notes.append(text)

    def save(self) -> None:
        """Write sweep.json and sweep.csv into the folder."""
        write_record(self.plan, self.to_dict())
        rows = self._rows()
        names = list(dict.fromkeys(name for row in rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        atomic_write(self.folder / TABLE, text.getvalue())

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"Sweep({str(self.folder)!r}, {len(self.plan.settings)} settings, {len(self.plan.seeds)} seeds)"


def spread(mean: float, deviation: float) -> str:
    """A mean with its deviation.

    >>> spread(31.24, 0.416), spread(0.5, float("nan")), spread(float("nan"), float("nan"))
    ('31.24 ± 0.42', '0.5', '')
    """
    if math.isnan(mean):
        return ""
    return f"{mean:.4g}" if math.isnan(deviation) else f"{mean:.4g} ± {deviation:.2g}"


def none_if_nan(value: float) -> float | None:
    """A number for JSON, which has no NaN."""
    return None if math.isnan(value) else value


def plain(text: str) -> Any:
    """A value as `--set` takes it as a number, truth value or text.

    >>> plain("1e-3"), plain("64"), plain('"gru"'), plain("lstm"), plain("true")
    (0.001, 64, 'gru', 'lstm', True)
    """
    values: dict[str, Any] = {}
    apply(values, f"value={text}")
    return values["value"]
