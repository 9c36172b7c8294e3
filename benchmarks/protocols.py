"""Published protocols by the shipped recipes: several seeds each, beside a linear baseline, with paired intervals.

    python benchmarks/protocols.py trec sst2 --data DATA --out runs/protocols --seeds 1 2 3 4 5 --cpu 10
    python benchmarks/protocols.py multi30k-de@cuda multi30k-fr@cuda --data DATA --out runs/protocols --gpu 2
    python benchmarks/protocols.py "trec:classifier.members=5" --data DATA --out runs/protocols --cpu 1
    python benchmarks/protocols.py trec sst2 --data DATA --out runs/protocols --baselines
    python benchmarks/protocols.py --table --out runs/protocols --record

DATA is the folder of data sets. A row may be followed by a colon and overrides of its recipe, divided by ";". Every run
is a process that appends a line to OUT/runs.jsonl: its validation figures, and its test, which chooses nothing.
Runs that are not finished after --minutes are ended. The table is of all lines of the file. Of rows with restarts
(bAbI) the run with the lowest validation loss counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import records
from records import facts_of, machine, table

SEEDS = (1, 2, 3, 4, 5)
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # C of the linear baseline
TOKENS = r"(?u)\b\w+\b|[^\w\s]"


@dataclass(frozen=True)
class Row:
    """A protocol: a shipped recipe on a data set, and the score that is published."""

    recipe: str
    folder: str
    score: str = "accuracy"
    overrides: tuple[str, ...] = ()
    split: str = "test"
    tokenized: bool = False  # BLEU of the tokens as they are


def multi30k(pair: str, kind: str) -> Row:
    """Multi30k, test 2016: tokenised lower-cased text, or cased text by 13a."""
    return Row("multi30k-tiny", f"multi30k/{kind}", "bleu", (f"data.pair={pair}",), "test_2016_flickr", kind == "tok")


ROWS = {
    "trec": Row("trec-classify", "trec"),
    "sst2": Row("sst2-classify", "sst"),
    "ag-news": Row("ag-news-classify", "ag-news"),
    "imdb": Row("imdb-classify", "imdb"),
    "multi30k-de": multi30k("en-de", "tok"),
    "multi30k-fr": multi30k("en-fr", "tok"),
    "multi30k-de-cased": multi30k("en-de", "raw"),
    "multi30k-fr-cased": multi30k("en-fr", "raw"),
    "digits": Row("spoken-digits-transcribe", "spoken-digits", "digit error rate"),
    "ptb": Row("ptb-lstm", "ptb", "perplexity"),
    **{
        f"babi-{task}": Row("babi-answer", "babi/tasks_1-20_v1-2.tar.xz", overrides=(f"data.tasks=[{task}]",))
        for task in range(1, 21)
    },
}
LINEAR = ("trec", "sst2", "ag-news", "imdb")


@dataclass(frozen=True)
class Run:
    """One training: a row, overrides and a seed."""

    row: str
    overrides: tuple[str, ...]
    seed: int
    device: str

    @property
    def name(self) -> str:
        """The row with its overrides."""
        return f"{self.row}:{';'.join(self.overrides)}" if self.overrides else self.row


def measure(run: Run, data: Path) -> dict[str, Any]:
    """Train one model in a temporary folder; its validation and test figures."""
    import harken
    from harken.tasks.registry import job_of

    row, start = ROWS[run.row], time.monotonic()
    place = [f"train.device={run.device}", *(["train.workers=1", "train.threads=1"] if run.device == "cpu" else [])]
    overrides = [f"data.dir={data / row.folder}", *row.overrides, f"train.seed={run.seed}", *place, *run.overrides]
    with tempfile.TemporaryDirectory() as folder:
        model = harken.train(row.recipe, Path(folder) / "run", overrides=overrides, progress=False)
        seconds = time.monotonic() - start
        metrics = map(json.loads, (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines())
        best = [entry for entry in metrics if entry["kind"] == "valid" and entry.get("best")][-1]
        scores = job_of(model.recipe.task).evaluate(model, row.split, [], lambda done: None)
    facts = machine()
    result = {
        "row": run.row, "recipe": row.recipe, "overrides": run.overrides, "seed": run.seed,
        "validation": {key: value for key, value in best.items() if isinstance(value, int | float)},
        "test": {key: value for key, value in scores.to_dict().items() if isinstance(value, int | float | str)},
        "interval": scores.to_dict().get(f"{row.score}_interval"),
        "parameters": sum(parameter.numel() for parameter in model.model.parameters()),
        "training_seconds": round(seconds, 1), "device": facts.get("gpu", "cpu") if run.device != "cpu" else "cpu",
        "versions": facts["versions"], "commit": facts["commit"],
    }  # fmt: skip
    assert scores.outputs is not None
    predictions, references = scores.outputs
    if row.tokenized:
        result |= tokenized_bleu(predictions, references)
    if run.row in LINEAR:
        result["correct"] = "".join("01"[a == b] for a, b in zip(predictions, references, strict=True))
    return result


def tokenized_bleu(predictions: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """BLEU of tokenised text as it is, with its interval by 1,000 bootstrap samples."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize="none", force=True)
    score = metric.corpus_score(list(predictions), [list(references)], n_bootstrap=1000)
    interval = [score._mean - score._ci, score._mean + score._ci]
    return {"tokenized_bleu": score.score, "interval": interval, "signature": str(metric.get_signature())}


