"""TREC's questions (issue 4, S10): settings are chosen where the test is not, and the test is asked once.

    python benchmarks/held_out_questions.py choose ../shared/data/trec --out runs/choose --set classifier.fine=false
    python benchmarks/held_out_questions.py final ../shared/data/trec --out runs/final --seeds 1 2 3

choose   the 545 questions that the recipe holds out are put away; of the other 4,907 each seed holds out 545 to choose
         weights by and 545 to ask, and trains on the rest
final    the recipe as it is, each seed with a test of its own (data.seed); seed 1 is what the recipe ships with

The chances of every answer are kept in OUT/NAME-SEED.npz, so that runs can be compared question by question.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import harken
from harken.recipe import load_recipe
from harken.tasks.classify.job import JOB


def put_away(data: Path, out: Path) -> Path:
    """A folder whose TREC.train lacks the questions that the recipe tests by."""
    recipe = load_recipe("trec-classify", [f"data.dir={data}", "data.lowercase=false"])
    asked = {text.casefold() for text in JOB.read(recipe, "test").values}
    folder = out / "rest"
    folder.mkdir(parents=True, exist_ok=True)
    lines = (data / "TREC.train").read_text(encoding="latin-1").splitlines()
    kept = [line for line in lines if line.partition(" ")[2].strip().casefold() not in asked]
    (folder / "TREC.train").write_text("\n".join(kept) + "\n", encoding="latin-1")
    return folder


def main() -> None:
    """Train for every seed, and print how many were right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("choose", "final"))
    parser.add_argument("data", type=Path, help="the folder trec")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", default="trec")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--set", nargs="*", default=[], help="changes to the recipe")
    arguments = parser.parse_args()
    data = arguments.data if arguments.what == "final" else put_away(arguments.data, arguments.out)
    found = []
    for seed in arguments.seeds:
        folder = arguments.out / f"{arguments.name}-{seed}"
        changes = [f"data.dir={data}", f"data.seed={seed}", *arguments.set]
        model = harken.train("trec-classify", folder, overrides=changes, resume=True, progress=False)
        chances, right = {}, {}
        for split in ("valid", "test"):
            examples = JOB.read(model.recipe, split)
            chances[split] = model.predict_proba(examples.values)
            right[split] = np.array([model.classes.index(label) for label in examples.labels])
        shares = {split: float((chances[split].argmax(1) == right[split]).mean()) for split in chances}
        found.append(shares["test"])
        np.savez(arguments.out / f"{arguments.name}-{seed}.npz", **{f"chances_{s}": v for s, v in chances.items()},
                 **{f"right_{s}": v for s, v in right.items()})  # fmt: skip
        print(f"{arguments.name} seed {seed}: valid {shares['valid']:.4f}, asked {shares['test']:.4f}", flush=True)
    print(f"{arguments.name}: mean {np.mean(found):.4f} of {len(found)} seeds", flush=True)


if __name__ == "__main__":
    main()
