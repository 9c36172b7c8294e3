"""How good a recipe gets, and in what time: trains its variants as a user would, scores them, writes a dated record.

    python benchmarks/quality.py phrasebook-attention --out runs/attention
    python benchmarks/quality.py multi30k-transformer --set data.dir=DIR --set data.pair=en-de --out runs/m30k
    python benchmarks/quality.py sst2-classify --set data.dir=DIR --vary classifier.pooling=last,mean,max,attention \
        --out runs/poolings
    python benchmarks/quality.py babi-answer --set data.dir=ARCHIVE --vary "data.tasks=[1],[2],[3]" --out runs/babi
    python benchmarks/quality.py trec-classify --set data.dir=DIR --vary data.seed=1,2,3 --out runs/trec

Every combination of the values of --vary is a variant with a model folder of its own below --out. Which weights of a
run stay is decided on its validation examples; the test is scored once, at the end. A folder that is finished already
is scored as it stands; its training time comes from its own metrics.
"""

from __future__ import annotations

import argparse
import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import records
from records import facts_of, machine, rows_table


def values_of(option: str) -> list[str]:
    """The overrides of one --vary; commas inside brackets and quotes do not divide.

    >>> values_of("data.tasks=[1],[2, 3]"), values_of("classifier.pooling=last,mean")
    (['data.tasks=[1]', 'data.tasks=[2, 3]'], ['classifier.pooling=last', 'classifier.pooling=mean'])
    """
    key, _, values = option.partition("=")
    return [f"{key}={value}" for value in re.findall(r"\[[^\]]*\]|\"[^\"]*\"|[^,]+", values)]


def splits_of(model: Any) -> list[str]:
    """The test sets of a translator's corpus; "test" of every other job."""
    if model.recipe.task != "translate":
        return ["test"]
    from harken.data.text.parallel import read_corpus

    return list(read_corpus(model.recipe.data).tests)


def measure(recipe: str, folder: Path, overrides: list[str]) -> dict[str, Any]:
    """Train or load a variant and score it on its validation and test examples."""
    import harken
    from harken.tasks.registry import job_of
    from harken.training.log import read_metrics

    finished = (folder / "card.md").is_file()
    model = harken.load(folder) if finished else harken.train(recipe, folder, overrides=overrides, resume=True)
    metrics = read_metrics(folder)
    validations = [entry for entry in metrics if entry["kind"] == "valid"]
    job = job_of(model.recipe.task)
    return {
        "training_seconds": round(validations[-1]["seconds"], 1),
        "updates": validations[-1]["step"],
        "target_tokens": sum(entry["tokens"] for entry in metrics if entry["kind"] == "train"),
        "parameters": sum(parameter.numel() for parameter in model.model.parameters()),
        "validation": [
            {key: value for key, value in entry.items() if isinstance(value, int | float)} for entry in validations
        ],
        "scores": {split: job.evaluate(model, split, [], lambda done: None).to_dict() for split in splits_of(model)},
        "recipe": json.loads(model.recipe.model_dump_json(exclude_none=True)),
        "device": str(model.device),
    }


def row_of(name: str, result: dict[str, Any]) -> dict[str, Any]:
    """A line of the table: the numbers of every test set with their intervals."""
    row: dict[str, Any] = {"variant": name}
    for split, scores in result["scores"].items():
        for key, value in scores.items():
            if isinstance(value, float) and key != "seconds":
                low, high = scores.get(f"{key}_interval", (None, None))
                interval = "" if low is None else f" ({low:.4g} to {high:.4g})"
                row[f"{key}, {split}"] = f"{value:.4g}{interval}"
    return row | {"seconds": f"{result['training_seconds']:.0f}"}


def main() -> None:
    """Train or load every variant, score it, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", dest="overrides")
    parser.add_argument("--vary", action="append", default=[], metavar="A.B=C,D", help="train with each of the values")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", help="of the record; default: the recipe's")
    parser.add_argument("--note", default="", help="a sentence for the record: what else ran, which machine")
    options = parser.parse_args()
    results, rows = {}, []
    for values in product(*map(values_of, options.vary)):
        name = ", ".join(values) or "as it is"
        folder = options.out / re.sub(r"[^\w.=-]+", "-", "-".join(values)) if values else options.out
        results[name] = measure(options.recipe, folder, [*options.overrides, *values])
        rows.append(row_of(name, results[name]))
        print(rows[-1], flush=True)
    record = {"name": options.name or options.recipe, **machine(), "note": options.note, "variants": results}
    page = f"# {record['name']}, {record['date']}\n\n{options.note}\n\n{rows_table(rows)}\n\n{facts_of(record)}"
    folders = {"PROJECT": Path.cwd(), "SHARED": Path.cwd().parent / "shared", "OUT": options.out.resolve()}
    records.write(record["name"], record, page, **folders)


if __name__ == "__main__":
    main()
