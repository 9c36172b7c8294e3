"""Recurrent layers on a GPU: harken beside torch (cuDNN), step by step beside what the chip allows, in one run.

    python -m benchmarks.gpu_recurrent [--out record.json] [--sections table cells norm choice]

table     the shapes of issue 6: bf16 with lengths (torch: packed), two layers in both directions, and cuDNN's best
          path, float16 without lengths
cells     every cell beside the plain LSTM
norm      layer normalisation in the launch, beside what a layer does without it: our loop, step by step
choice    where the picker says "triton": the ratio over a grid of batches and widths

Rows are random sentences of T/2 to T steps, inputs as wide as the layer, gradients wanted for inputs and weights.
torch is given its input packed already. Milliseconds are medians by CUDA events; kernels are compiled beforehand, many
at once. The limit of a case is the larger of its operations over the measured rate of products and its bytes, each
tensor once, over the measured rate of copies: a recurrent layer stays above it, because each step waits for the last.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from benchmarks.gpu_timing import Record, milliseconds
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from harken.nn import GRU, LSTM, RNN

SHAPES = [(1024, 16, 768), (512, 16, 512), (128, 64, 512), (1024, 8, 256), (256, 128, 1024)]  # T, B, H
PEERS: dict[Any, Any] = {LSTM: nn.LSTM, GRU: nn.GRU, RNN: nn.RNN}
VARIANTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "LSTM": (LSTM, {}),
    "LSTM peephole": (LSTM, {"peephole": "diagonal"}),
    "LSTM coupled": (LSTM, {"coupled": True}),
    "GRU": (GRU, {}),
    "GRU before": (GRU, {"reset": "before"}),
    "RNN": (RNN, {}),
    "LSTM norm": (LSTM, {"layer_norm": True}),
    "LSTM peephole norm": (LSTM, {"layer_norm": True, "peephole": "diagonal"}),
    "LSTM coupled norm": (LSTM, {"layer_norm": True, "coupled": True}),
    "GRU norm": (GRU, {"layer_norm": True}),
    "GRU before norm": (GRU, {"layer_norm": True, "reset": "before"}),
    "RNN norm": (RNN, {"layer_norm": True}),
}
NORMED = [name for name in VARIANTS if "norm" in name]


@dataclass(frozen=True)
class Case:
    """One layer on one shape."""

    section: str
    cell: str
    time: int
    rows: int
    width: int
    dtype: str = "bfloat16"
    layers: int = 1
    both: bool = False
    lengths: bool = True

    def options(self) -> dict[str, Any]:
        return {"num_layers": self.layers, "bidirectional": self.both, "batch_first": True}


def cases(sections: list[str]) -> Iterator[Case]:
    """What is measured, in order."""
    if "table" in sections:
        for shape in SHAPES:
            yield Case("table", "LSTM", *shape)
            yield Case("table", "LSTM", *shape, layers=2, both=True)
            yield Case("table", "LSTM", *shape, dtype="float16", lengths=False)
        yield Case("table", "GRU", *SHAPES[0])
        yield Case("table", "GRU", *SHAPES[0], layers=2, both=True)
    if "cells" in sections:
        for shape in ((1024, 16, 768), (128, 64, 512)):
            for cell in VARIANTS:
                if cell not in NORMED:
                    yield Case("cells", cell, *shape)
    if "norm" in sections:
        for shape in SHAPES:
            yield Case("norm", "LSTM norm", *shape)
        for cell in NORMED[1:]:
            yield Case("norm", cell, *SHAPES[0])
        yield Case("norm", "LSTM norm", *SHAPES[1], layers=2, both=True)
    if "short" in sections:  # left to cuDNN: as fast as torch's own layers
        for layers, both in ((1, False), (2, True)):
            yield Case("short", "LSTM", 30, 128, 512, layers=layers, both=both, lengths=False)
            yield Case("short", "GRU", 30, 128, 512, layers=layers, both=both, lengths=False)
    if "choice" in sections:
        for width in (64, 256, 1024):
            for rows in (1, 32, 128, 256):
                yield Case("choice", "LSTM", 64, rows, width)
        for width, rows in ((128, 16), (512, 64)):
            yield Case("choice", "LSTM", 64, rows, width, dtype="float32")
            yield Case("choice", "GRU", 64, rows, width, both=True)
            yield Case("choice", "RNN", 64, rows, width, lengths=False)


def both_ways(call: Callable[[], Tensor], inputs: list[Tensor], backward: bool) -> Callable[[], Any]:
    """Forward alone without gradients, or forward and backward."""
    if not backward:
        return torch.no_grad()(call)

    def work() -> None:
        output = call()
        torch.autograd.grad(output, inputs, torch.ones_like(output))

    return work


def ours(case: Case, values: Tensor, lengths: Tensor | None) -> tuple[Callable[[], Tensor], list[Tensor], str]:
    """Our layer on the case, and its backend."""
    kind, options = VARIANTS[case.cell]
    layer = kind(case.width, case.width, **options, **case.options()).cuda().to(values.dtype)
    path = layer.backend(values, lengths)
    return lambda: layer(values, lengths=lengths)[0], [values, *layer.parameters()], path


def theirs(case: Case, values: Tensor, lengths: Tensor | None) -> tuple[Callable[[], Tensor], list[Tensor]] | None:
    """Torch's layer; None for cells it lacks."""
    kind, options = VARIANTS[case.cell]
    if options:
        return None
    layer = PEERS[kind](case.width, case.width, **case.options()).cuda().to(values.dtype)
    if lengths is None:
        return lambda: layer(values)[0], [values, *layer.parameters()]
    packed = pack_padded_sequence(values.detach(), lengths, batch_first=True, enforce_sorted=False)
    data = packed.data.detach().requires_grad_()
    again = type(packed)(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
    return lambda: layer(again)[0].data, [data, *layer.parameters()]


def limit(case: Case, values: Tensor, rate: float, bandwidth: float, backward: bool) -> float:
    """Milliseconds that the arithmetic, or the bytes, would take at the measured rates."""
    gates = {"LSTM": 4, "LSTM peephole": 4, "LSTM coupled": 3, "RNN": 1}.get(case.cell.removesuffix(" norm"), 3)
    directions, size = 1 + case.both, values.element_size()
    operations = number = 0.0
    for depth in range(case.layers):
        wide = case.width * (directions if depth else 1)
        operations += 2 * values.shape[0] * values.shape[1] * directions * gates * case.width * (wide + case.width)
        number += values.shape[0] * values.shape[1] * (wide + directions * case.width * (2 * gates + 1))
        number += directions * gates * case.width * (wide + case.width)
    factor = 3 if backward else 1
    return max(factor * operations / rate / 1e9, factor * number * size / bandwidth / 1e9)


def inputs_of(case: Case) -> tuple[Tensor, Tensor | None]:
    torch.manual_seed(0)
    shape = (case.rows, case.time, case.width)
    values = torch.randn(shape, device="cuda", dtype=getattr(torch, case.dtype), requires_grad=True)
    if not case.lengths:
        return values, None
    lengths = torch.randint(case.time // 2, case.time + 1, (case.rows,)).clamp(min=1)
    lengths[0] = case.time
    return values, lengths


def measure(case: Case, rate: float, bandwidth: float) -> dict[str, Any]:
    """Milliseconds of both, forward and forward + backward, and what lies between them and the limit."""
    values, lengths = inputs_of(case)
    call, parts, path = ours(case, values, lengths)
    peer = theirs(case, values, lengths)
    row: dict[str, Any] = {**vars(case), "path": path}
    for backward, name in ((False, "forward"), (True, "both")):
        mine = milliseconds(both_ways(call, parts, backward))
        row[f"{name}_ms"] = round(mine, 3)
        row[f"{name}_us_a_step"] = round(mine / case.time / case.layers * 1e3, 2)
        row[f"{name}_limit_ms"] = round(limit(case, values, rate, bandwidth, backward), 3)
        if peer:
            other = milliseconds(both_ways(*peer, backward))
            row[f"{name}_torch_ms"] = round(other, 3)
            row[f"{name}_ratio"] = round(other / mine, 2)
        elif case.section == "norm":
            other, row["without_the_launch"] = without_launch(case, values, lengths, backward)
            row[f"{name}_before_ms"] = round(other, 3)
            row[f"{name}_ratio"] = round(other / mine, 2)
    return row


def without_launch(case: Case, values: Tensor, lengths: Tensor | None, backward: bool) -> tuple[float, str]:
    """Milliseconds of our layer with our kernels disabled, and the backend it uses then."""
    os.environ["HARKEN_KERNELS"] = "off"
    try:
        call, parts, path = ours(case, values, lengths)
        return milliseconds(both_ways(call, parts, backward), least=2, warm=1), path
    finally:
        del os.environ["HARKEN_KERNELS"]


def compile_all(selected: list[Case], at_once: int) -> None:
    """Compile the kernels of all cases in as many processes; Triton keeps them on disk."""
    unlike = {(case.cell, case.rows, case.width, case.dtype, case.both): case for case in selected}
    short = [{**vars(case), "time": 64, "layers": 1} for case in sorted(unlike.values(), key=lambda case: -case.width)]
    command = [sys.executable, "-m", "benchmarks.gpu_recurrent", "--compile"]
    shares = [json.dumps(short[start::at_once]) for start in range(min(at_once, len(short)))]
    for process in [subprocess.Popen([*command, share]) for share in shares]:
        process.wait()


def ceilings() -> tuple[float, float]:
    """TFLOP/s of a large bf16 product and TB/s of a large copy, as measured now."""
    matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    rate = 2 * 8192**3 / milliseconds(lambda: matrix @ matrix) / 1e9
    source = torch.randn(2**28, device="cuda")
    target = torch.empty_like(source)
    return rate, 2 * 4 * 2**28 / milliseconds(lambda: target.copy_(source)) / 1e9


def main() -> None:
    """Measure and print a line a case; --out keeps them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sections", nargs="*", default=["table", "cells", "norm", "short", "choice"])
    parser.add_argument("--compile", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.compile:
        for case in (Case(**fields) for fields in json.loads(options.compile)):
            call, parts, path = ours(case, *inputs_of(case))
            if path == "triton":
                both_ways(call, parts, False)()
                both_ways(call, parts, True)()
        return
    selected = list(cases(options.sections))
    start = time.time()
    compile_all(selected, max(1, (os.cpu_count() or 2) - 2))
    print(f"compiled in {time.time() - start:.0f} s", flush=True)
    rate, bandwidth = ceilings()
    rates = {"product_tflops": round(rate), "copy_tb_a_second": round(bandwidth, 2)}
    record = Record("gpu-recurrent", options.out, cudnn=torch.backends.cudnn.version(), **rates)
    for case in selected:
        record.add(measure(case, rate, bandwidth))


if __name__ == "__main__":
    main()
