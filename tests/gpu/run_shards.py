"""Run the GPU tests in parallel shards on one device: `python tests/gpu/run_shards.py [--shards 6] [pytest options]`.

Most of a GPU test is compilation and Python, which leave the device idle, so several processes share it. Tests are
dealt to the shards in turn: those of one parametrisation, which take about as long as each other, end up in different
shards. Tests of speed (`ALONE`) follow in a shard of their own. Prints the last line of each shard, what failed, and
the total; the exit code is 0 where every shard passed. A shard that runs out of time prints where its threads are.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PYTEST = [sys.executable, "-m", "pytest", "-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider"]
COUNTED = re.compile(r"(\d+) (passed|failed|skipped|xfailed|xpassed|errors?)")
ALONE = "as_fast_as"  # in the name of a test that measures time
TIMED_OUT = 124  # the exit code of `timeout`
# torch.compile starts a worker for every core, in each shard, and waits for them to end for up to five minutes
ENVIRONMENT = {"OMP_NUM_THREADS": "2", "TORCHINDUCTOR_COMPILE_THREADS": "1"}


def collect(paths: Sequence[str], options: Sequence[str]) -> list[str]:
    """The ids of all tests under `paths`.

    Raises:
        SystemExit: they cannot be collected.
    """
    command = [*PYTEST, "--collect-only", "-q", *options, *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout + done.stderr)
        raise SystemExit(done.returncode)
    return [line for line in done.stdout.splitlines() if "::" in line]


def run(parts: Sequence[Sequence[str]], options: Sequence[str], deadline: float) -> tuple[list[int], Counter[str]]:
    """Run each part of the tests in a process, all at once: the exit codes, and how many tests passed, failed, ..."""
    total, codes = Counter[str](), []
    environment = {**ENVIRONMENT, **os.environ}
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / f"{number}.log" for number in range(len(parts))]
        processes = []
        for part, log in zip(parts, logs, strict=True):
            with log.open("w", encoding="utf-8") as stream:
                command = [*PYTEST, "-q", *options, *part]
                processes.append(subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=environment))
        for number, (process, log) in enumerate(zip(processes, logs, strict=True), 1):
            try:
                code = process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                stop(process)
                code = TIMED_OUT
            codes.append(code)
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines() or ["no output"]
            summary = next((line for line in reversed(lines) if COUNTED.search(line)), lines[-1])
            state = "out of time: " if code == TIMED_OUT else f"exit code {code}: " if code else ""
            print(f"shard {number} of {len(parts)}: {state}{summary}", flush=True)
            if code:
                print("\n".join(lines[-200:]), flush=True)
            total.update({kind.rstrip("s"): int(count) for count, kind in COUNTED.findall(summary)})
    return codes, total


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a shard; pytest's fault handler first writes where each thread is."""
    process.send_signal(signal.SIGABRT)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; arguments that are not its own are pytest's."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shards", type=int, default=6, help="processes at once (6)")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for all of them (600)")
    parser.add_argument("--path", action="append", help="a file or folder of tests (tests/gpu)")
    own, options = parser.parse_known_args(arguments)
    tests = collect(own.path or [str(FOLDER)], options)
    if not tests:
        print("no tests were collected")
        return 5  # as pytest has it
    start = time.monotonic()
    alone, shared = ([test for test in tests if (ALONE in test) is timed] for timed in (True, False))
    shards = [part for part in (shared[number :: own.shards] for number in range(own.shards)) if part]
    codes, total = run(shards, options, start + own.limit)
    if alone:
        more_codes, more = run([alone], options, start + own.limit)
        codes, total = codes + more_codes, total + more
    counts = ", ".join(f"{count} {kind}" for kind, count in total.items())
    print(f"total: {counts or 'nothing ran'} of {len(tests)} in {time.monotonic() - start:.0f} s")
    return max(codes, key=abs)


if __name__ == "__main__":
    raise SystemExit(main())
