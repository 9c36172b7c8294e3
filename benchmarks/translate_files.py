"""`harken translate` on a large file: memory, time to the first line, and lines per second by the number of workers.

    python benchmarks/translate_files.py MODEL --lines 1000000 --workers 2 -- --beam 1

The lines are sentences of the phrasebook (100,000 different ones, repeated). Every run is a process of its own, started
as a user would; the time to the first line contains loading Python and the model. CPU seconds are of all threads.
What follows `--` goes to `harken translate`. Prints a table in Markdown.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numba
import torch

import harken
from harken.data.synthetic.phrasebook import generate

DIFFERENT = 100_000
EVERY = 2.0  # seconds between samples of the memory


class Run(NamedTuple):
    """What one process did."""

    first: float  # seconds to the first line
    seconds: float
    cpu: float
    early: float  # MB of memory when a tenth of the lines was written
    late: float  # MB in the last sample
    peak: float


def write_lines(path: Path, count: int) -> None:
    """The input of all runs."""
    different = [pair.source for pair in islice(generate(seed=7), min(count, DIFFERENT))]
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            file.write(different[number % len(different)] + "\n")


def status_of(process: int) -> tuple[float, float]:
    """Memory now and at its peak, in MB."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) / 1024, int(fields["VmHWM"].split()[0]) / 1024


def measure(model: Path, source: Path, lines: int, workers: int, options: list[str]) -> Run:
    """One run to its end."""
    command = [sys.executable, "-c", "from harken.cli import main; main()", "translate", str(model), str(source)]
    started, first, written, sampled = time.perf_counter(), 0.0, 0, 0.0
    early = late = peak = 0.0
    before = os.times()
    with subprocess.Popen([*command, "--workers", str(workers), *options], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in process.stdout:
            written += 1
            first = first or time.perf_counter() - started
            if time.perf_counter() - sampled >= EVERY or written == lines - 1:
                sampled = time.perf_counter()
                late, peak = status_of(process.pid)
                early = early or (late if written >= lines // 10 else 0.0)
    if process.returncode or written != lines:
        raise SystemExit(f"exit code {process.returncode} after {written:,} of {lines:,} lines")
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return Run(first, time.perf_counter() - started, used, early, late, peak)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=1, help="runs of each; they take turns, and the fastest counts")
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    given, options = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1 :]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    versions = f"harken {harken.__version__} ({commit}), torch {torch.__version__}, numba {numba.__version__}"
    print(f"{given.lines:,} lines, options: {' '.join(options) or 'none'}; {versions}; load {os.getloadavg()[0]:.1f}")
    print("\n| Workers | To the first line, s | Lines/s | Lines per CPU second | MB at 10% | MB at the end | Peak MB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "lines.en"
        write_lines(source, given.lines)
        runs: dict[int, list[Run]] = {workers: [] for workers in given.workers}
        for _ in range(given.rounds):
            for workers, results in runs.items():
                results.append(measure(given.model, source, given.lines, workers, options))
        for workers, results in runs.items():
            best = min(results, key=lambda run: run.seconds)
            cells = [f"{min(run.first for run in results):.2f}", f"{given.lines / best.seconds:,.0f}"]
            cells += [f"{given.lines / best.cpu:,.0f}", *(f"{value:,.0f}" for value in best[3:])]
            print(f"| {workers} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
