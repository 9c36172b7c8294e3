"""`harken train` beside plain PyTorch on a GPU, on the same sentence pairs, in one run.

    python -m benchmarks.gpu_training --source train.en --target train.de [--out record.json]

transformer   6+6 layers, width 512, feed-forward 2,048, 8 heads, a joint vocabulary of 32,000 words; the peer is a
              compiled `torch.nn.Transformer` on rows of 32 tokens without padding
recurrent     a bidirectional LSTM and an LSTM decoder with additive attention and input feeding, width 512, embeddings
              of 256, a vocabulary of 8,000 words; the peer is a loop over `torch.nn.LSTMCell`
language      the shape of GPT-2 small, 12 layers, width 768, pieces of 1,024 words of the source file, a vocabulary of
              32,000 words, no dropout; the peer is the same in plain PyTorch, compiled

All train in bf16 with fused AdamW. Speed is source + target tokens a second, padding counted as nothing, with reading
batches, moving them to the GPU and logging; for harken the median of the lines of metrics.jsonl after the first three.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from benchmarks.gpu_timing import Record

from benchmarks import gpu_training_peers as peers

SIZES = {"transformer": 32_000, "recurrent": 8_000, "language": 32_000}
CHUNK = 1024
MODELS = {
    "transformer": 'architecture = "transformer"'
    "\nlayers = 6\nwidth = 512\nheads = 8\nfeedforward = 2048\ndropout = 0.1",
    "recurrent": 'architecture = "recurrent"\nembedding = 256\nwidth = 512'
    '\nattention = "additive"\ndropout = 0.2\ntied = "none"',
    "language": 'architecture = "transformer"\nlayers = 12\nwidth = 768\nheads = 12\nfeedforward = 3072\ndropout = 0.0'
    f'\npositions = "learned"\nmax_length = {CHUNK}\nactivation = "gelu_tanh"\nscale_embeddings = false',
}


def read(path: Path) -> list[str]:
    """The lines of a file that may be compressed."""
    opened = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opened(path, "rt", encoding="utf-8") as file:  # type: ignore[operator]
        return file.read().splitlines()


def recipe_of(model: str, options: argparse.Namespace, budget: int, steps: int) -> str:
    """What harken trains."""
    if model == "language":
        task, data = "language", f'train = "{options.source.resolve()}"\nchunk = {CHUNK}\nvalid_size = 0.01'
    else:
        task, data = "translate", f'source = "{options.source.resolve()}"\ntarget = "{options.target.resolve()}"'
        data += "\nvalid_size = 100\ntest_size = 0"
    return f"""
task = "{task}"
[data]
{data}
[tokenizer]
kind = "word"
size = {SIZES[model]}
{"" if model == "language" else "joint = true"}
[model]
{MODELS[model]}
[train]
max_steps = {steps}
batch_tokens = {budget}
learning_rate = 5e-4
warmup_steps = 100
validate_every = {steps}
checkpoint_every = {steps}
log_every = 20
average = 0.999
{"" if model == "language" else "validate_sentences = 10"}
label_smoothing = {0.0 if model == "language" else 0.1}
"""


def train(model: str, options: argparse.Namespace, budget: int, steps: int) -> dict[str, Any]:
    """`harken train` as a user runs it."""
    recipe = recipe_of(model, options, budget, steps)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "recipe.toml").write_text(recipe)
        command = [sys.executable, "-m", "harken", "train", f"{folder}/recipe.toml", "--out", f"{folder}/run"]
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return {"error": done.stderr[-500:] + done.stdout[-500:]}
        lines = map(json.loads, (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines())
        entries = [entry for entry in lines if entry["kind"] == "train"]
    later = entries[3:] or entries
    return {
        "tokens_per_second": statistics.median(
            entry.get("all_tokens_per_second", entry["tokens_per_second"]) for entry in later
        ),
        "utilisation": statistics.median(entry.get("utilisation", 0.0) for entry in later),
        "loss": entries[-1]["loss"],
        "seconds_of_first_20_updates": entries[0]["seconds"],
        "wall_seconds": round(time.perf_counter() - start, 1),
    }


def peer(model: str, options: argparse.Namespace, budget: int) -> dict[str, float]:
    """The same in plain PyTorch."""
    if model == "language":
        words = [word for line in read(options.source) for word in line.split()]
        known = {word: number for number, (word, _) in enumerate(Counter(words).most_common(SIZES[model] - 1), start=1)}
        ids = torch.tensor([known.get(word, 0) for word in words])
        network = peers.PlainLanguage(SIZES[model], CHUNK)
        return peers.language_tokens_per_second(network, ids, budget // CHUNK, CHUNK, options.seconds)
    pairs = peers.encode(read(options.source), read(options.target), SIZES[model])
    compiled = model == "transformer"
    data = peers.full_rows(pairs, budget) if compiled else peers.batches(pairs, budget)
    network = (peers.PlainTransformer if compiled else peers.PlainRecurrent)(SIZES[model])
    return peers.tokens_per_second(network, data, compiled, options.seconds)


def main() -> None:
    """Measure and print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--models", nargs="+", default=list(SIZES))
    parser.add_argument("--batch-tokens", type=int, nargs="+", default=[32_768])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each peer, after its warm-up")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    unit = "source + target tokens a second, padding counted as nothing"
    record = Record("gpu-training", options.out, unit=unit)
    for model in options.models:
        for budget in options.batch_tokens:
            row: dict[str, Any] = {
                "model": model,
                "batch_tokens": budget,
                "harken": train(model, options, budget, options.steps),
            }
            if not options.no_peers:
                row["peer"] = peer(model, options, budget)
                row["ratio"] = row["harken"].get("tokens_per_second", 0.0) / row["peer"]["tokens_per_second"]
            record.add(row)


if __name__ == "__main__":
    main()
