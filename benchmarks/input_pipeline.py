"""The input pipeline of many ranks on one corpus: batches, bytes and stalls, by the code that training runs.

    python benchmarks/input_pipeline.py --source src-train.txt.gz --target tgt-train.txt.gz --ranks 64

The lengths of real sentence pairs (cut into subwords learned from them) are drawn 4.5 million times, as many pairs as
WMT14 English-German has, and written as the memory-mapped arrays of `harken.data.prepared`. Then the order of an epoch
is drawn (`token_batches`), every rank takes its share of each global batch (`SequenceTask.share`) and collates it
(`ParallelIds.batch`); with --packed by `packed_batches` and `pack`, as a Transformer on GPUs does. The CPU time of
every call is taken, as a shared machine spoils wall time. From these times a synchronous run is simulated: a thread of
each rank collates the next batch while the current step computes, and a step starts when the slowest rank is ready.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from harken.data.io.files import read_lines
from harken.data.io.token_rows import ParallelIds, TokenRows
from harken.data.packing import pack, packed_batches, shrunk, window_of
from harken.data.prepared.scan import mapped
from harken.data.tokenizers.base import train_tokenizer
from harken.tasks.sequence_task import SequenceTask

PAGE = 4096


def write_corpus(folder: Path, lengths: np.ndarray, pairs: int, vocabulary: int) -> None:
    """Draw pairs of lengths (N, 2) and write random ids of these lengths."""
    random = np.random.default_rng(1)
    chosen = lengths[random.integers(0, len(lengths), pairs)]
    for side, name in enumerate(("source", "target")):
        offsets = np.concatenate([[0], np.cumsum(chosen[:, side])])
        offsets.astype(np.int64).tofile(folder / f"{name}.offsets")
        with open(folder / f"{name}.ids", "wb") as ids:
            for start in range(0, int(offsets[-1]), 1 << 24):
                count = min(1 << 24, int(offsets[-1]) - start)
                random.integers(4, vocabulary, count, dtype=np.uint16).tofile(ids)


def open_corpus(folder: Path) -> ParallelIds:
    """Map the arrays."""
    sides = [
        TokenRows(mapped(folder / f"{name}.ids", np.uint16), mapped(folder / f"{name}.offsets", np.int64))
        for name in ("source", "target")
    ]
    return ParallelIds(*sides)


def pages_of(rows: TokenRows, indices: np.ndarray) -> int:
    """Pages of the file of ids that hold these rows: what a cold read transfers."""
    first, last = rows.offsets[indices] * 2 // PAGE, (rows.offsets[indices + 1] * 2 - 1) // PAGE
    return len(np.unique(np.concatenate([first, last])))


def simulate(seconds: np.ndarray, step: float) -> dict[str, float]:
    """A synchronous run whose ranks collate one batch ahead in a thread.

    Args:
        seconds: (steps, ranks) that share and collation of each batch take.
        step: seconds that a step computes.
    """
    start, ready, stalled, waits = 0.0, seconds[0].copy(), 0.0, 0
    for number in range(1, len(seconds) + 1):
        begin = max(start, float(ready.max()))
        stalled += begin - start if number > 1 else 0.0
        waits += number > 1 and begin > start
        if number < len(seconds):
            ready = np.maximum(ready, begin) + seconds[number]  # announced when the step before it begins
        start = begin + step
    total = start - float(seconds[0].max())
    return {"step_ms": 1000 * step, "stall_share": stalled / total, "steps_that_waited": waits / (len(seconds) - 1)}


def measure(
    corpus: ParallelIds, ranks: int, tokens_per_rank: int, steps: int, rate: float, packed: bool
) -> dict[str, Any]:
    """Time every rank's share of some global batches, and simulate."""
    source_lengths, lengths = corpus.source.lengths, corpus.target.lengths
    began = time.thread_time()
    # batch_tokens bounds the longer side of a batch as padded; a rank has about as many source as target tokens
    if packed:
        window = window_of(source_lengths, lengths, ranks * tokens_per_rank)
        batches = packed_batches(source_lengths, lengths, window, seed=1, epoch=0)
    else:
        batches = corpus.batches(ranks * tokens_per_rank, seed=1, epoch=0)
    order_seconds = time.thread_time() - began
    task: Any = SimpleNamespace(lengths=lengths)
    seconds = np.zeros((steps, ranks))
    sharing = np.zeros(steps)
    tokens, padded, real = np.zeros((steps, ranks)), np.zeros((steps, ranks)), 0
    sent = pages = rows = 0
    for number in range(steps):
        began = time.thread_time()
        shares = SequenceTask.share(task, batches[number], ranks)
        sharing[number] = time.thread_time() - began
        for rank, share in enumerate(shares):
            began = time.thread_time()
            batch: Any = pack(corpus, share, shrunk(window, corpus, share)) if packed else corpus.batch(share)
            seconds[number, rank] = time.thread_time() - began
            tensors = batch if packed else (batch.source, batch.target_input, batch.target_output)
            padded[number, rank] = batch.source.numel() + batch.target_output.numel()
            tokens[number, rank] = int(source_lengths[share].sum() + lengths[share].sum())
            sent += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
            pages += pages_of(corpus.source, share) + pages_of(corpus.target, share)
            rows += len(share)
        real += int(tokens[number].sum())
    computed = float(padded.max(1).mean()) / rate
    epoch = computed * len(batches)
    both = seconds + sharing[:, None]  # each rank cuts the global batch itself
    return {
        "ranks": ranks,
        "batches_per_epoch": len(batches),
        "order_of_an_epoch_s": round(order_seconds, 2),
        "epoch_s": round(epoch, 1),
        "stall_share_if_drawn_between_epochs": round(order_seconds / (epoch + order_seconds), 4),
        "stall_share_of_drawing_ahead": round(max(0.0, order_seconds - epoch) / epoch, 4),
        "global_batch": {"pairs": rows // steps, "source_and_target_tokens": real // steps},
        "padding_share": round(1 - real / float(padded.sum()), 4),
        "largest_over_mean_share": round(float((padded.max(1) / padded.mean(1)).mean()), 4),
        "share_ms": round(1000 * float(np.median(sharing)), 3),
        "collate_ms_median": round(1000 * float(np.median(seconds)), 3),
        "collate_ms_99": round(1000 * float(np.quantile(seconds, 0.99)), 3),
        "to_device_kb_per_rank": round(sent / steps / ranks / 1e3, 1),
        "ids_kb_per_rank": round(2 * real / steps / ranks / 1e3, 1),
        "cold_pages_kb_per_rank": round(pages * PAGE / steps / ranks / 1e3, 1),
        "simulated": {key: round(value, 5) for key, value in simulate(both, computed).items()},
        "rate_at_which_1_percent_stalls": round(limit_rate(both, float(padded.max(1).mean()))),
    }


def limit_rate(seconds: np.ndarray, padded: float) -> float:
    """Tokens a second and rank beyond which more than 1% of the time is spent waiting."""
    low, high = 1e4, 1e9
    for _ in range(40):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if simulate(seconds, padded / middle)["stall_share"] < 0.01 else (low, middle)
    return low


def main() -> None:
    """Make the corpus, time the pipeline for each number of ranks, print JSON."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--source", type=Path, required=True)
    options.add_argument("--target", type=Path, required=True)
    options.add_argument("--pairs", type=int, default=4_500_000)
    options.add_argument("--ranks", type=int, nargs="+", default=[1, 8, 64])
    options.add_argument("--tokens", type=int, default=12_500, help="padded tokens of the longer side, per rank")
    options.add_argument("--steps", type=int, default=20)
    options.add_argument(
        "--rate", type=float, default=1.7e6, help="source and target tokens a second that a rank computes"
    )
    options.add_argument("--packed", action="store_true", help="pack sentences into windows instead of padding them")
    chosen = options.parse_args()
    sides = [list(read_lines(path)) for path in (chosen.source, chosen.target)]
    tokenizer = train_tokenizer("bpe", [*sides[0], *sides[1]], 32_000)
    lengths = np.stack([TokenRows.encode(tokenizer, side).lengths for side in sides], axis=1)
    lengths = lengths[(lengths > 1).all(1) & (lengths <= 256).all(1)]
    with tempfile.TemporaryDirectory(prefix="harken-pipeline-") as folder:
        write_corpus(Path(folder), lengths, chosen.pairs, tokenizer.size)
        corpus = open_corpus(Path(folder))
        runs = [
            measure(corpus, ranks, chosen.tokens, chosen.steps, chosen.rate, chosen.packed) for ranks in chosen.ranks
        ]
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
    print(
        json.dumps(
            {
                "pairs": chosen.pairs,
                "packed": chosen.packed,
                "mean_lengths": [round(float(mean), 1) for mean in lengths.mean(0)],
                "prepared_mb": round(size / 1e6),
                "tokens_per_second_and_rank": chosen.rate,
                "load": round(os.getloadavg()[0], 1),
                "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                "runs": runs,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
