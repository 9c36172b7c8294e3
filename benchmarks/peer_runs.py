"""JoeyNMT and eole, run through the measuring scripts beside the project with 1,024-token batches."""

import json
import shutil
import subprocess
from pathlib import Path

from measurement import BATCH_TOKENS, Bench, Measurement, read_speed
from peer_setup import clean_environment
from speed_logs import eole_speed, joey_speed


def run_joeynmt(bench: Bench, python: Path, architecture: str, threads: int, bleu: bool = False) -> Measurement:
    """Trains JoeyNMT; with `bleu`, decodes the state it was stopped in (beam 5)."""
    model = bench.work / "runs" / f"joeynmt-{architecture}-{threads}"
    script = [str(python), str(bench.scripts / "joey_bench.py")]
    command = [*script, "train", str(bench.prepared), str(model), "--seconds", f"{bench.seconds:g}"]
    command += ["--batch", str(BATCH_TOKENS), "--valid-freq", "1000000"]
    if architecture == "recurrent":
        command += ["--arch", "rnn", "--rnn", "lstm", "--hidden", "512"]
    environment = clean_environment(OMP_NUM_THREADS=str(threads))
    result = Measurement("joeynmt", architecture, str(threads), "float32", command)
    shutil.rmtree(model, ignore_errors=True)  # an earlier run's log is not this run's
    if bench.run(result, environment):
        read_speed(result, model / "train.log", joey_speed)
    if bleu and result.problem is None:
        decode = [*script, "curve", str(bench.prepared), str(model)]
        score_peer(result, decode, environment)
    return result


def run_eole(bench: Bench, python: Path, architecture: str, threads: int, bleu: bool = False) -> Measurement:
    """Trains eole; with `bleu`, decodes the last checkpoint (one every 50 steps is kept; beam 5)."""
    model = bench.work / "runs" / f"eole-{architecture}-{threads}"
    script = [str(python), str(bench.scripts / "eole_bench.py"), str(bench.prepared), str(model)]
    command = [*script, "--seconds", f"{bench.seconds:g}", "--steps", "1000000", "--threads", str(threads)]
    command += ["--batch", str(BATCH_TOKENS), "--arch", "rnn" if architecture == "recurrent" else "transformer"]
    command += ["--save-steps", "50"] if bleu else []
    environment = clean_environment(OMP_NUM_THREADS=str(threads))
    result = Measurement("eole", architecture, str(threads), "float32", command)
    shutil.rmtree(model, ignore_errors=True)
    if bench.run(result, environment):
        read_speed(result, model / "train.log", eole_speed)
    if bleu and result.problem is None:
        score_peer(result, [*script, "--decode", "--limit-b1", "1", "--threads", str(threads)], environment)
    return result


def score_peer(result: Measurement, command: list[str], environment: dict[str, str]) -> None:
    """Notes the BLEU of the last beam-5 decode of the whole test set that a measuring script prints, or its failure."""
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    rows = [json.loads(line[line.index('{"tool"') :]) for line in done.stdout.splitlines() if '{"tool"' in line]
    scores = [row["bleu"] for row in rows if row.get("bleu") is not None and row.get("beam") == 5]
    if scores:
        result.bleu = float(scores[-1])
    else:
        tail = " | ".join((done.stdout + done.stderr).strip().splitlines()[-3:])
        result.problem = f"decoding gave no BLEU, status {done.returncode}: {tail}"
