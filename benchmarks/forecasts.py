"""Forecasters against seasonal naive and fitted exponential smoothing on real series.

    python benchmarks/forecasts.py ../shared/data/time-series --out runs/forecasts

Horizons and parts were fixed before any number was seen, the same for all series of a kind:

    months   horizon 6, season 12     test: the last 20% of the rows, validation: the 20% before
    days     horizon 7, season 365    the same
    hours    horizon 24, season 24    ETTh1's usual 12/4/4 months (8,640/2,880/2,880 rows)

1. Two forms (`model.residual` false and true), each on the values and, where all are above 0, on their logarithms
   (`data.transform`), are trained on the training part; form and number of updates with the best MASE on the
   validation part are chosen. Series of less than 200 rows have 150 updates in any case: on so few
   rows the best of many validations is chosen by luck.
2. The chosen form is trained anew on training and validation part for that many updates (`data.final = true`).
3. Rolling origins over the test part, one a row, each with all rows before it: MASE, scaled by the training part.
   Exponential smoothing: the form with the smallest AICc on all rows before the test part; fitted anew at each origin
   where there are at most 60, else once.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

from records import table

import harken
from harken.recipe import load_recipe
from harken.tasks.forecast.job import JOB
from harken.tasks.forecast.windows import load_series
from harken.training.log import read_metrics

HEADS = ["series", "origins", "seasonal naive", "exponential smoothing", "harken", "95% interval", "coverage", "form"]
SHORT: list[str] = []
SUNSPOTS = ["data.window=132", "train.batch_tokens=8448", "train.max_steps=400", "train.validate_every=40"]
DAYS = [
    *("data.window=60", "data.horizon=7", "data.season=365", 'data.calendar=["day"]'),
    *("train.batch_tokens=3840", "train.max_steps=400", "train.validate_every=40", "model.members=3"),
]
HOURS = [
    *(
        "data.window=168",
        "data.horizon=24",
        "data.season=24",
        "data.rows=14400",
        "data.valid_size=2880",
        "data.test_size=2880",
    ),
    *('data.calendar=["hour"]', "data.target_column=OT", "model.members=1", "train.learning_rate=2e-3"),
    *("train.batch_tokens=10752", "train.max_steps=800", "train.validate_every=100"),
]
SERIES: dict[str, tuple[str, list[str]]] = {
    "airline-passengers": ("airline-passengers.csv", SHORT),
    "monthly-car-sales": ("monthly-car-sales.csv", SHORT),
    "shampoo": ("shampoo.csv", SHORT),
    "monthly-sunspots": ("monthly-sunspots.csv", [*SUNSPOTS, "model.members=3"]),
    "daily-min-temperatures": ("daily-min-temperatures.csv", DAYS),
    "ETTh1": ("ETTh1.csv.gz", HOURS),
}


def measure(name: str, data: Path, out: Path, machine: list[str]) -> dict[str, Any]:
    """Choose on the validation part, train anew, and score the test part."""
    file, settings = SERIES[name]
    shared = [f"data.train={data / file}", *settings, *machine]
    recipe = load_recipe("series-forecast", shared)
    positive = all((series.target > 0).all() for series in load_series(recipe.data))
    tried: dict[tuple[str, str], tuple[float, int]] = {}
    for form in product(("false", "true"), ("log", "none") if positive else ("none",)):
        folder = out / f"{name}-{'-'.join(form)}"
        harken.train("series-forecast", folder, overrides=[*shared, *words_of(form)], resume=True, progress=False)
        best = next(row for row in reversed(read_metrics(folder)) if row.get("best"))
        tried[form] = best["mase"], best["step"]
        print(f"{name} {' '.join(words_of(form))}: validation {best['mase']:.4f}", file=sys.stderr, flush=True)
    form, (validation, steps) = min(tried.items(), key=lambda item: item[1])
    chosen = [*words_of(form), f"train.max_steps={steps}", "data.final=true", f"train.validate_every={steps}"]
    model = harken.train(
        "series-forecast", out / f"{name}-final", overrides=[*shared, *chosen], resume=True, progress=False
    )
    scores = JOB.evaluate(model, "test", [], lambda done: None)
    row = {
        **scores.to_dict(),
        "series": name,
        "form": ", ".join(words_of(form)),
        "steps": steps,
        "validation": validation,
    }
    row["smoothing"] = next((metric.note for metric in scores.metrics if "smoothing" in metric.name), "")
    (out / f"{name}.json").write_text(json.dumps(row, indent=1), encoding="utf-8")
    return row


def words_of(form: tuple[str, str]) -> list[str]:
    """A form as changes to the recipe."""
    return [f"model.residual={form[0]}", f"data.transform={form[1]}"]


def cells_of(row: dict[str, Any]) -> list[str]:
    """A line of the table, under `HEADS`."""
    low, high = row["MASE_interval"]
    smoothing = f"{row['MASE exponential smoothing']:.3f} {row['smoothing']}"
    numbers = [f"{row['MASE seasonal naive']:.3f}", smoothing, f"{row['MASE']:.3f}", f"{low:.3f} to {high:.3f}"]
    return [row["series"], row["origins"], *numbers, f"{row['coverage']:.2f}", f"{row['form']}, {row['steps']} updates"]


def main() -> None:
    """Measure the series that are named, all by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder time-series")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", choices=list(SERIES), default=list(SERIES))
    parser.add_argument("--set", nargs="*", default=[], help="changes to every recipe, as train.seed=2")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.only:
        rows.append(measure(name, arguments.data, arguments.out, arguments.set))
        print(*cells_of(rows[-1]), sep=" | ", file=sys.stderr, flush=True)
    print(table(HEADS, [cells_of(row) for row in rows]))


if __name__ == "__main__":
    main()
