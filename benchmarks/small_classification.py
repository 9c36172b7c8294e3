"""Small classification sets: harken's default recipe beside TF-IDF and logistic regression, several seeds.

    python benchmarks/small_classification.py DATA --sets trec sst2 --seeds 1 2 3 --minutes 1 --out runs/small

DATA is the folder of data sets. Each set is written as a table of at most --size training texts and one of at most
--test test texts, and is trained with no more than `[data]` and a budget, as `harken train TABLE` does. A tenth of the
training texts validates: it chooses the weights, the n-grams and the temperature of harken, and C of the baseline
(`TfidfVectorizer(ngram_range=(1, 2))`, of characters 1 to 5 for names). The test is scored once by each.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import lzma
import random
import statistics
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import records
from records import facts_of, machine, table

Pairs = list[tuple[str, str]]  # text, label


def prefixed(lines: list[str]) -> Pairs:
    """Lines of a label, a tab and a text."""
    return [(text, label) for label, _, text in (line.rstrip("\n").partition("\t") for line in lines) if text]


def trec(data: Path) -> tuple[Pairs, Pairs]:
    """Questions with six classes; the file has no test, so a fixed tenth of it is."""
    lines = (data / "trec/TREC.train").read_text(encoding="latin-1").splitlines()
    pairs = [(line.partition(" ")[2], line.partition(":")[0]) for line in lines]
    random.Random(0).shuffle(pairs)
    return pairs[545:], pairs[:545]


def sst(kind: str) -> Callable[[Path], tuple[Pairs, Pairs]]:
    """Sentences of film reviews; the development set is the test."""

    def read(data: Path) -> tuple[Pairs, Pairs]:
        train = gzip.decompress((data / "sst" / kind / "train.txt.gz").read_bytes()).decode().split("\n")
        return prefixed(train), prefixed((data / "sst" / kind / "dev.txt").read_text(encoding="utf-8").split("\n"))

    return read


def ag_news(data: Path) -> tuple[Pairs, Pairs]:
    """News in four topics."""
    with gzip.open(data / "ag-news/train5000.csv.gz", "rt", encoding="utf-8") as lines:
        train = [(text, label) for text, label in csv.reader(lines)]
    with gzip.open(data / "ag-news/test.csv.gz", "rt", encoding="utf-8") as lines:
        test = [(f"{title} {text}", str(int(label) - 1)) for label, title, text in csv.reader(lines)]
    return train, test


def imdb(data: Path) -> tuple[Pairs, Pairs]:
    """Film reviews of some 230 words."""
    parts = []
    for name in ("train", "test"):
        lines = lzma.decompress((data / f"imdb/{name}.tsv.xz").read_bytes()).decode().split("\n")
        rows = [line.split("\t") for line in lines if line]
        parts.append([(text.replace("<br />", " "), label) for label, _, text in rows])
    return parts[0], parts[1]


def names(data: Path) -> tuple[Pairs, Pairs]:
    """Surnames of 18 languages; a fixed tenth is the test."""
    pairs = []
    with tarfile.open(data / "names/names.tar.xz") as archive:
        for member in archive:
            if member.name.endswith(".txt") and (stream := archive.extractfile(member)):
                label = Path(member.name).stem
                pairs += [(line.strip(), label) for line in stream.read().decode().splitlines() if line.strip()]
    random.Random(0).shuffle(pairs)
    return pairs[2005:], pairs[:2005]


SETS: dict[str, Callable[[Path], tuple[Pairs, Pairs]]] = {
    "trec": trec, "sst2": sst("SST2"), "sst5": sst("SST5"), "ag-news": ag_news, "imdb": imdb, "names": names,
}  # fmt: skip


def write(path: Path, pairs: Pairs) -> None:
    """A table with the columns text and label."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("text", "label"), *((" ".join(text.split()), label) for text, label in pairs)])