def baseline(name: str, data: Path) -> dict[str, Any]:
    """TF-IDF and a linear support vector machine or logistic regression on the same parts, chosen on validation."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    from harken.recipe import load_recipe
    from harken.tasks.registry import job_of

    row = ROWS[name]
    splits = job_of("classify").load_data(load_recipe(row.recipe, [f"data.dir={data / row.folder}"]))
    test = splits.tests["test"]
    best: dict[str, Any] = {"validation": -1.0}
    for ngrams in (1, 2):
        features = TfidfVectorizer(ngram_range=(1, ngrams), sublinear_tf=True, token_pattern=TOKENS)
        train = features.fit_transform(splits.train.values)
        valid, held = features.transform(splits.valid.values), features.transform(test.values)
        for strength in STRENGTHS:
            models = LinearSVC(C=strength), LogisticRegression(C=10 * strength, max_iter=300)
            for model in models:
                model.fit(train, splits.train.labels)
                score = float(model.score(valid, splits.valid.labels))
                if score > best["validation"]:
                    correct = model.predict(held) == np.array(test.labels)
                    best = {
                        "model": type(model).__name__, "ngrams": ngrams, "C": model.C, "validation": score,
                        "test": float(correct.mean()), "correct": "".join("01"[bool(hit)] for hit in correct),
                    }  # fmt: skip
    return {"row": name, "baseline": best, **{key: machine("scikit-learn")[key] for key in ("versions", "commit")}}


def run_all(runs: Sequence[Run], options: argparse.Namespace) -> None:
    """Run processes, so many at once on the GPU and on CPU cores, until all are done or the time is up."""
    waiting, active = list(runs), []
    limits, end = {"cuda": options.gpu, "cpu": options.cpu}, time.monotonic() + 60 * options.minutes
    while (waiting or active) and time.monotonic() < end:
        for run in list(waiting):
            if sum(other.device == run.device for other, _ in active) < limits[run.device]:
                waiting.remove(run)
                command = [sys.executable, __file__, "--data", str(options.data), "--out", str(options.out), "--run"]
                arguments = json.dumps([run.row, run.overrides, run.seed, run.device])
                active.append((run, subprocess.Popen([*command, arguments], stdout=subprocess.DEVNULL)))
        for run, process in list(active):
            if process.poll() is not None:
                active.remove((run, process))
                print(f"{run.name}, seed {run.seed}: {'done' if process.returncode == 0 else 'failed'}", flush=True)
        time.sleep(0.2)
    for run, process in active:
        process.terminate()
        print(f"{run.name}, seed {run.seed}: not finished in time", flush=True)
    for run in waiting:
        print(f"{run.name}, seed {run.seed}: not started in time", flush=True)


def append(line: dict[str, Any], out: Path) -> None:
    """Add a line to the file of all runs, in one piece: several processes write."""
    with (out / "runs.jsonl").open("ab", buffering=0) as lines:
        lines.write(f"{json.dumps(line)}\n".encode())


def score_of(line: dict[str, Any]) -> float:
    """The published score of a run."""
    value: float = line.get("tokenized_bleu", line["test"].get(ROWS[line["row"]].score))
    return value


def difference(runs: Sequence[dict[str, Any]], baseline: dict[str, Any]) -> tuple[float, float, float]:
    """Mean accuracy over seeds less that of the baseline, and its 95% interval by drawing test examples, in points."""
    hits = np.mean([[int(hit) for hit in run["correct"]] for run in runs], 0)
    gains = 100 * (hits - np.array([int(hit) for hit in baseline["correct"]]))
    random = np.random.default_rng(1)
    means = [gains[random.integers(0, len(gains), len(gains))].mean() for _ in range(2000)]
    return float(gains.mean()), float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def summary(lines: Iterable[dict[str, Any]]) -> str:
    """A row for every protocol and overrides: mean over seeds, spread, validation, baseline."""
    groups: dict[str, list[dict[str, Any]]] = {}
    baselines = {}
    for line in lines:
        if "baseline" in line:
            baselines[line["row"]] = line["baseline"]
        else:
            groups.setdefault(Run(line["row"], tuple(line["overrides"]), 0, "").name, []).append(line)
    rows = []
    for name, runs in groups.items():
        row, scale = runs[0]["row"], 100 if ROWS[runs[0]["row"]].score == "accuracy" else 1
        scores = [scale * score_of(run) for run in runs]
        key = ROWS[row].score
        valid = [scale * run["validation"][key] for run in runs if key in run["validation"]]
        loss = [run["validation"].get("calibration.loss", run["validation"].get("loss", np.nan)) for run in runs]
        cells = [name, len(runs), spread(valid), f"{statistics.mean(loss):.4f}", spread(scores)]
        cells.append("; ".join(f"{score:.2f}" for score in scores))
        if row in baselines:
            gain, low, high = difference(runs, baselines[row])
            cells += [f"{100 * baselines[row]['test']:.2f}", f"{gain:+.2f} ({low:+.2f} to {high:+.2f})"]
        seconds = statistics.mean(run["training_seconds"] for run in runs)
        rows.append([*cells, *["-"] * (8 - len(cells)), f"{seconds:.0f}"])
    header = ["protocol", "seeds", "validation", "validation loss", "test", "each", "linear", "difference", "seconds"]
    return "\n\n".join([table(header, rows), *restarts(groups.values())])


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation."""
    if not values:
        return "-"
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values) if len(values) > 1 else 0:.2f}"


