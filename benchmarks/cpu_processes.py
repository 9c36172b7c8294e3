"""Two CPU processes that share every batch: forked workers against torch.distributed ranks (gloo), in tokens a second.

    python benchmarks/cpu_processes.py --recipes phrasebook-transformer phrasebook-attention --minutes 0.6 --repeats 3

The runs alternate, so that other work on the machine disturbs both alike. Counted are the target tokens of the training
entries of metrics.jsonl and the time between them, less a first part in which kernels are compiled; beside them the CPU
time of all processes of a run, start and validation included. The ranks are started with torchrun's environment
variables, but without torchrun, so that both kinds of run are in the scheduling group of this script.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harken.training.log import read_metrics

SETTINGS = (
    *("train.precision=float32", "train.device=cpu", "train.threads=1", "train.workers=2", "train.max_steps=none"),
    *("train.log_every=5", "train.validate_every=1000000", "train.checkpoint_every=1000000", "train.warmup_steps=100"),
    *("train.learning_rate=0.001", "train.batch_tokens=1024"),
)
KINDS = {  # environments of the processes of a run
    "forked": [{}],
    "gloo": [
        {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
        for rank in ("0", "1")
    ],
}
WARM_UP = 0.2  # share of the entries that is dropped


def tokens_per_second(folder: Path) -> float:
    """Of the training entries after the first fifth."""
    entries = [entry for entry in read_metrics(folder) if entry["kind"] == "train"]
    first = max(1, round(WARM_UP * len(entries)))
    counted = entries[first:]
    return sum(entry["tokens"] for entry in counted) / (counted[-1]["seconds"] - entries[first - 1]["seconds"])


def run(kind: str, recipe: str, minutes: float, folder: Path) -> tuple[float, float, float]:
    """Tokens a second, CPU seconds, wall seconds of one run."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    changes = [part for one in (*SETTINGS, f"train.max_minutes={minutes}") for part in ("--set", one)]
    command = [sys.executable, "-m", "harken", "train", recipe, "--out", str(folder), *changes]
    processes = [
        subprocess.Popen(command, env={**os.environ, **more}, stdout=subprocess.DEVNULL) for more in KINDS[kind]
    ]
    codes = [process.wait() for process in processes]
    if any(codes):
        sys.exit(f"{kind} failed")
    after, took = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    return tokens_per_second(folder), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, took


def main() -> None:
    """Print a line for each run, and the ratio of the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="+", default=["phrasebook-transformer", "phrasebook-attention"])
    parser.add_argument("--minutes", type=float, default=0.6)
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    for recipe in chosen.recipes:
        speeds: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for repeat in range(chosen.repeats):
            for name in KINDS:
                with tempfile.TemporaryDirectory() as folder:
                    speed, cpu, took = run(name, recipe, chosen.minutes, Path(folder, "run"))
                speeds[name].append(speed)
                print(f"{recipe} {name} {repeat}: {speed:,.0f} tokens/s, {cpu:.1f} s CPU in {took:.1f} s", flush=True)
        forked, gloo = (statistics.median(speeds[name]) for name in ("forked", "gloo"))
        print(f"{recipe}: forked {forked:,.0f}, gloo {gloo:,.0f} tokens/s; forked / gloo {forked / gloo:.2f}")


if __name__ == "__main__":
    main()
