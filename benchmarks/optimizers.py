"""Which optimizer and schedule reaches a fixed validation loss first, on two jobs with real data, on one core.

    python benchmarks/optimizers.py --data DIR --out runs/optimizers.jsonl      # a line for each run
    python benchmarks/optimizers.py --out runs/optimizers.jsonl --report        # the tables of the record

1. Sweep: every variant at every rate, with one of the seeds.
2. The loss to reach is set: that of the default (AdamW, cosine, the fitted rate) after three quarters of its updates.
3. Every variant at the rate with which it reached that loss first in the sweep, with two further seeds.

CPU seconds to the loss are the updates to it times the CPU seconds of the process per update, its start left out.
DIR holds multi30k/raw and ud-english-ewt. Runs that --out already has are not repeated.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harken_run import ROOT
from record_writer import table
from speed_logs import metric_lines

VARIANTS = {"adamw, cosine": ("adamw", "cosine"), "adamw, wsd": ("adamw", "wsd"), "muon, wsd": ("muon", "wsd")}
DEFAULT = "adamw, cosine"
FITTED_RATE = 4e-3  # `harken.training.fitting.peak_rate` at width 128
RATES = {"adamw": (FITTED_RATE, 2e-3), "muon": (FITTED_RATE,)}
SWEEP_SEED = 4
SEEDS = (1, 2, SWEEP_SEED)
JOBS: dict[str, dict[str, Any]] = {
    "translate": {
        "recipe": "multi30k-transformer",
        "score": "perplexity",
        "folder": "multi30k/raw",
        "settings": {
            "data.pair": "en-de",
            "tokenizer.size": 4000,
            "model.layers": 2,
            "model.width": 128,
            "model.feedforward": 512,
            "model.dropout": 0.1,
            "search.beam": 1,
            "train.batch_tokens": 1024,
            "train.label_smoothing": 0.0,
            "train.validate_sentences": 1,  # the loss is measured on all of them
            "train.max_steps": 400,
            "train.warmup_steps": 20,
            "train.average": 0.975,
            "train.validate_every": 20,
        },
    },
    "tag": {
        "recipe": "ewt-tag",
        "score": "accuracy",
        "folder": "ud-english-ewt",
        "settings": {
            "words.characters": "convolutional",
            "words.character_embedding": 16,
            "words.character_width": 64,
            "model.layers": 1,
            "model.embedding": 64,
            "model.width": 128,
            "model.dropout": 0.2,
            "train.batch_tokens": 700,
            "train.max_steps": 600,
            "train.warmup_steps": 30,
            "train.average": 0.983,
            "train.validate_every": 30,
        },
    },
}
SAME = {"train.workers": 1, "train.threads": 1, "train.precision": "float32", "train.checkpoint_every": 1000000}


def train(data: Path, job: str, variant: str, rate: float, seed: int, updates: int | None = None) -> dict[str, Any]:
    """One run of `harken train`; its validation curve and the CPU seconds of the process."""
    optimizer, schedule = VARIANTS[variant]
    spec = JOBS[job]
    settings = spec["settings"] | SAME | {"data.dir": data / spec["folder"]}
    settings |= {"train.optimizer": optimizer, "train.schedule": schedule, "train.learning_rate": rate}
    settings |= {"train.seed": seed} | ({"train.max_steps": updates} if updates else {})
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    with tempfile.TemporaryDirectory() as folder:
        [shipped] = (ROOT / "src" / "harken" / "recipes").rglob(f"{spec['recipe']}.toml")
        recipe = Path(folder, shipped.name)  # the budget is updates alone: no result depends on the wall clock
        lines = [
            line for line in shipped.read_text().splitlines() if not line.startswith(("max_minutes", "max_epochs"))
        ]
        recipe.write_text("\n".join(lines) + "\n")
        command = [sys.executable, "-c", "from harken.cli import main; main()", "train", str(recipe)]
        command += ["--out", f"{folder}/run", *[p for k, v in settings.items() for p in ("--set", f"{k}={v}")]]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
        assert process.stderr is not None
        errors = process.stderr.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{' '.join(command)} failed: {errors[-2000:]}")
        rows = metric_lines(Path(folder, "run", "metrics.jsonl").read_text())
    curve = [{"step": row["step"], "loss": row["loss"], "score": row[spec["score"]]} for row in rows if "best" in row]
    row = {"job": job, "variant": variant, "rate": rate, "seed": seed, "updates": curve[-1]["step"], "curve": curve}
    return row | {"cpu": round(usage.ru_utime + usage.ru_stime, 1)}


def first_step(run: dict[str, Any], loss: float) -> int | None:
    """Updates after which the validation loss is at most `loss`."""
    return next((point["step"] for point in run["curve"] if point["loss"] <= loss), None)


def loss_to_reach(runs: list[dict[str, Any]], job: str) -> float:
    """The default's loss after three quarters of its updates, in the sweep."""
    [run] = [r for r in sweep(runs, job, DEFAULT) if r["rate"] == FITTED_RATE]
    return round(next(point["loss"] for point in run["curve"] if point["step"] >= 0.75 * run["updates"]), 3)