def restarts(groups: Iterable[Sequence[dict[str, Any]]]) -> list[str]:
    """The bAbI tasks: of all runs of a task the one with the lowest validation loss."""
    runs = [run for group in groups for run in group if run["row"].startswith("babi-")]
    if not runs:
        return []
    rows = []
    for task in sorted({run["row"] for run in runs}, key=lambda name: int(name[5:])):
        own = [run for run in runs if run["row"] == task]
        best = min(own, key=lambda run: run["validation"]["loss"])
        setting = f"{'; '.join(best['overrides']) or 'the recipe'}, seed {best['seed']}"
        errors = [100 * (1 - run["test"]["accuracy"]) for run in (best, *own)]
        rows.append([task[5:], len(own), setting, f"{best['validation']['loss']:.4f}", errors[0], errors[1:]])
    mean = statistics.mean(row[4] for row in rows)
    solved = sum(row[4] <= 5 for row in rows)
    shown = [[*row[:4], f"{row[4]:.1f}", " ".join(f"{error:.1f}" for error in row[5])] for row in rows]
    title = f"bAbI, {len(rows)} tasks: mean error {mean:.2f}%, {solved} tasks with at most 5%."
    header = ["task", "runs", "chosen by validation loss", "validation loss", "test error, %", "test error of each"]
    return [title, table(header, shown)]


def main() -> None:
    """Run the protocols, or the baselines, and print the table of everything so far."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW[:OVERRIDES]")
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--gpu", type=int, default=0, help="runs at once on the GPU; rows@cuda run there")
    parser.add_argument("--cpu", type=int, default=1, help="runs at once on CPU cores")
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--baselines", action="store_true", help="only the linear baselines of the rows")
    parser.add_argument("--table", action="store_true", help="only the table")
    parser.add_argument("--record", action="store_true", help="write a record of all runs into benchmarks/records")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    options.data = options.data.resolve()
    if options.run:
        row, overrides, seed, device = json.loads(options.run)
        append(measure(Run(row, tuple(overrides), seed, device), options.data), options.out)
        return
    if options.baselines:
        for name in options.rows:
            append(baseline(name, options.data), options.out)
    elif not options.table:
        runs = [parse(row, seed) for seed in options.seeds for row in options.rows]
        for device, most in (("cuda", options.gpu), ("cpu", options.cpu)):
            if most < 1 and any(run.device == device for run in runs):
                parser.error(f"rows are asked for on {device}, where no run may take place; set --gpu or --cpu")
        run_all(runs, options)
    lines = [json.loads(line) for line in (options.out / "runs.jsonl").open(encoding="utf-8")]
    page = summary(lines)
    print(page)
    if options.record:
        facts = machine("scikit-learn", "sacrebleu")
        kept = [{key: value for key, value in line.items() if key != "correct"} for line in lines]
        text = f"# Published protocols\n\n{page}\n\n{facts_of(facts)}"
        records.write("protocols", {**facts, "runs": kept}, text, DATA=options.data, OUT=options.out)


def parse(text: str, seed: int) -> Run:
    """ROW, ROW@cuda or ROW:OVERRIDE;OVERRIDE as a run.

    >>> parse("trec@cuda:model.dropout=0.2;train.average=0.99", 3)
    Run(row='trec', overrides=('model.dropout=0.2', 'train.average=0.99'), seed=3, device='cuda')
    """
    place, _, overrides = text.partition(":")
    row, _, device = place.partition("@")
    if row not in ROWS:
        raise SystemExit(f"there is no row {row!r}; choose from {', '.join(ROWS)}")
    return Run(row, tuple(filter(None, overrides.split(";"))), seed, device or "cpu")


if __name__ == "__main__":
    main()
