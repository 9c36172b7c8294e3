"""How good a recipe gets, and in what time: trains it as a user would, scores every test set, writes a dated record.

    python benchmarks/quality.py phrasebook-attention --out runs/attention
    python benchmarks/quality.py multi30k-transformer --set data.dir=DIR --set data.pair=en-de --out runs/m30k

A model folder that is finished already is scored as it stands; its training time comes from its own metrics.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import records
from records import machine


def scores(translator: Any) -> dict[str, Any]:
    """BLEU, chrF and alignment error on every test set of the model's own corpus, with the recipe's search."""
    from harken.data.text.parallel import read_corpus

    corpus = read_corpus(translator.recipe.data)
    results = {name: translator.evaluate(list(pairs)).to_dict() for name, pairs in corpus.tests.items()}
    for name, result in results.items():
        error = result["alignment_error"]
        aligned = "" if error is None else f"  alignment error {error:.3f}"
        print(f"{name}: BLEU {result['bleu']:.2f}{aligned}  ({result['bleu_signature']})", flush=True)
    return results


def main() -> None:
    """Train or load, score, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", dest="overrides")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", help="of the record; default: the recipe's")
    parser.add_argument("--note", help="a sentence for the record: what else ran, which machine")
    options = parser.parse_args()

    import harken
    from harken.training.log import read_metrics

    finished = (options.out / "card.md").is_file()
    if finished:
        translator = harken.load(options.out)
    else:
        translator = harken.train(options.recipe, options.out, overrides=options.overrides)
    metrics = read_metrics(options.out)
    training = [entry for entry in metrics if entry["kind"] == "train"]
    validations = [entry for entry in metrics if entry["kind"] == "valid"]
    device = str(translator.device)
    record = {
        "name": options.name or options.recipe,
        **machine(),
        "note": options.note,
        "training_seconds": round(validations[-1]["seconds"], 1),
        "updates": validations[-1]["step"],
        "target_tokens": sum(entry["tokens"] for entry in training),
        "parameters": sum(parameter.numel() for parameter in translator.model.parameters()),
        "validation": [
            {"step": entry["step"], "seconds": round(entry["seconds"]), "bleu": round(entry["bleu"], 2)}
            for entry in validations
        ],
        "scores": scores(translator),
        "recipe": json.loads(translator.recipe.model_dump_json(exclude_none=True)),
        "device": device,
    }
    folders = {"PROJECT": Path.cwd(), "SHARED": Path.cwd().parent / "shared", "OUT": options.out.resolve()}
    records.write(record["name"], record, **folders)


if __name__ == "__main__":
    main()
