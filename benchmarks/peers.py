"""Trains JoeyNMT, eole and harken on the same Multi30k de-en in one run and writes the ratio of their speeds.

    python benchmarks/peers.py                          # speed: about 20 minutes on 2 quiet cores
    python benchmarks/peers.py --bleu-at 390            # quality: harken's BLEU after 390 s of training
    python benchmarks/peers.py --bleu-at 390 --peers-bleu

Run it with the python that has harken and on an otherwise idle machine. See README.md for what is counted.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from harken_run import ROOT, run_harken
from measurement import Bench, Measurement
from peer_runs import run_eole, run_joeynmt
from peer_setup import PEERS, SetupError, install, prepare, unpack
from record_writer import ratios, write_record

RUNNERS: dict[str, Callable[..., Measurement]] = {"joeynmt": run_joeynmt, "eole": run_eole}


def arguments() -> argparse.Namespace:
    shared = ROOT.parent / "shared"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--work", type=Path, default=ROOT / "runs" / "benchmarks", help="scratch folder: venvs, data, models")
    add("--peers", type=Path, default=shared / "peers", help="folder with the measuring scripts")
    add("--data", type=Path, default=shared / "data" / "multi30k" / "raw", help="folder with train.de.gz and so on")
    add("--records", type=Path, default=ROOT / "benchmarks" / "records", help="where the dated record goes")
    add("--seconds", type=float, default=90, help="training time of each run")
    add("--threads", type=int, nargs="+", default=[1, 2], help="OMP_NUM_THREADS to try for the peers")
    add("--tools", nargs="+", choices=["joeynmt", "eole", "harken"], default=["joeynmt", "eole", "harken"])
    add("--models", nargs="+", choices=["transformer", "recurrent"], default=["transformer", "recurrent"])
    add("--eole-recurrent", action="store_true", help="also run eole's BiLSTM")
    add("--wait-idle", type=float, default=60, help="before each run, wait up to this many seconds for a quiet machine")
    add("--bleu-at", type=float, metavar="SECONDS", help="train this long and score test_2016_flickr instead")
    add("--peers-bleu", action="store_true", help="with --bleu-at: train and score the peers too")
    add("--bleu-threads", type=int, default=2, help="with --peers-bleu: OMP_NUM_THREADS of the peers")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="further settings for harken train")
    return parser.parse_args()


def say(item: Measurement) -> None:
    """One line for each run, as soon as it is over."""
    speed = f"{item.speed.tokens_per_second:,.0f} target tokens/s" if item.speed else "no speed"
    parts = [f"{item.tool:8} {item.architecture:12} threads {item.threads:13} {item.dtype:9} {speed}"]
    parts += [f"BLEU {item.bleu:.1f}"] if item.bleu is not None else []
    parts += [f"foreign CPU share {item.load['foreign_share']}"] if "foreign_share" in item.load else []
    parts += [f"PROBLEM: {item.problem}"] if item.problem else []
    print(", ".join(parts), flush=True)


def keep_two_cores() -> None:
    """On a larger machine, this process and all it starts stay on two cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])


def measure_speed(options: argparse.Namespace, bench: Bench, pythons: dict[str, Path]) -> list[Measurement]:
    """Every tool on every model, tools side by side so that a drift of the machine meets all of them."""
    results = []
    for model in options.models:
        for tool, python in pythons.items():
            if (tool, model) == ("eole", "recurrent") and not options.eole_recurrent:
                continue
            for threads in options.threads:
                results.append(RUNNERS[tool](bench, python, model, threads))
                say(results[-1])
        if "harken" in options.tools:
            results.append(run_harken(bench, model, options.set))
            say(results[-1])
            if results[-1].speed and results[-1].dtype != "float32":  # like for like beside its own choice
                results.append(run_harken(bench, model, [*options.set, "train.precision=float32"]))
                say(results[-1])
    return results


def measure_bleu(options: argparse.Namespace, bench: Bench, pythons: dict[str, Path]) -> list[Measurement]:
    """The Transformer's BLEU after the given time, harken's and, when asked for, the peers'."""
    results = []
    for tool, python in pythons.items():
        results.append(RUNNERS[tool](bench, python, "transformer", options.bleu_threads, bleu=True))
        say(results[-1])
    if "harken" in options.tools:
        results.append(run_harken(bench, "transformer", options.set, bleu=True))
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
    wanted = [tool for tool in PEERS if tool in options.tools and (options.bleu_at is None or options.peers_bleu)]
    for tool in wanted:
        print(f"installing {tool} ...", flush=True)
        try:
            python, found = install(PEERS[tool], work / "venvs")
        except SetupError as error:
            skipped[tool] = str(error)
            print(f"{tool} is left out: {error}", flush=True)
            continue
        pythons[tool] = python
        versions[tool] = {name: found[name] for name in (tool, "torch", "numpy", "sentencepiece") if name in found}
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
    results = (measure_bleu if options.bleu_at else measure_speed)(options, bench, pythons)
    versions["harken"] = harken_versions()
    record = {
        "name": "peers-bleu" if options.bleu_at else "peers-cpu",
        "command": " ".join(["python", "benchmarks/peers.py", *sys.argv[1:]]),
        "seconds": seconds,
        "versions": versions,
        "skipped": skipped,
    }
    places = {"$PYTHON": Path(sys.executable), "$WORK": work, "$PEERS": options.peers.resolve()}
    places |= {"$REPO": ROOT, "$SHARED": ROOT.parent / "shared"}
    for row in ratios(results):
        peer = f"{row['peer']} at {row['threads']} threads"
        print(f"{row['architecture']}: harken ({row['dtype']}) is {row['ratio']}x {peer}, aim {row['aim']}")
    print(f"record: {write_record(options.records, record, results, places)}")
    return 1 if any(item.problem for item in results) else 0


def harken_versions() -> dict[str, str]:
    """What this python runs harken with."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("harken", "torch", "numpy", "sentencepiece", "sacrebleu"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
