"""The twenty bAbI tasks, one small model each, 1,000 training questions a task: a table, and a dated record.

    python benchmarks/babi.py ARCHIVE --out runs/babi
    python benchmarks/babi.py ARCHIVE --out runs/babi --tasks 1 4 6 --set model.hops=3

ARCHIVE is tasks_1-20_v1-2.tar.xz. Each model is trained once by the recipe babi-answer with one seed, chosen on the
validation stories alone, and scored on the test file. A folder that is finished already is scored as it stands.
"""

from __future__ import annotations

import argparse
import os
import platform
from datetime import date
from pathlib import Path
from typing import Any

from records import RECORDS, processor

ALL = tuple(range(1, 21))
SOLVED = 0.95
NAMES = [
    "one fact",
    "two facts",
    "three facts",
    "two-place relations",
    "three-place relations",
    "yes or no",
    "counting",
    "lists",
    "negation",
    "indefinite",
    "coreference",
    "conjunction",
    "compound coreference",
    "time",
    "deduction",
    "induction",
    "positions",
    "sizes",
    "paths",
    "motives",
]


def main() -> None:
    """Train or load, score, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder for the model folders, one a task")
    parser.add_argument("--tasks", type=int, nargs="+", default=ALL)
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="A.B=C")
    parser.add_argument("--record", action="store_true", help="write benchmarks/records/DATE-babi.md")
    chosen = parser.parse_args()
    rows = [run(task, chosen.archive, chosen.out, chosen.overrides) for task in chosen.tasks]
    if chosen.record:
        path = RECORDS / f"{date.today().isoformat()}-babi.md"
        path.write_text(report(rows, chosen.overrides), encoding="utf-8")
        print(f"Wrote {path.name}")


def run(task: int, archive: Path, out: Path, overrides: list[str]) -> dict[str, Any]:
    """One task: accuracy on its test file, whether it looked at the right facts, and the time."""
    import harken
    from harken.tasks.registry import job_of
    from harken.training.log import read_metrics

    folder = out / f"task-{task}"
    settings = [f"data.dir={archive}", f"data.tasks=[{task}]", *overrides]
    model = harken.train("babi-answer", folder, overrides=settings, resume=True, progress=False)
    scores = job_of("answer").evaluate(model, "test", [], lambda done: None)
    accuracy = scores.metrics[0]
    looked = next((metric.value for metric in scores.metrics if metric.name == "supporting facts"), None)
    metrics = read_metrics(folder)
    best = max((line for line in metrics if line["kind"] == "valid"), key=lambda line: line["chance"])
    row = {
        "task": task,
        "accuracy": accuracy.value,
        "low": accuracy.low,
        "high": accuracy.high,
        "facts": looked,
        "valid": best["accuracy"],
        "seconds": metrics[-1]["seconds"],
    }
    print(
        f"task {task:>2}  {NAMES[task - 1]:<22} test {accuracy.value:.3f} ({accuracy.low:.3f} to {accuracy.high:.3f})"
        f"  valid {best['accuracy']:.3f}  needed facts {looked or 0:.3f}  {row['seconds']:.0f} s",
        flush=True,
    )
    return row


def report(rows: list[dict[str, Any]], overrides: list[str]) -> str:
    """The record."""
    from harken.recipe import recipe_text

    lines = [
        f"| {row['task']} {NAMES[row['task'] - 1]} | {'**' * (row['accuracy'] >= SOLVED)}{100 * row['accuracy']:.1f}"
        f"{'**' * (row['accuracy'] >= SOLVED)} | {100 * row['low']:.1f} to {100 * row['high']:.1f} "
        f"| {100 * row['valid']:.1f} | {'' if row['facts'] is None else format(100 * row['facts'], '.1f')} "
        f"| {row['seconds']:.0f} |"
        for row in rows
    ]
    solved = [str(row["task"]) for row in rows if row["accuracy"] >= SOLVED]
    mean = sum(row["accuracy"] for row in rows) / len(rows)
    seconds = sum(row["seconds"] for row in rows)
    command = " ".join(f"--set {override}" for override in overrides)
    return f"""# bAbI, 1,000 training questions a task

`python benchmarks/babi.py ARCHIVE --out runs/babi --record {command}`, {date.today().isoformat()}.
One model a task, one run each with the recipe's seed, the weights chosen by the validation stories (a tenth of the
training stories). {len(solved)} tasks solved (at least 95% of the 1,000 test questions): {", ".join(solved)}.
Mean accuracy {100 * mean:.1f}%. {seconds / 60:.1f} minutes of training in all, one process on one core of a machine
that others were using ({processor()["model"]}, {os.cpu_count()} cores, Python {platform.python_version()}).

"Needed facts": of the questions whose supporting facts are known, how often as many facts as are needed, those with
the most attention of any hop, were the supporting ones.

| task | test accuracy, % | 95% interval | validation, % | needed facts, % | seconds |
| --- | --- | --- | --- | --- | --- |
{chr(10).join(lines)}

The recipe:

```toml
{recipe_text("babi-answer").rstrip()}
```
"""


if __name__ == "__main__":
    main()
