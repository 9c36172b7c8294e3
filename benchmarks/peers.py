"""Trains JoeyNMT, eole and harken on the same Multi30k de-en in one run and writes the ratio of their speeds.

    python benchmarks/peers.py                          # speed: about 20 minutes on 2 quiet cores
    python benchmarks/peers.py --bleu-at 390            # BLEU and speed of 390 s of training

Run it with the python that has harken and on an otherwise idle machine. See README.md for what is counted.
"""

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harken_run import run_harken
from measurement import Bench, Measurement
from peer_record import ratios, write_record
from peer_runs import run_eole, run_joeynmt
from peer_setup import PEERS, SetupError, install, linked, prepare, unpack
from records import ROOT

RUNNERS: dict[str, Callable[..., Measurement]] = {"joeynmt": run_joeynmt, "eole": run_eole}
HARKEN_TOKENS = 923.0  # target tokens per step of harken's batches of 1,024, where harken itself is not run


def arguments() -> argparse.Namespace:
    shared = ROOT.parent / "shared"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--work", type=Path, default=ROOT / "runs" / "benchmarks", help="scratch folder: venvs, data, models")
    add("--peers", type=Path, default=shared / "peers", help="folder with the measuring scripts")
    add("--data", type=Path, default=shared / "data" / "multi30k" / "raw", help="folder with train.de.gz and so on")
    add("--records", type=Path, default=ROOT / "benchmarks" / "records", help="where the dated record goes")
    add("--seconds", type=float, default=180, help="training time of each run")
    add("--threads", type=int, nargs="+", default=[1, 2], help="OMP_NUM_THREADS to try for the peers")
    add("--tools", nargs="+", choices=["joeynmt", "eole", "harken"], default=["joeynmt", "eole", "harken"])
    add("--models", nargs="+", choices=["transformer", "recurrent"], default=["transformer", "recurrent"])
    add("--eole-recurrent", action="store_true", help="also run eole's BiLSTM; 0.6.4 refuses the script's settings")
    add("--wait-idle", type=float, default=60, help="before each run, wait up to this many seconds for a quiet machine")
    add("--bleu-at", type=float, metavar="SECONDS", help="train this long, then score validation and test data")
    add("--rates", type=float, nargs="+", default=[1e-3], help="with --bleu-at: peak learning rates of the peers")
    add("--match-tokens", action="store_true", help="choose JoeyNMT's batch size for harken's target tokens per step")
    add("--venv", action="append", default=[], metavar="TOOL=FOLDER", help="a venv that has the peer already")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="further settings for harken train")
    return parser.parse_args()


def say(item: Measurement) -> None:
    """One line for each run, as soon as it is over."""
    speed = f"{item.speed.tokens_per_second:,.0f} target tokens/s" if item.speed else "no speed"
    parts = [f"{item.tool:8} {item.architecture:12} threads {item.threads:13} {item.dtype:9} {speed}"]
    parts += [f"BLEU {item.validation_bleu} / {item.bleu}"] if item.bleu is not None else []
    parts += [f"foreign CPU share {item.load['foreign_share']}"] if "foreign_share" in item.load else []
    parts += [f"PROBLEM: {item.problem}"] if item.problem else []
    print(", ".join(parts), flush=True)


def keep_two_cores() -> None:
    """On a larger machine, this process and all it starts stay on two cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])


def measure_harken(options: argparse.Namespace, bench: Bench, model: str) -> list[Measurement]:
    """harken's run, and a second one in float32 where it chose another data type."""
    bleu = options.bleu_at is not None
    results = [run_harken(bench, model, options.set, bleu)]
    say(results[-1])
    if results[-1].speed and results[-1].dtype != "float32":  # like for like beside its own choice
        results.append(run_harken(bench, model, [*options.set, "train.precision=float32"], bleu))
        say(results[-1])
    return results


def measure(options: argparse.Namespace, bench: Bench, pythons: dict[str, Path]) -> list[Measurement]:
    """Every tool on every model, tools side by side so that a drift of the machine meets all of them."""
    results = []
    rates = options.rates if options.bleu_at is not None else [None]
    for model in options.models:
        own = measure_harken(options, bench, model) if "harken" in options.tools else []
        results += own
        matched = bench
        if options.match_tokens:
            counts = [item.speed.target_tokens_per_step for item in own if item.speed]
            matched = replace(bench, target_tokens=counts[-1] if counts else HARKEN_TOKENS)
        for rate in rates:
            for tool, python in pythons.items():
                if (tool, model) == ("eole", "recurrent") and not options.eole_recurrent:
                    continue
                for threads in options.threads:
                    results.append(RUNNERS[tool](matched, python, model, threads, options.bleu_at is not None, rate))
                    say(results[-1])
    return results


def main() -> int:
    options = arguments()
    for folder, need in ((options.peers, "the measuring scripts"), (options.data, "Multi30k's .gz files")):
        if not folder.is_dir():
            print(f"skipped: {folder} with {need} is not there; name the folder with --peers or --data.")
            return 0
    keep_two_cores()
    work = options.work.resolve()
    versions: dict[str, dict[str, str]] = {}
    skipped: dict[str, str] = {}
    pythons: dict[str, Path] = {}
    venvs = {name: Path(folder) for name, _, folder in (given.partition("=") for given in options.venv)}
    for tool in [tool for tool in PEERS if tool in options.tools]:
        print(f"installing {tool} ...", flush=True)
        try:
            python, packages = linked(venvs[tool]) if tool in venvs else install(PEERS[tool], work / "venvs")
        except SetupError as error:
            skipped[tool] = str(error)
            print(f"{tool} is left out: {error}", flush=True)
            continue
        pythons[tool] = python
        versions[tool] = {
            name: packages[name] for name in (tool, "torch", "numpy", "sentencepiece") if name in packages
        }
    raw, prepared = work / "raw", work / "prepared"
    try:
        unpack(options.data, raw, ("de", "en"))
        if pythons:
            prepare(next(iter(pythons.values())), options.peers.resolve(), raw, prepared)
    except (SetupError, OSError) as error:
        print(f"Multi30k could not be prepared: {error}")
        return 1
    seconds = options.bleu_at or options.seconds
    bench = Bench(options.peers.resolve(), work, raw, prepared, seconds, options.wait_idle)
    results = measure(options, bench, pythons)
    versions["harken"] = harken_versions()
    record = {
        "name": "peers-bleu" if options.bleu_at else "peers-cpu",
        "command": " ".join(["python", "benchmarks/peers.py", *sys.argv[1:]]),
        "seconds": seconds,
        "versions": versions,
        "skipped": skipped,
    }
    folders = {f"${name.upper()}_VENV": folder for name, folder in venvs.items()}
    folders |= {"$PYTHON": Path(sys.executable), "$WORK": work, "$PEERS": options.peers.resolve()}
    folders |= {"$REPO": ROOT, "$SHARED": ROOT.parent / "shared"}
    for row in ratios(results):
        peer = f"{row['peer']} at {row['threads']} threads"
        print(f"{row['architecture']}: harken ({row['dtype']}) is {row['ratio']}x {peer}, aim {row['aim']}")
    print(f"record: {write_record(options.records, record, results, folders)}")
    return 1 if any(item.problem for item in results) else 0


def harken_versions() -> dict[str, str]:
    """What this python runs harken with."""
    from importlib.metadata import PackageNotFoundError, version

    packages = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("harken", "torch", "numpy", "sentencepiece", "sacrebleu"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return packages


if __name__ == "__main__":
    sys.exit(main())
