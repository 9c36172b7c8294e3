"""JoeyNMT and eole, run through the measuring scripts beside the project."""

import bisect
import json
import math
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from measurement import BATCH_TOKENS, Bench, Measurement, note_bleu, read_speed
from peer_setup import clean_environment
from speed_logs import eole_speed, joey_speed

WARMUP = 100  # updates; the measuring scripts' 400 are longer than some runs
NOAM_WIDTH = {"transformer": 256, "recurrent": 512}  # eole: the hidden size, which the noam schedule divides by


def joey_batch(lengths: Sequence[tuple[int, int]], target_tokens: float) -> int:
    """The batch size with which a step of JoeyNMT has about this many target tokens.

    JoeyNMT fills batches in random order until longest x sentences reaches the batch size, so that much of a batch is
    padding. Its rule is followed here on the lengths of the corpus.

    >>> joey_batch([(9, 9)] * 1000, 1000)  # 100 sentences of 10 tokens, and 99 would be fewer than 991
    991
    """
    order = random.Random(0).sample(lengths, len(lengths))

    def tokens_per_step(size: int) -> float:
        steps = total = in_batch = longest = sentences = 0
        for source, target in order:
            longest, sentences = max(longest, source + 1, target + 1), sentences + 1
            in_batch += target + 1
            if longest * sentences >= size:
                steps, total = steps + 1, total + in_batch
                in_batch = longest = sentences = 0
        return total / max(1, steps)

    return bisect.bisect_left(range(8 * BATCH_TOKENS), target_tokens, key=tokens_per_step)


def corpus_lengths(prepared: Path) -> list[tuple[int, int]]:
    """Pieces of every training pair, source and target."""
    sides = [(prepared / f"train.sp.{language}").read_text().splitlines() for language in ("de", "en")]
    return [(len(source.split()), len(target.split())) for source, target in zip(*sides, strict=True)]


def run_joeynmt(
    bench: Bench, python: Path, architecture: str, threads: int, bleu: bool = False, rate: float | None = None
) -> Measurement:
    """Trains JoeyNMT; with `bleu`, decodes the state it was stopped in (beam 5)."""
    model = bench.work / "runs" / f"joeynmt-{architecture}-{threads}"
    batch = joey_batch(corpus_lengths(bench.prepared), bench.target_tokens) if bench.target_tokens else BATCH_TOKENS
    script = [str(python), str(bench.scripts / "joey_bench.py")]
    command = [*script, "train", str(bench.prepared), str(model), "--seconds", f"{bench.seconds:g}"]
    command += ["--batch", str(batch), "--valid-freq", "1000000"]
    if architecture == "recurrent":
        command += ["--arch", "rnn", "--rnn", "lstm", "--hidden", "512"]
    if rate:
        command += ["--lr", f"{rate:g}", "--warmup", str(WARMUP), "--dropout", "0.1"]
    environment = clean_environment(OMP_NUM_THREADS=str(threads))
    result = Measurement("joeynmt", architecture, str(threads), "float32", command, batch_tokens=batch)
    result.learning_rate = rate
    shutil.rmtree(model, ignore_errors=True)  # an earlier run's log is not this run's
    if bench.run(result, environment):
        read_speed(result, model / "train.log", joey_speed)
    if bleu and result.problem is None:
        decode_joeynmt(result, bench, python, model, environment)
    return result


def decode_joeynmt(result: Measurement, bench: Bench, python: Path, model: Path, environment: dict[str, str]) -> None:
    """Translates validation and test data with the last checkpoint and scores them."""
    last = max(model.glob("[0-9]*.ckpt"), key=lambda path: int(path.stem), default=None)
    if last is None:
        result.problem = "JoeyNMT left no checkpoint"
        return
    config = model / "decode.yaml"  # YAML is a superset of JSON; the path of the checkpoint is added by its python
    code = "import sys, yaml; c = yaml.safe_load(open(sys.argv[1])); c['testing']['load_model'] = sys.argv[2]"
    code += "; yaml.safe_dump(c, open(sys.argv[3], 'w'))"
    command = [str(python), "-c", code, str(model.with_name(model.name + ".yaml")), str(last), str(config)]
    subprocess.run(command, check=True, env=environment)
    command = [str(python), "-m", "joeynmt", "test", str(config), "-o", str(model / "hypotheses")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    note_bleu(result, bench.raw, model / "hypotheses.dev", model / "hypotheses.test", done.stderr)


def run_eole(
    bench: Bench, python: Path, architecture: str, threads: int, bleu: bool = False, rate: float | None = None
) -> Measurement:
    """Trains eole; with `bleu`, decodes the last checkpoint (one every 50 steps is kept; beam 5)."""
    model = bench.work / "runs" / f"eole-{architecture}-{threads}"
    script = [str(python), str(bench.scripts / "eole_bench.py"), str(bench.prepared), str(model)]
    command = [*script, "--seconds", f"{bench.seconds:g}", "--steps", "1000000", "--threads", str(threads)]
    command += ["--batch", str(BATCH_TOKENS), "--arch", "rnn" if architecture == "recurrent" else "transformer"]
    command += ["--save-steps", "50"] if bleu else []
    if rate:  # noam: the peak is factor / sqrt(width x warm-up)
        factor = rate * math.sqrt(NOAM_WIDTH[architecture] * WARMUP)
        command += ["--lr", f"{factor:.4g}", "--warmup", str(WARMUP)]
    environment = clean_environment(OMP_NUM_THREADS=str(threads))
    result = Measurement("eole", architecture, str(threads), "float32", command, learning_rate=rate)
    shutil.rmtree(model, ignore_errors=True)
    if bench.run(result, environment):
        read_speed(result, model / "train.log", eole_speed)
    if bleu and result.problem is None:
        decode_eole(result, bench, python, model, environment)
    return result


def decode_eole(result: Measurement, bench: Bench, python: Path, model: Path, environment: dict[str, str]) -> None:
    """Translates the segmented validation and test data, joins the pieces and scores them."""
    outputs, tail = [], ""
    for split in ("val", "test"):
        output, config = model / f"hypotheses.{split}", model / f"decode-{split}.yaml"
        search = {"beam_size": 5, "batch_type": "sents", "batch_size": 64, "max_length": 80}
        device = {"world_size": 1, "gpu_ranks": [], "compute_dtype": "fp32"}
        paths = {"model_path": [str(model / "model")], "src": str(bench.prepared / f"{split}.sp.de")}
        config.write_text(json.dumps(paths | search | device | {"output": str(output)}))
        command = [str(python.with_name("eole")), "predict", "-c", str(config)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        tail += done.stderr
        if output.exists():
            lines = output.read_text().splitlines()
            output.write_text("".join(line.replace(" ", "").replace("\u2581", " ").strip() + "\n" for line in lines))
        outputs.append(output)
    note_bleu(result, bench.raw, *outputs, tail)