def sweep(runs: list[dict[str, Any]], job: str, variant: str) -> list[dict[str, Any]]:
    return [r for r in runs if (r["job"], r["variant"], r["seed"]) == (job, variant, SWEEP_SEED)]


def best_rate(runs: list[dict[str, Any]], job: str, variant: str) -> float:
    """The rate that reaches the loss first; with equal updates, the one with the lower final loss."""
    loss = loss_to_reach(runs, job)
    order = [(first_step(r, loss) or 10**9, r["curve"][-1]["loss"], r["rate"]) for r in sweep(runs, job, variant)]
    return float(min(order)[2])


def measure(data: Path, out: Path, jobs: list[str]) -> None:
    """Runs what `out` lacks."""
    for job in jobs:
        for variant, (optimizer, _) in VARIANTS.items():
            for rate in RATES[optimizer]:
                add(data, out, job, variant, rate, SWEEP_SEED)
        add(data, out, job, "start", FITTED_RATE, 0)
    for job in jobs[::-1]:
        for seed in SEEDS:
            for variant in VARIANTS:
                add(data, out, job, variant, best_rate(read(out), job, variant), seed)


def read(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def add(data: Path, out: Path, job: str, variant: str, rate: float, seed: int) -> None:
    """One line more in `out`, unless it has it; "start" is the default with one update: the cost of starting."""
    key = (job, variant, rate, seed)
    if key in {(r["job"], r["variant"], r["rate"], r["seed"]) for r in read(out)}:
        return
    start = variant == "start"
    row = train(data, job, DEFAULT if start else variant, rate, seed, 1 if start else None) | {"variant": variant}
    with out.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(*key, row["cpu"], row["curve"][-1], flush=True)


def report(runs: list[dict[str, Any]]) -> str:
    """The tables: the sweep, and the three seeds."""
    swept, final = [], []
    for job in dict.fromkeys(r["job"] for r in runs):
        loss = loss_to_reach(runs, job)
        start = next((r["cpu"] for r in runs if (r["job"], r["variant"]) == (job, "start")), 0.0)
        for variant in VARIANTS:
            rows = sorted(sweep(runs, job, variant), key=lambda r: r["rate"])
            cells = [f"{r['rate']:g}: {first_step(r, loss) or '-'} ({r['curve'][-1]['loss']:.3f})" for r in rows]
            swept.append([job, variant, loss, "; ".join(cells)])
            rows = sorted((r for r in runs if (r["job"], r["variant"]) == (job, variant)), key=lambda r: r["seed"])
            rows = [r for r in rows if r["seed"] in SEEDS and r["rate"] == best_rate(runs, job, variant)]
            steps = [first_step(r, loss) for r in rows]
            seconds = [(r["cpu"] - start) / r["updates"] * s if s else None for r, s in zip(rows, steps, strict=True)]
            ends = [r["curve"][-1] for r in rows]
            cells = [", ".join(str(s or "-") for s in steps), ", ".join(f"{s:.1f}" if s else "-" for s in seconds)]
            cells += [", ".join(f"{end['loss']:.3f}" for end in ends), ", ".join(f"{end['score']:.4g}" for end in ends)]
            cost = sum((r["cpu"] - start) / r["updates"] for r in rows) / max(1, len(rows))
            final.append([job, loss, variant, *{f"{r['rate']:g}" for r in rows}, *cells, f"{1000 * cost:.0f}"])
    names = [f"Updates to reach it (seeds {SEEDS})", "CPU s", "Final loss", "Final score", "CPU ms per update"]
    return "\n\n".join(
        [
            table(["Job", "Variant", "Loss", "Rate: updates to reach it (final loss)"], swept),
            table(["Job", "Loss", "Variant", "Peak rate", *names], final),
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--report", action="store_true", help="train nothing")
    options = parser.parse_args()
    if not options.report:
        measure(options.data.resolve(), options.out, options.jobs)
    print(report(read(options.out)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
