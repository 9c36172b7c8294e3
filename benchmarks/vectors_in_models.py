"""What each kind of word vector does for a classifier (SST-2) and a tagger (UD EWT), against random ones.

    python benchmarks/vectors_in_models.py --data ../shared/data --out runs/vectors-in-models [--seeds 1 2 3]

All vectors are learnt from the same text (wiki-en), 100 numbers a word, on one core. Then every row trains the same
model with the same seeds and as many updates; only how words begin is different. Budgets are small, so that all of it
takes about a quarter of an hour a seed on one core: sentences of SST-2 (not its phrases), every third sentence of EWT,
a few passes over either, an ELMo of 400 updates. The longer ELMo trains for four minutes and wants a GPU (`--only
longer`); rows that need it are left out where it is not there. What is finished already is not made again, so that a
run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

WIDTH = 100
ELMO_LINES = 16_000  # paragraphs: about a million words
ONE_CORE = ["train.workers=1", "train.threads=1", "train.device=cpu", "train.precision=float32"]
SETTINGS: dict[str, list[str]] = {  # of `harken embed train`
    "skip-gram": ["--epochs", "4"],
    "CBOW": ["--method", "cbow", "--epochs", "8"],
    "GloVe": ["--method", "glove", "--epochs", "10"],
    "n-grams": ["--ngrams", "3-6", "--epochs", "2"],
}
ROWS = (
    "random", "skip-gram", "random + ELMo", "CBOW", "GloVe", "n-grams", "random, frozen", "skip-gram + ELMo",
    "skip-gram, frozen", "skip-gram, centred", "skip-gram, centred, frozen", "random + longer ELMo",
    "skip-gram + longer ELMo",
)  # fmt: skip
LONGER = [
    "data.lowercase=true", "data.max_tokens=64", "words.size=10000", "model.width=512", "model.character_embedding=32",
    "model.character_width=512", "model.dropout=0.2", "train.max_epochs=none", "train.max_minutes=4.0",
    "train.batch_tokens=8192", "train.learning_rate=2e-3", "train.warmup_steps=300", "train.validate_every=1000",
    "train.checkpoint_every=100000", "train.average=0.998",
]  # fmt: skip
ELMO = [
    "data.lowercase=true", "data.max_tokens=40", "data.valid_size=0.01", "words.size=3000", "model.width=96",
    "model.character_embedding=24", "model.character_width=128", "train.max_epochs=none", "train.max_minutes=none",
    "train.max_steps=400", "train.learning_rate=5e-3", "train.warmup_steps=25", "train.validate_every=200",
]  # fmt: skip
SST2 = [
    "data.train=SST2/train.txt.gz", "data.format=prefix", "data.names={0='negative', 1='positive'}",
    "data.valid_size=500", "tokenizer.size=40000", "model.embedding=100", "model.width=128", "train.max_epochs=none",
    "train.max_steps=800", "train.warmup_steps=25", "train.validate_every=100", "train.average=0.97",
    "classifier.ngrams=none", "classifier.choose_by=accuracy",
]  # fmt: skip
EWT = [
    "data.dir=.", "data.tag_column=none", "data.valid=none", "data.valid_size=400", "model.embedding=100",
    "model.width=128", "model.layers=1", "words.characters=convolutional", "words.character_width=64",
    "train.max_epochs=none", "train.max_minutes=none", "train.max_steps=500", "train.warmup_steps=25",
    "train.validate_every=100", "train.average=0.97",
]  # fmt: skip


def main() -> None:
    """Vectors, models, and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that has wiki-en, sst and ud-english-ewt")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=("vectors", "elmo", "longer", "models"), help="this part alone")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    parts: dict[str, Callable[[Path, Path], None]] = {
        "vectors": train_vectors,
        "elmo": train_elmo,
        "longer": train_longer_elmo,
        "models": lambda data, out: train_models(data, out, options.seeds),
    }
    for name, part in parts.items():
        if options.only == name or (options.only is None and name != "longer"):
            part(options.data, options.out)
    print(table(read(options.out)))


def train_vectors(data: Path, out: Path) -> None:
    """Each kind by its verb."""
    from harken.cli.app import app

    (text,) = (data / "wiki-en").glob("*.txt.xz")
    for name, words in SETTINGS.items():
        folder = out / name
        if (folder / "card.json").exists():
            continue
        shared = ["--width", str(WIDTH), "--max-words", "20000", "--threads", "1", "--seed", "1"]
        started = time.process_time()
        app(["embed", "train", str(text), "--out", str(folder), *shared, *words], standalone_mode=False)
        keep(out, "vectors", name, {"seconds": time.process_time() - started})


def train_elmo(data: Path, out: Path) -> None:
    """On the first paragraphs of the text."""
    import harken
    from harken.data.io.files import read_lines

    (text,) = (data / "wiki-en").glob("*.txt.xz")
    part = out / "wiki-part.txt"
    if not part.exists():
        lines = islice((line for line in read_lines(text) if line.strip()), ELMO_LINES)
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")
    folder, started = out / "ELMo", time.process_time()
    if (folder / "card.md").exists():
        return
    changes = [*ELMO, *ONE_CORE, "train.seed=1", f"data.train={part}"]
    model = harken.train("wiki-elmo", folder, overrides=changes, resume=folder.is_dir(), progress=False)
    valid = [str(line) for line in _job("elmo").examples(model, "valid")]
    scores = model.evaluate(valid)
    keep(out, "vectors", "ELMo", {"seconds": time.process_time() - started, "valid perplexity": scores["perplexity"]})


