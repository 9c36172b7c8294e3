"""The differences between runs: keys of their recipes, scores, cost; and a paired test of their outputs.

Outputs of a split are kept in the run folder as `outputs/SPLIT.jsonl`, with a digest of the weights that made them, so
that a comparison need not translate again and never mixes weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harken.errors import UserError
from harken.files import atomic_write
from harken.metrics import Comparison, compare_systems
from harken.metrics.significance import STATISTICS
from harken.run_folders.curves import short_names
from harken.run_folders.reading import Run, number
from harken.tasks.scores import Scores
from harken.training.folder import MODEL, OUTPUTS
from harken.training.log import NOT_METRICS, SIGNATURE
from harken.training.weights import DIGEST, stored_metadata

NOT_SET = "-"


@dataclass
class RunComparison:
    """Several runs side by side."""

    names: list[str]
    keys: list[tuple[str, list[str]]]  # key of the recipe -> its value in every run
    rows: list[tuple[str, list[str]]]  # state, scores, speed ...
    tests: list[dict[str, Any]] = field(default_factory=list)  # each run against the first, by split

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "runs": self.names,
            "recipe": {key: dict(zip(self.names, values, strict=True)) for key, values in self.keys},
            "results": {name: dict(zip(self.names, values, strict=True)) for name, values in self.rows},
            "tests": self.tests,
        }


def compare_runs(runs: Sequence[Run]) -> RunComparison:
    """Put runs side by side, the first being the one that others are tested against.

    Raises:
        UserError: fewer than two runs.
    """
    if len(runs) < 2:
        raise UserError("one run has nothing to be compared with; give at least two run folders")
    names = short_names([run.folder for run in runs])
    differing = differing_keys(runs, missing=NOT_SET)
    keys = [(key, [written(value) for value in values]) for key, values in differing.items()]
    rows: list[tuple[str, list[str]]] = [("state", [run.state for run in runs])]
    metrics = dict.fromkeys(name for run in runs for name in (run.best or {}) if name not in NOT_METRICS)
    for metric in metrics:
        values = [None if run.best is None else number(run.best, metric) for run in runs]
        rows.append((f"validation {metric}", [NOT_SET if value is None else f"{value:.4g}" for value in values]))
    signatures = [str((run.best or {}).get(SIGNATURE, NOT_SET)) for run in runs]
    rows += [("BLEU signature", signatures)] if set(signatures) != {NOT_SET} else []
    rows += [
        ("best at step", [NOT_SET if run.best is None else f"{run.best.get('step', 0):,}" for run in runs]),
        ("steps", [f"{run.step:,}" for run in runs]),
        ("minutes", [f"{run.seconds / 60:,.1f}" for run in runs]),
        ("tokens/s", [NOT_SET if (rate := run.tokens_per_second) is None else f"{rate:,.0f}" for run in runs]),
    ]
    return RunComparison(names, keys, rows, paired_tests(runs, names))


def differing_keys(runs: Sequence[Run], missing: Any = None) -> dict[str, list[Any]]:
    """The keys of the recipes that differ between runs of one task, with the values of all runs.

    Args:
        missing: the value where a key is not set.
    """
    flat = [flat_recipe(run.recipe) for run in runs]
    keys = dict.fromkeys(key for recipe in flat for key in recipe)
    columns = {key: [recipe.get(key, missing) for recipe in flat] for key in keys}
    tasks = [recipe.get("task") for recipe in flat]
    first = [tasks.index(task) for task in tasks]
    return {
        key: values
        for key, values in columns.items()
        if any(value != values[at] for value, at in zip(values, first, strict=True))
    }


def paired_tests(runs: Sequence[Run], names: Sequence[str]) -> list[dict[str, Any]]:
    """Each run against the first by paired bootstrap, on every split of equal examples that both have outputs of."""
    tests = []
    first = outputs_of(runs[0].folder)
    for name, run in zip(names[1:], runs[1:], strict=True):
        for split, other in outputs_of(run.folder).items():
            own = first.get(split)
            if own is None or any(own[key] != other[key] for key in ("references", "metric")):
                continue
            test = compare_systems(own["outputs"], other["outputs"], own["references"], metric=own["metric"])
            tests.append({"split": split, "run": name, "against": names[0], **described(test)})
    return tests


def described(test: Comparison) -> dict[str, Any]:
    """A paired test as plain values."""
    return {
        "metric": test.a.name,
        "signature": test.a.signature,
        "first": test.a.value,
        "other": test.b.value,
        "difference": test.b.value - test.a.value,
        "interval": [0.0 - test.high, 0.0 - test.low],  # of equal outputs 0, and not -0
        "p": test.p_value,
    }


def write_outputs(
    run: Run, split: str, load: Callable[[Path], Any], progress: Callable[[int], None] = lambda count: None
) -> None:
    """Score a split of the run's corpus and write the outputs, unless those of these weights are there already.

    Args:
        load: opens the model of a folder (`harken.load`).

    Raises:
        UserError: the run is not finished, has no such split, or is of a job whose outputs are not compared.
    """
    if split in outputs_of(run.folder):
        return
    from harken.tasks.registry import job_of

    job = job_of(run.task)
    problem = f"{run.folder} has the task {run.task!r}, whose outputs --split does not compare; leave it out"
    if job.paired_metric is None:
        raise UserError(problem)
    model = load(run.folder)
    scores = job.score(model, job.held_out(model, split), progress)
    if scores.outputs is None:
        raise UserError(problem)
    store_outputs(run.folder, split, scores, job.paired_metric)


def store_outputs(folder: Path, split: str, scores: Scores, metric: str | None) -> None:
    """Write the outputs of a split, where there are some, with the digest of the weights that made them.

    Args:
        metric: of paired tests, as `Job.paired_metric`.
    """
    if scores.outputs is None or metric is None:
        return
    lines = [{"digest": model_digest(folder), "metric": metric}]
    rows = [{"output": output, "reference": reference} for output, reference in zip(*scores.outputs, strict=True)]
    if scores.sources is not None:
        rows = [{"source": source, **row} for source, row in zip(scores.sources, rows, strict=True)]
    lines += rows
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    atomic_write(folder / OUTPUTS / f"{split}.jsonl", text)


def outputs_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Outputs, references and their metric by split, of the weights that are in the folder now; what is damaged is left
    out."""
    splits: dict[str, dict[str, Any]] = {}
    for path in sorted((folder / OUTPUTS).glob("*.jsonl")):
        try:
            head, *lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            if lines and head["digest"] == model_digest(folder):
                outputs, references = ([str(line[key]) for line in lines] for key in ("output", "reference"))
                metric = head.get("metric", "bleu")  # older files are of translators
                if metric in STATISTICS:
                    splits[path.stem] = {"outputs": outputs, "references": references, "metric": metric}
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return splits


def model_digest(folder: Path) -> str | None:
    """The digest of the best weights, as their file states it."""
    return stored_metadata(folder / MODEL).get(DIGEST)


def flat_recipe(recipe: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Keys with dots.

    >>> flat_recipe({"task": "tag", "model": {"width": 8}})
    {'task': 'tag', 'model.width': 8}
    """
    flat: dict[str, Any] = {}
    for key, value in recipe.items():
        flat |= flat_recipe(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def written(value: Any) -> str:
    """A value of a recipe in a table."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
