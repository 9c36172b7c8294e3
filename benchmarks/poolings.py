"""The four poolings of S10 on the same data, encoder, seed and budget, as a table.

    python benchmarks/poolings.py sst2-classify --set data.dir=DIR --set train.max_epochs=2 --out runs/poolings
    python benchmarks/poolings.py opinions-classify --out runs/poolings

Which weights of a run are kept is decided on its validation examples; the test is scored once, at the end. A run that
is finished already is scored as it stands.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

POOLINGS = ("last", "mean", "max", "attention")


def main() -> None:
    """Train each, print the table, and write it to poolings.json beside the models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", dest="overrides")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    import harken
    from harken.tasks.classify.job import JOB
    from harken.training.log import read_metrics

    rows = []
    for pooling in POOLINGS:
        folder = options.out / pooling
        changes = [*options.overrides, f"classifier.pooling={pooling}"]
        model = harken.train(options.recipe, folder, overrides=changes, resume=folder.is_dir())
        valid, test = (JOB.evaluate(model, split, [], lambda done: None) for split in ("valid", None))
        low, high = next((metric.low, metric.high) for metric in test.metrics if metric.name == "accuracy")
        seconds = read_metrics(folder)[-1]["seconds"]
        rows.append(
            {
                "pooling": pooling,
                "valid": valid["accuracy"],
                "test": test["accuracy"],
                "interval": [low, high],
                "seconds": seconds,
            }
        )
    print("| pooling | valid | test | 95% interval | seconds |\n| --- | --- | --- | --- | --- |")
    for row in rows:
        low, high = row["interval"]
        scores = f"{row['valid']:.4f} | {row['test']:.4f} | {low:.4f} to {high:.4f}"
        print(f"| {row['pooling']} | {scores} | {row['seconds']:.0f} |")
    (options.out / "poolings.json").write_text(json.dumps({"recipe": options.recipe, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
