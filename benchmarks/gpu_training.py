"""Training speed of the Transformer base on a GPU, harken beside a compiled `torch.nn.Transformer`, in one run.

    python benchmarks/gpu_training.py [--out record.json]

Both train 6+6 layers, width 512, feed-forward 2,048, 8 heads, a tied vocabulary of 32,000, dropout 0.1, label smoothing
0.1, bf16 autocast, fused AdamW, on random sentence pairs of equal length, `torch.compile`d. Speed is source + target
tokens a second; the operations a step needs are counted the same way for both.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, INNER, LAYERS, HEADS, VOCABULARY = 512, 2048, 6, 8, 32_000


def milliseconds(work: Callable[[], None], warm: int = 4, repeats: int = 20) -> float:
    """Median time of `work` by CUDA events."""
    for _ in range(warm):
        work()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def operations(rows: int, length: int) -> float:
    """Floating-point operations of one training step, products only, forward and backward."""
    encoder = LAYERS * (4 * WIDTH**2 + 2 * WIDTH * INNER)
    decoder = LAYERS * (8 * WIDTH**2 + 2 * WIDTH * INNER) + WIDTH * VOCABULARY
    attention = LAYERS * 3 * 2 * 2 * length * WIDTH * 3  # three attentions a layer pair, scores and contexts
    return rows * length * (6 * (encoder + decoder) + attention)


class TorchTransformer(nn.Module):
    """What a user builds from torch's own parts."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.network = nn.Transformer(WIDTH, HEADS, LAYERS, LAYERS, INNER, 0.1, batch_first=True)

    def loss(self, source: Tensor, target: Tensor, wanted: Tensor, padding: Tensor) -> Tensor:
        """Label-smoothed cross-entropy, summed."""
        future = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        hidden = self.network(
            self.embedding(source),
            self.embedding(target),
            tgt_mask=future,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        logits = F.linear(hidden, self.embedding.weight).float().flatten(0, 1)
        return F.cross_entropy(logits, wanted.flatten(), label_smoothing=0.1, reduction="sum")


def training_step(model: nn.Module, loss: Callable[..., Tensor], arguments: tuple, terms: int) -> Callable[[], None]:
    """Forward, backward and update, as one call."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            value = loss(*arguments)
        (value / terms).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def main() -> None:
    """Measure both and print a line each."""
    from harken.models.build import build_model
    from harken.models.config import TransformerConfig

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--short", action="store_true", help="only the smaller batch")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    ceiling = 2 * 8192**3 / milliseconds(lambda: torch.mm(matrix, matrix)) / 1e9
    record: dict = {
        "name": "transformer-base",
        "date": f"{datetime.now():%Y-%m-%d %H:%M}",
        "command": "python " + shlex.join(sys.argv),
        "unit": "source + target tokens a second; median of 20 steps after 4; the peer gets a mask that hides nothing",
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "dtype": "bfloat16 autocast",
        "ceiling_tflops": round(ceiling),
        "rows": [],
    }
    for rows, length in ((400, 32),) if options.short else ((400, 32), (800, 32)):
        source, target, wanted = (torch.randint(4, VOCABULARY, (rows, length), device="cuda") for _ in range(3))
        lengths = torch.full((rows,), length, device="cuda")
        padding = torch.zeros(rows, length, dtype=torch.bool, device="cuda")
        peer = TorchTransformer().cuda()
        config = TransformerConfig(layers=LAYERS, width=WIDTH, heads=HEADS, feedforward=INNER, dropout=0.1)
        ours = build_model(config, VOCABULARY, VOCABULARY).cuda()
        cases = {
            "torch.nn.Transformer compiled": (peer, torch.compile(peer.loss), (source, target, wanted, padding)),
            "harken compiled, with lengths": (ours, torch.compile(ours.loss), (source, lengths, target, wanted, 0.1)),
            "harken compiled, no padding": (ours, torch.compile(ours.loss), (source, None, target, wanted, 0.1)),
            "harken compiled with CUDA graphs, no padding": (
                ours,
                torch.compile(ours.loss, mode="reduce-overhead"),
                (source, None, target, wanted, 0.1),
            ),
            "harken eager, no padding": (ours, ours.loss, (source, None, target, wanted, 0.1)),
        }
        base = 0.0
        for name, (model, loss, arguments) in cases.items():
            torch.cuda.reset_peak_memory_stats()
            taken = milliseconds(training_step(model, loss, arguments, rows * length))
            speed = 2 * rows * length / taken * 1e3
            base = base or speed
            row = {
                "case": name,
                "rows": rows,
                "length": length,
                "ms": round(taken, 2),
                "tokens_per_second": round(speed),
                "ratio": round(speed / base, 3),
                "tflops": round(operations(rows, length) / taken / 1e9),
                "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 1),
            }
            record["rows"].append(row)
            print(json.dumps(row), flush=True)
    if options.out:
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