def train_longer_elmo(data: Path, out: Path) -> None:
    """On the whole text, on a GPU where there is one."""
    import harken

    (text,) = (data / "wiki-en").glob("*.txt.xz")
    folder = out / "longer-ELMo"
    if not (folder / "card.md").exists():
        harken.train("wiki-elmo", folder, overrides=[*LONGER, f"data.train={text}"], resume=folder.is_dir())


def train_models(data: Path, out: Path, seeds: Sequence[int]) -> None:
    """Row by row and seed by seed, the classifier and then the tagger."""
    sst2 = [*SST2, *ONE_CORE, f"data.dir={data / 'sst'}"]
    ewt = [*EWT, *ONE_CORE, f"data.train={a_third(data, out)}"]
    test = data / "ud-english-ewt" / "en_ewt-ud-dev.conllu.xz"
    for seed in seeds:
        for name in ROWS:
            if "longer" in name and not (out / "longer-ELMo" / "card.md").exists():
                continue
            score(out, "sst2", name, seed, "sst2-classify", [*sst2, *changes(out, name)], [])
            score(out, "ewt", name, seed, "ewt-tag", [*ewt, *changes(out, name)], [test])


def changes(out: Path, row: str) -> list[str]:
    """How words begin in a row, for a recipe.

    >>> changes(Path("out"), "CBOW, frozen")
    ['embeddings.words=out/CBOW', 'embeddings.tuned=false']
    """
    kind, *more = row.replace(", ", " + ").split(" + ")
    overrides = [] if kind == "random" else [f"embeddings.words={out / kind}"]
    if "centred" in more:
        overrides.append("embeddings.centred=true")
    if "frozen" in more:
        overrides.append("embeddings.tuned=false")
    if row.endswith("ELMo"):
        overrides.append(f"embeddings.elmo={out / more[0].replace(' ', '-')}")
    return overrides


def a_third(data: Path, out: Path) -> Path:
    """Every third sentence of EWT's training part, as columns."""
    from harken.data.text.tagged import read_tagged

    part = out / "ewt-third.conll"
    if not part.exists():
        whole = read_tagged(data / "ud-english-ewt" / "en_ewt-ud-train.conllu.xz")
        sentences = ["\n".join(f"{w}\t{t}" for w, t in zip(*sentence, strict=True)) for sentence in whole[::3]]
        part.write_text("\n\n".join(sentences) + "\n", encoding="utf-8")
    return part


def score(out: Path, kind: str, name: str, seed: int, recipe: str, overrides: Sequence[str], files: list[Path]) -> None:
    """Train a row and keep its accuracy; files of another format than the training ones are read by their name."""
    import harken

    before = read(out).get(kind, {}).get(name, [])
    if any(earlier["seed"] == seed for earlier in before):
        return
    folder = out / kind / f"{name.replace(' ', '-').replace(',', '')}-{seed}"
    started, chosen = time.process_time(), [*overrides, f"train.seed={seed}"]
    model = harken.train(recipe, folder, overrides=chosen, resume=folder.is_dir(), progress=False)
    seconds = time.process_time() - started
    scores = _job(model.recipe.task).evaluate(model, None, files, lambda done: None)
    metric = next(metric for metric in scores.metrics if metric.name == "accuracy")
    row = {"seed": seed, "accuracy": metric.value, "low": metric.low, "high": metric.high, "seconds": seconds}
    inputs = model.model.reader.inputs
    if hasattr(inputs, "mix"):
        row["layers"] = [round(earlier, 3) for earlier in inputs.mix.weights.tolist()]
    keep(out, kind, name, [*before, row])


def _job(task: str) -> Any:
    from harken.tasks.registry import job_of

    return job_of(task)


def read(out: Path) -> dict[str, Any]:
    """What was measured so far."""
    path = out / "measured.json"
    measured: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return measured


def keep(out: Path, kind: str, name: str, values: Any) -> None:
    """Add to what was measured."""
    measured = read(out)
    measured.setdefault(kind, {})[name] = values
    (out / "measured.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    print(kind, name, values, flush=True)


def table(measured: dict[str, Any]) -> str:
    """Markdown: a row for each beginning that was measured.

    >>> rows = [{"accuracy": 0.81, "low": 0.78, "high": 0.84}, {"accuracy": 0.83, "low": 0.8, "high": 0.86}]
    >>> print(table({"sst2": {"random": rows}, "ewt": {}}).splitlines()[-1])
    | random | 0.8200 (0.8100 to 0.8300; 2 seeds) | |
    """
    lines = ["| words begin as | SST-2 accuracy | EWT accuracy |", "| --- | --- | --- |"]
    names = dict.fromkeys(name for kind in ("sst2", "ewt") for name in measured.get(kind, {}))
    for name in names:
        cells = [cell(measured.get(kind, {}).get(name, [])) for kind in ("sst2", "ewt")]
        lines.append(f"| {name} |{cells[0]} |{cells[1]} |")
    return "\n".join(lines)


def cell(rows: Sequence[dict[str, Any]]) -> str:
    """The mean over seeds, and from where to where; of one seed the 95% interval."""
    if not rows:
        return ""
    values = [row["accuracy"] for row in rows]
    if len(values) == 1:
        return f" {values[0]:.4f} ({rows[0]['low']:.3f} to {rows[0]['high']:.3f} by chance; 1 seed)"
    return f" {statistics.mean(values):.4f} ({min(values):.4f} to {max(values):.4f}; {len(values)} seeds)"


if __name__ == "__main__":
    main()
