"""Training speed of two versions of harken on a CPU, in turn: `harken train` on four models, one thread, float32.

    git worktree add ../before COMMIT
    python benchmarks/versions.py ../before --peers DIR --data DIR     # four models x two rounds x 30 s each

DIR of --data holds multi30k/raw, tinyshakespeare and ud-english-ewt. The training loop is given the CPU time of its
process for its clock, so that other processes hardly count: the rates it logs are tokens per CPU second, and --seconds
are CPU seconds. A line is the median over the log lines of a run; a table for the record comes last.
"""

import argparse
import os
import statistics
import sys
from pathlib import Path

from harken_run import ROOT
from measurement import Bench, Measurement, read_speed
from record_writer import table
from speed_logs import harken_speed

# Name -> (recipe, folder below --data, settings).
MODELS = {
    "Transformer 3+3, width 256": (
        "multi30k-transformer",
        "multi30k/raw",
        {"data.pair": "de-en", "train.batch_tokens": 1024},
    ),
    "BiLSTM with additive attention, width 256": (
        "multi30k-attention",
        "multi30k/raw",
        {"data.pair": "de-en", "train.batch_tokens": 1024, "model.width": 256},
    ),
    "LSTM character language model, width 512": (
        "shakespeare-characters",
        "tinyshakespeare",
        {"data.chunk": 64, "train.batch_tokens": 4096, "model.layers": 1, "model.width": 512},
    ),
    "BiLSTM tagger, width 2 x 128": (
        "ewt-tag",
        "ud-english-ewt",
        {"words.characters": "none", "model.layers": 1, "model.width": 256, "train.batch_tokens": 1024},
    ),
}
SAME = {
    "train.workers": 1,
    "train.threads": 1,
    "train.precision": "float32",
    "train.device": "cpu",
    "train.validate_every": 1000000,
    "train.checkpoint_every": 1000000,
    "train.log_every": 2,
}
CPU_CLOCK = "import time; time.perf_counter = time.process_time; from harken.cli import main; main()"


def run(bench: Bench, tree: Path, recipe: str, settings: dict[str, object], out: Path) -> Measurement:
    """One training run with the harken of `tree`."""
    command = [sys.executable, "-c", CPU_CLOCK, "train", recipe, "--out", str(out)]
    settings = settings | SAME | {"train.max_minutes": f"{bench.seconds / 60:.4f}"}
    command += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    result = Measurement("harken", recipe, "1", "float32", command)
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    if bench.run(result, environment | {"PYTHONPATH": str(tree / "src")}):
        read_speed(result, out / "metrics.jsonl", harken_speed)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("before", type=Path, help="a checkout of the earlier version")
    add("--peers", type=Path, default=ROOT.parent / "shared" / "peers", help="folder with with_load_check.py")
    add("--data", type=Path, default=ROOT.parent / "shared" / "data")
    add("--work", type=Path, default=ROOT / "runs" / "versions", help="scratch folder")
    add("--seconds", type=float, default=30)
    add("--rounds", type=int, default=2)
    add("--models", nargs="+", default=[], help="only models whose name contains one of these")
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    bench = Bench(options.peers.resolve(), work, work, work, options.seconds, 0)
    rows = []
    for name, (recipe, folder, settings) in MODELS.items():
        if options.models and not any(part in name for part in options.models):
            continue
        rates: dict[str, list[float]] = {"before": [], "now": []}
        for number in range(2 * options.rounds):
            version = ("before", "now")[number % 2]
            out = work / f"{recipe}-{version}-{len(list(work.iterdir()))}"
            tree = options.before.resolve() if version == "before" else ROOT
            result = run(bench, tree, recipe, {"data.dir": options.data.resolve() / folder, **settings}, out)
            rates[version] += [result.speed.tokens_per_second] if result.speed else []
            print(name, version, result.speed, result.load, result.problem or "", flush=True)
        if rates["before"] and rates["now"]:
            ratio = statistics.median(rates["now"]) / statistics.median(rates["before"])
            cells = [", ".join(f"{rate:,.0f}" for rate in rates[version]) for version in ("before", "now")]
            rows.append([name, *cells, f"{ratio:.3f}"])
    print(table(["model", "target tokens per CPU second before", "now", "ratio"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
