"""Every recurrent layer of harken on a CPU against torch.nn.LSTM of the same shape, forward and backward, float32.

    python benchmarks/cpu_recurrent.py                          # T=64 B=64 H=512, two layers, every cell and variant
    python benchmarks/cpu_recurrent.py --only lstm --shape 32,32,256
    python benchmarks/cpu_recurrent.py --rule                   # harken's backends side by side, many shapes

One process, interleaved: each timing of ours stands right behind one of torch's, so that both meet the same machine. A
ratio is torch's median over ours, each at its better number of threads; above 1, ours is faster. With lengths (a
quarter of T to T, in random order) torch packs and pads. The ceiling is the best rate of large matrix products in the
same run. The share of CPU time that other processes took is noted: where it is large, wall times mean little, and the
ratio of CPU seconds on one thread (`cpu_ratio`) is the better guide.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import records
import torch
from records import RECORDS, facts_of, machine, rows_table
from torch import Tensor, nn

from harken.kernels.recurrent.cpu.products import Packed
from harken.nn import GRU, LSTM, RNN
from harken.nn.recurrent import stack

CELLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lstm": (LSTM, {}),
    "lstm peephole diagonal": (LSTM, {"peephole": "diagonal"}),
    "lstm peephole full": (LSTM, {"peephole": "full"}),
    "lstm coupled": (LSTM, {"coupled": True}),
    "lstm projection": (LSTM, {"proj_size": 256}),
    "gru after": (GRU, {}),
    "gru before": (GRU, {"reset": "before"}),
    "rnn tanh": (RNN, {}),
    "rnn relu": (RNN, {"nonlinearity": "relu"}),
    "rnn sigmoid": (RNN, {"nonlinearity": "sigmoid"}),
}
EXTRAS: dict[str, dict[str, Any]] = {
    "layer norm": {"layer_norm": True},
    "zoneout": {"zoneout": 0.1},
    "recurrent dropout": {"recurrent_dropout": 0.1},
}
WIRINGS: dict[str, dict[str, Any]] = {
    "residual": {"connections": "residual"},
    "highway": {"connections": "highway"},
    "dense": {"connections": "dense"},
    "bidirectional": {"bidirectional": True},
}
RULE_SHAPES = [(64, 64, 512), (32, 32, 256), (64, 1, 512), (64, 4, 512), (64, 32, 64), (256, 16, 128), (1, 64, 512)]
CEILING_SIZE = 2048


def variants() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Every cell plain and with each extra, and the plain LSTM in each wiring."""
    every = dict(CELLS)
    for extra, options in EXTRAS.items():
        every |= {f"{name}, {extra}": (kind, {**given, **options}) for name, (kind, given) in CELLS.items()}
    return every | {f"lstm, {name}": (LSTM, options) for name, options in WIRINGS.items()}


def training_step(layer: nn.Module, values: Tensor, lengths: Tensor | None) -> Callable[[], None]:
    """Forward and backward of a layer of ours."""

    def step() -> None:
        layer(values, lengths=lengths)[0].sum().backward()

    return step


def peer_step(layer: nn.LSTM, values: Tensor, lengths: Tensor | None) -> Callable[[], None]:
    """The same of torch's, which packs and pads where there are lengths."""

    def step() -> None:
        if lengths is None:
            output = layer(values)[0]
        else:
            packed = nn.utils.rnn.pack_padded_sequence(values, lengths, batch_first=True, enforce_sorted=False)
            output = nn.utils.rnn.pad_packed_sequence(layer(packed)[0], batch_first=True)[0]
        output.sum().backward()

    return step


def clocked(work: Callable[[], object]) -> float:
    """Seconds of wall time."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ceiling() -> float:
    """FLOP/s of the better of two large products: torch.mm, and oneDNN with a packed weight."""
    square, out = torch.randn(CEILING_SIZE, CEILING_SIZE), torch.empty(CEILING_SIZE, CEILING_SIZE)
    packed, rows = Packed(torch.randn(2048, 512)), torch.randn(128, 512)
    plain = 2 * CEILING_SIZE**3 / min(clocked(lambda: torch.mm(square, square, out=out)) for _ in range(2))
    thin = 2 * 128 * 512 * 2048 * 32 / min(clocked(lambda: [packed(rows) for _ in range(32)]) for _ in range(2))
    return max(plain, thin)


def operations(layer: nn.Module, rows: int) -> float:
    """Of the matrix products of a forward and backward pass over `rows` row-steps: three times 2 a weight and row."""
    return sum(6.0 * rows * weight.numel() for weight in layer.parameters() if weight.dim() == 2)


def busy() -> tuple[float, float]:
    """Seconds of CPU that all processes, and that this one, have used."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    numbers = [int(field) for field in fields]
    idle = numbers[3] + numbers[4]
    return (sum(numbers[:8]) - idle) / os.sysconf("SC_CLK_TCK"), time.process_time()


