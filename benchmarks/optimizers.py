"""Which optimizer and schedule reaches a fixed validation loss first, on two jobs with real data.

    python benchmarks/optimizers.py --data DIR --out runs/optimizers.jsonl --parallel 2     # a line for each run
    python benchmarks/optimizers.py --out runs/optimizers.jsonl --report                    # the tables of the record

1. Sweep: every variant at every rate, with one of the seeds.
2. The loss to reach is set: that of AdamW with cosine at the fitted rate after three quarters of its updates.
3. Every variant at the rate with which it reached that loss first in the sweep, with two further seeds.

Updates are counted, not seconds: runs share the machine. DIR holds multi30k/raw and ud-english-ewt. Runs that --out
already has are not repeated.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from records import ROOT, table
from speed_logs import metric_lines

VARIANTS = {"adamw, cosine": ("adamw", "cosine"), "adamw, wsd": ("adamw", "wsd"), "muon, wsd": ("muon", "wsd")}
REFERENCE = "adamw, cosine"
FITTED_RATE = 2e-3  # `harken.training.planning.fitting.peak_rate` at widths 256 and 320
RATES = (4e-3, FITTED_RATE, 1e-3)
SWEEP_SEED = 4
SEEDS = (1, 2, SWEEP_SEED)
JOBS: dict[str, dict[str, Any]] = {
    "translate": {
        "recipe": "multi30k-transformer",
        "score": "perplexity",
        "folder": "multi30k/raw",
        "settings": {
            "data.pair": "en-de",
            "search.beam": 1,
            "train.validate_sentences": 1,  # the loss is measured on all of them
            "train.max_steps": 2800,  # 25 epochs
            "train.warmup_steps": 140,
            "train.average": 0.9964,
            "train.validate_every": 100,
        },
    },
    "tag": {
        "recipe": "ewt-tag",
        "score": "accuracy",
        "folder": "ud-english-ewt",
        "settings": {
            "words.characters": "convolutional",
            "words.character_width": 64,
            "model.layers": 1,
            "train.max_steps": 2400,  # 8 epochs
            "train.warmup_steps": 120,
            "train.average": 0.9958,
            "train.validate_every": 80,
        },
    },
}
SAME = {"train.workers": 1, "train.threads": 1, "train.checkpoint_every": 1000000}


def train(data: Path, device: str, job: str, variant: str, rate: float, seed: int) -> dict[str, Any]:
    """One run of `harken train`, with its validation curve."""
    optimizer, schedule = VARIANTS[variant]
    spec = JOBS[job]
    settings = spec["settings"] | SAME | {"data.dir": data / spec["folder"]}
    settings |= {"train.optimizer": optimizer, "train.schedule": schedule, "train.learning_rate": rate}
    settings |= {"train.seed": seed, "train.device": device}
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    with tempfile.TemporaryDirectory() as folder:
        [shipped] = (ROOT / "src" / "harken" / "recipes").rglob(f"{spec['recipe']}.toml")
        recipe = Path(folder, shipped.name)  # the budget is updates alone: no result depends on the wall clock
        lines = [
            line for line in shipped.read_text().splitlines() if not line.startswith(("max_minutes", "max_epochs"))
        ]
        recipe.write_text("\n".join(lines) + "\n")
        command = [sys.executable, "-c", "from harken.cli import main; main()", "train", str(recipe)]
        command += ["--out", f"{folder}/run", *[p for k, v in settings.items() for p in ("--set", f"{k}={v}")]]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed: {done.stderr[-2000:]}")
        rows = metric_lines(Path(folder, "run", "metrics.jsonl").read_text())
    curve = [{"step": row["step"], "loss": row["loss"], "score": row[spec["score"]]} for row in rows if "best" in row]
    row = {"job": job, "variant": variant, "rate": rate, "seed": seed, "updates": curve[-1]["step"], "curve": curve}
    return row | {"device": device}


def first_step(run: dict[str, Any], loss: float) -> int | None:
    """Updates after which the validation loss is at most `loss`."""
    return next((point["step"] for point in run["curve"] if point["loss"] <= loss), None)


def loss_to_reach(runs: list[dict[str, Any]], job: str) -> float:
    """The reference's loss after three quarters of its updates, in the sweep."""
    [run] = [r for r in sweep(runs, job, REFERENCE) if r["rate"] == FITTED_RATE]
    return round(next(point["loss"] for point in run["curve"] if point["step"] >= 0.75 * run["updates"]), 3)


def sweep(runs: list[dict[str, Any]], job: str, variant: str) -> list[dict[str, Any]]:
    return [r for r in runs if (r["job"], r["variant"], r["seed"]) == (job, variant, SWEEP_SEED)]


def best_rate(runs: list[dict[str, Any]], job: str, variant: str) -> float:
    """The rate that reaches the loss first; with equal updates, the one with the lower final loss."""
    loss = loss_to_reach(runs, job)
    order = [(first_step(r, loss) or 10**9, r["curve"][-1]["loss"], r["rate"]) for r in sweep(runs, job, variant)]
    return float(min(order)[2])


def measure(data: Path, device: str, out: Path, jobs: list[str], parallel: int) -> None:
    """Runs what `out` lacks, `parallel` at a time."""
    lock = threading.Lock()

    def add(run: tuple[str, str, float, int]) -> None:
        row = train(data, device, *run)
        with lock, out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(*run, row["curve"][-1], flush=True)

    def run_all(selected: list[tuple[str, str, float, int]]) -> None:
        finished = {(r["job"], r["variant"], r["rate"], r["seed"]) for r in read(out)}
        with ThreadPoolExecutor(parallel) as pool:
            list(pool.map(add, [run for run in selected if run not in finished]))

    run_all([(job, variant, rate, SWEEP_SEED) for job in jobs for rate in RATES for variant in VARIANTS])
    best = {(job, variant): best_rate(read(out), job, variant) for job in jobs for variant in VARIANTS}
    run_all([(*pair, rate, seed) for seed in SEEDS for pair, rate in best.items()])


def read(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def report(runs: list[dict[str, Any]]) -> str:
    """The tables: the sweep, and the three seeds."""
    swept, final = [], []
    for job in dict.fromkeys(r["job"] for r in runs):
        loss = loss_to_reach(runs, job)
        for variant in VARIANTS:
            rows = sorted(sweep(runs, job, variant), key=lambda r: r["rate"])
            cells = [f"{r['rate']:g}: {first_step(r, loss) or '-'} ({r['curve'][-1]['loss']:.3f})" for r in rows]
            swept.append([job, variant, loss, "; ".join(cells)])
            rows = sorted((r for r in runs if (r["job"], r["variant"]) == (job, variant)), key=lambda r: r["seed"])
            rows = [r for r in rows if r["seed"] in SEEDS and r["rate"] == best_rate(runs, job, variant)]
            steps = [first_step(r, loss) for r in rows]
            ends = [r["curve"][-1] for r in rows]
            cells = [", ".join(str(s or "-") for s in steps)]
            cells += [", ".join(f"{end['loss']:.3f}" for end in ends), ", ".join(f"{end['score']:.4g}" for end in ends)]
            final.append([job, loss, variant, *{f"{r['rate']:g}" for r in rows}, *cells])
    names = [f"Updates to reach it (seeds {SEEDS})", "Final loss", "Final score"]
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
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--parallel", type=int, default=1, help="runs at a time, each with one thread")
    parser.add_argument("--report", action="store_true", help="train nothing")
    options = parser.parse_args()
    if not options.report:
        measure(options.data.resolve(), options.device, options.out, options.jobs, options.parallel)
    print(report(read(options.out)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
