"""harken, run as a user runs it (`harken train RECIPE --set ...`) on the peers' data, shapes and batch size."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from measurement import BATCH_TOKENS, Bench, Measurement, note_bleu, read_speed
from records import ROOT
from speed_logs import harken_speed

# The same shapes as the measuring scripts give the peers. "512" of the recurrent model: 2 x 256 in the encoder, 512 in
# the decoder, embeddings of 256.
HARKEN_SETTINGS = {
    "transformer": {
        "recipe": "multi30k-transformer",
        "model.layers": 3,
        "model.width": 256,
        "model.feedforward": 1024,
        "model.heads": 4,
    },
    "recurrent": {
        "recipe": "multi30k-attention",
        "model.layers": 1,
        "model.width": 512,
        "model.cell": "lstm",
        "model.attention": "additive",
        "model.bidirectional": "true",
        "model.tied": "none",  # the peers' output layer is a matrix of its own, from 512
    },
}
# For BLEU after a given time: the same shapes, and everything that depends on the time left to harken to choose.
FITTED_RECIPES = {
    "transformer": 'architecture = "transformer"',
    "recurrent": 'architecture = "recurrent"\nembedding = 256\ninput_feeding = true',
}
TOKENIZER_SETTINGS = {"tokenizer.kind": "bpe", "tokenizer.size": 8000, "tokenizer.joint": "true"}


def harken_command() -> list[str]:
    """The `harken` beside this python, or the package in src/ where none is installed."""
    script = Path(sys.executable).parent / "harken"
    return [str(script)] if script.exists() else [sys.executable, "-c", "from harken.cli import main; main()"]


def harken_environment() -> dict[str, str]:
    """As a user has it, with no thread count given: harken chooses for itself."""
    variables = {key: value for key, value in os.environ.items() if key not in {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}}
    path = [str(ROOT / "src"), *filter(None, [variables.get("PYTHONPATH", "")])]
    return variables | {"PYTHONPATH": os.pathsep.join(path)}


def fitted_recipe(folder: Path, architecture: str) -> Path:
    """Writes a recipe that leaves learning rate, warm-up, regularisation and average open."""
    path = folder / f"harken-{architecture}-fitted.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    model, search = f"[model]\n{FITTED_RECIPES[architecture]}", "[search]\nbeam = 5\nlength_penalty = 1.0"
    path.write_text(f'task = "translate"\n\n[data]\nname = "multi30k"\n\n{model}\n\n{search}\n')
    return path


def run_harken(bench: Bench, architecture: str, extra: list[str], bleu: bool = False) -> Measurement:
    """Trains harken; with `bleu`, translates validation and test data with the model it leaves (beam 5)."""
    model = bench.work / "runs" / f"harken-{architecture}{'-bleu' if bleu else ''}"
    settings: dict[str, Any] = {**HARKEN_SETTINGS[architecture], **TOKENIZER_SETTINGS}
    recipe = settings.pop("recipe")
    if bleu:
        recipe = fitted_recipe(bench.work / "runs", architecture)
    settings |= {"data.dir": bench.raw, "data.pair": "de-en", "train.batch_tokens": BATCH_TOKENS}
    settings["train.max_minutes"] = f"{bench.seconds / 60:.4f}"
    settings["train.validate_every"] = 1000000
    given = [f"{key}={value}" for key, value in settings.items()] + extra
    command = [*harken_command(), "train", str(recipe), "--out", str(model)]
    command += [part for setting in given for part in ("--set", setting)]
    result = Measurement("harken", architecture, "own choice", "own choice", command)
    shutil.rmtree(model, ignore_errors=True)  # an earlier run's lines are not this run's
    if bench.run(result, harken_environment()):
        read_speed(result, model / "metrics.jsonl", harken_speed)
    if (model / "recipe.toml").exists():
        result.settings = tomllib.loads((model / "recipe.toml").read_text())
        chosen = result.settings.get("train", {})
        result.dtype = str(chosen.get("precision", result.dtype))
        if "threads" in chosen:
            result.threads = f"{chosen.get('workers', 1)} workers x {chosen['threads']}"
    if bleu and result.problem is None:
        harken_bleu(result, model, bench.raw)
    return result


def harken_bleu(result: Measurement, model: Path, raw: Path) -> None:
    """Translates validation and test data with `harken translate` and scores them."""
    outputs, errors = [], ""
    for split in ("val", "test_2016_flickr"):
        command = [*harken_command(), "translate", str(model), str(raw / f"{split}.de")]
        done = subprocess.run(command, capture_output=True, text=True, env=harken_environment())
        outputs.append(model / f"hypotheses.{split}")
        outputs[-1].write_text(done.stdout, encoding="utf-8")
        errors += done.stderr
    note_bleu(result, raw, *outputs, errors)