def baseline(splits: Any, is_short: bool) -> dict[str, float]:
    """TF-IDF and logistic regression on the same parts, C chosen on validation accuracy."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    features = (
        TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 5), sublinear_tf=True)
        if is_short
        else TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    )
    test = splits.tests["test"]
    train, valid, held = features.fit_transform(splits.train.values), splits.valid, features.transform(test.values)
    best: tuple[float, float, float] = (-1.0, 0.0, 0.0)
    for strength in (0.25, 1.0, 4.0, 16.0, 64.0):
        model = LogisticRegression(C=strength, max_iter=1000).fit(train, splits.train.labels)
        score = float(model.score(features.transform(valid.values), valid.labels))
        if score > best[0]:
            best = score, strength, float(model.score(held, test.labels))
    return {"valid": best[0], "C": best[1], "test": best[2]}


def run(data: Path, name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train and score harken and the baseline on one set with one seed."""
    import harken
    from harken.tasks.registry import job_of

    folder = options.out / f"{name}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    train, test = SETS[name](data)
    order = random.Random(seed)
    order.shuffle(train)
    write(folder / "train.csv", train[: options.size])
    write(folder / "test.csv", random.Random(0).sample(test, min(len(test), options.test)))
    recipe: dict[str, Any] = {
        "task": "classify",
        "data": {"train": str(folder / "train.csv"), "test": str(folder / "test.csv"), "seed": seed},
        "train": {"max_minutes": options.minutes, "seed": seed, "workers": 1, "threads": 1},
    }
    if name == "names":
        recipe["tokenizer"] = {"kind": "character"}
    model = harken.train(recipe, folder / "run", progress=False, restart=True, overrides=options.set)
    job = job_of("classify")
    scores = job.evaluate(model, "test", [], lambda done: None)
    best = [entry for entry in map(json.loads, (folder / "run/metrics.jsonl").open()) if entry.get("best")][-1]
    row: dict[str, Any] = {
        "set": name,
        "seed": seed,
        "examples": len(train[: options.size]),
        "harken": scores["accuracy"],
        "harken_valid": best["accuracy"],
        "details": {key: value for key, value in scores.to_dict().items() if isinstance(value, float)},
        "scales": {key: value for key, value in best.items() if key.startswith("calibration.")},
        "steps": best["step"],
    }
    return row | {"baseline": baseline(job.load_data(model.recipe), name == "names")}


def summary(rows: list[dict[str, Any]]) -> str:
    """Means over seeds with their standard deviations."""
    lines = []
    for name in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name]
        columns = [[100 * row["harken"] for row in own], [100 * row["baseline"]["test"] for row in own]]
        cells = [f"{statistics.mean(c):.2f} ± {statistics.stdev(c) if len(c) > 1 else 0:.2f}" for c in columns]
        gap = statistics.mean(a - b for a, b in zip(*columns, strict=True))
        errors = [
            statistics.mean(row["details"].get(key, float("nan")) for row in own)
            for key in ("calibration_error_before", "calibration_error")
        ]
        lines.append([name, own[0]["examples"], len(own), *cells, f"{gap:+.2f}", *(f"{e:.3f}" for e in errors)])
    header = ["set", "examples", "seeds", "harken", "TF-IDF + logistic regression", "difference"]
    return table([*header, "ECE before calibration", "ECE after"], lines)


def main() -> None:
    """Run all sets and seeds, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--size", type=int, default=2000, help="training and validation texts at most")
    parser.add_argument("--test", type=int, default=2000, help="test texts at most")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--record", action="store_true", help="write the record into benchmarks/records")
    options = parser.parse_args()
    rows = []
    for name in options.sets:
        for seed in options.seeds:
            rows.append(run(options.data.resolve(), name, seed, options))
            print(json.dumps(rows[-1]), flush=True)
    print(summary(rows))
    if options.record:
        facts = machine("scikit-learn")
        title = "# Small classification sets\n\nTest accuracy in per cent, mean and standard deviation over seeds."
        page = "\n\n".join([title, summary(rows), facts_of(facts)])
        records.write("small-classification", {**facts, "rows": rows}, page, DATA=options.data, OUT=options.out)


if __name__ == "__main__":
    main()