def measure(shape: tuple[int, int, int], layers: int, rounds: int, names: list[str], threads: list[int]) -> list[dict]:
    """A row for each variant, full and with lengths."""
    time_steps, batch, hidden = shape
    torch.manual_seed(1)
    values = torch.randn(batch, time_steps, hidden, requires_grad=True)
    unequal = torch.linspace(max(1, time_steps // 4), time_steps, batch).long()[torch.randperm(batch)]
    peers = {both: nn.LSTM(hidden, hidden, layers, batch_first=True, bidirectional=both) for both in (False, True)}
    rows = []
    for name in names:
        kind, options = variants()[name]
        if "proj_size" in options:
            options = {**options, "proj_size": hidden // 2}
        layer = kind(hidden, hidden, layers, batch_first=True, **options)
        peer = peers[layer.bidirectional]
        for lengths in (None, unequal):
            ours, theirs = training_step(layer, values, lengths), peer_step(peer, values, lengths)
            seconds: dict[str, dict[int, list[float]]] = {"ours": {}, "torch": {}}
            used_up: dict[str, dict[int, list[float]]] = {"ours": {}, "torch": {}}
            used = busy()
            for count in threads:
                torch.set_num_threads(count)
                ours()
                theirs()
                for _ in range(rounds):
                    for who, work in (("torch", theirs), ("ours", ours)):
                        start = time.process_time()
                        seconds[who].setdefault(count, []).append(clocked(work))
                        used_up[who].setdefault(count, []).append(time.process_time() - start)
            foreign = [after - before for before, after in zip(used, busy(), strict=True)]
            best = {who: min(statistics.median(times) for times in each.values()) for who, each in seconds.items()}
            alone = {who: statistics.median(each[threads[0]]) for who, each in used_up.items()}
            steps = batch * time_steps if lengths is None else int(lengths.sum())
            rows.append(
                {
                    "variant": name,
                    "rows": "full" if lengths is None else "lengths",
                    "milliseconds": round(best["ours"] * 1e3, 2),
                    "torch_milliseconds": round(best["torch"] * 1e3, 2),
                    "ratio": round(best["torch"] / best["ours"], 3),
                    "cpu_ratio": round(alone["torch"] / alone["ours"], 3),
                    "gigaflops": round(operations(layer, steps) / best["ours"] / 1e9, 1),
                    "foreign_share": round(1 - foreign[1] / foreign[0], 2) if foreign[0] else 0.0,
                    "seconds": seconds,
                    "cpu_seconds": used_up,
                }
            )
            print(json.dumps({key: value for key, value in rows[-1].items() if "seconds" not in key}), flush=True)
    return rows


def compare_paths(rounds: int) -> None:
    """Milliseconds of each path, forward + backward and forward alone, for one layer of many shapes."""
    path = ["loop"]
    stack.choose = lambda backends, call: next(each for each in backends if each.name == path[0])  # type: ignore[assignment,misc]
    for time_steps, batch, hidden in RULE_SHAPES:
        for name in ("lstm", "gru after", "rnn tanh", "lstm peephole diagonal"):
            kind, options = CELLS[name]
            layer = kind(hidden, hidden, batch_first=True, **options)
            values = torch.randn(batch, time_steps, hidden, requires_grad=True)
            unequal = torch.linspace(max(1, time_steps // 4), time_steps, batch).long()
            for lengths in (None, unequal):
                by_path: dict[str, list[list[float]]] = {name_of_path: [] for name_of_path in ("torch", "cpu", "loop")}
                for _ in range(rounds + 1):
                    for name_of_path, times in by_path.items():
                        if name_of_path == "torch" and layer.cells[0].kind.torch_name is None:
                            continue
                        path[0] = name_of_path
                        both = clocked(training_step(layer, values, lengths))
                        with torch.no_grad():
                            times.append([both, clocked(lambda: layer(values, lengths=lengths))])  # noqa: B023
                middle = {
                    name_of_path: [round(statistics.median(part[1:]) * 1e3, 1) for part in zip(*times, strict=True)]
                    for name_of_path, times in by_path.items()
                    if times
                }
                print((time_steps, batch, hidden), name, "full" if lengths is None else "lengths", middle, flush=True)


def write(folder: Path, rows: list[dict[str, Any]], rates: dict[int, float], settings: dict[str, Any]) -> None:
    """The record, to read and to read in."""
    best = max(rates.values())
    for row in rows:
        row["share_of_ceiling"] = round(row["gigaflops"] * 1e9 / best, 2)
    heads = ["variant", "rows", "milliseconds", "torch_milliseconds", "ratio", "cpu_ratio"]
    heads += ["share_of_ceiling", "foreign_share"]
    ceilings = {count: round(rate / 1e9, 1) for count, rate in rates.items()}
    record = {**machine(), "settings": settings, "ceiling_gigaflops": ceilings, "rows": rows}
    title = f"# Recurrent layers on a CPU against torch.nn.LSTM, {record['date']}"
    facts = f"Settings: {settings}; ceiling {ceilings} GFLOP/s by threads."
    page = f"{title}\n\n{__doc__}\n{facts}\n\n{rows_table(rows, heads)}\n\n{facts_of(record)}"
    records.write("cpu-recurrent", record, page, folder)


def main() -> None:
    """Measure and write down."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--shape", default="64,64,512", help="T,B,H")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--only", help="variants, separated by ';'")
    parser.add_argument("--rule", action="store_true", help="compare the paths and write nothing")
    parser.add_argument("--out", type=Path, default=RECORDS)
    given = parser.parse_args()
    if given.rule:
        compare_paths(given.rounds)
        return
    time_steps, batch, hidden = (int(size) for size in given.shape.split(","))
    threads = [int(count) for count in given.threads.split(",")]
    names = given.only.split(";") if given.only else list(variants())
    rates = {}
    for count in threads:
        torch.set_num_threads(count)
        rates[count] = max(ceiling() for _ in range(3))
    rows = measure((time_steps, batch, hidden), given.layers, given.rounds, names, threads)
    for count in threads:
        torch.set_num_threads(count)
        rates[count] = max(rates[count], ceiling())
    settings = {"T": time_steps, "B": batch, "H": hidden, "layers": given.layers, "rounds": given.rounds}
    write(given.out, rows, rates, settings)


if __name__ == "__main__":
    main()
