"""Run the recurrent GPU kernels in Triton's interpreter, on a CPU, and print how far they are from the reference.

Started by test_gpu_interpreter.py with TRITON_INTERPRET=1, which has to be set before a kernel is imported. Programs
run one after the other there, so each has all the units and waits for nobody.
"""

import json
import sys
from typing import Any

import torch
from torch import Tensor

from harken.kernels.recurrent.triton import backend
from harken.kernels.recurrent.triton import launch as gpu_recurrent_launch
from harken.kernels.recurrent.triton.norm import moments
from harken.kernels.recurrent.triton.plan import Plan
from harken.kernels.triton_import import tl, triton
from harken.nn import GRU, LSTM, RNN
from harken.nn.recurrent import stack

CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "lstm": (LSTM, {}),
    "lstm one way": (LSTM, {"bidirectional": False, "bias": "one"}),
    "lstm apart": (LSTM, {}),
    "gru before apart": (GRU, {"reset": "before"}),
    "lstm two layers": (LSTM, {"num_layers": 2, "connections": "residual"}),
    "peephole": (LSTM, {"peephole": "diagonal"}),
    "coupled": (LSTM, {"coupled": True}),
    "coupled peephole": (LSTM, {"coupled": True, "peephole": "diagonal", "bias": False}),
    "gru": (GRU, {}),
    "gru before": (GRU, {"reset": "before"}),
    "gru before at once": (GRU, {"reset": "before"}),
    "tanh": (RNN, {}),
    "relu": (RNN, {"nonlinearity": "relu"}),
    "sigmoid": (RNN, {"nonlinearity": "sigmoid"}),
    "lstm zoneout": (LSTM, {"zoneout": 0.3}),
    "gru zoneout": (GRU, {"zoneout": 0.3}),
    "lstm recurrent dropout": (LSTM, {"recurrent_dropout": 0.4}),
    "lstm norm": (LSTM, {"layer_norm": True}),
    "lstm norm apart": (LSTM, {"layer_norm": True, "bias": False, "recurrent_dropout": 0.4}),
    "peephole norm zoneout": (LSTM, {"layer_norm": True, "peephole": "diagonal", "zoneout": 0.3}),
    "coupled norm": (LSTM, {"layer_norm": True, "coupled": True, "peephole": "diagonal", "bidirectional": False}),
    "gru norm": (GRU, {"layer_norm": True}),
    "gru before norm zoneout": (GRU, {"layer_norm": True, "reset": "before", "recurrent_dropout": 0.4, "zoneout": 0.2}),
    "tanh norm": (RNN, {"layer_norm": True, "bias": "one", "bidirectional": False}),
    "gru before recurrent dropout": (GRU, {"reset": "before", "recurrent_dropout": 0.4, "zoneout": 0.2}),
}


def flat(result: Any) -> list[Tensor]:
    output, state = result
    return [output, *([state] if isinstance(state, Tensor) else state)]


def furthest(name: str, training: bool) -> dict[str, float]:
    """The largest difference to the reference, of outputs and of gradients."""
    kind, options = CASES[name]
    backend.max_rows = lambda *arguments: 0 if "apart" in name else 1000  # type: ignore[assignment]
    group = 2 if "at once" in name else 1  # of two chunks: whether a product finds all of its rows in one reading
    gpu_recurrent_launch.FORCED["forward"] = Plan(units=8, rows=4, parts=2, columns=2, chunks=2, group=group)
    torch.manual_seed(3)
    layer = kind(3, 5, batch_first=True, **{"bidirectional": True, **options}).train(training)
    values = torch.randn(4, 3, 3, requires_grad=True)
    lengths = torch.tensor([2, 3, 0, 1])
    count = layer.num_layers * layer.directions
    parts = tuple(torch.randn(count, 4, 5, requires_grad=True) for _ in range(2 if kind is LSTM else 1))
    state: Any = parts if kind is LSTM else parts[0]
    inputs = [*layer.parameters(), values, *parts]
    torch.manual_seed(4)
    right = flat(layer.reference(values, state, lengths))
    weights = [torch.randn_like(part) for part in right]
    gradients = torch.autograd.grad(right, inputs, weights)
    torch.manual_seed(4)  # the same masks
    found = flat(layer(values, state, lengths))
    mine = torch.autograd.grad(found, inputs, weights)
    return {
        "output": max((a - b).abs().max().item() for a, b in zip(found, right, strict=True)),
        "gradient": max((a - b).abs().max().item() for a, b in zip(mine, gradients, strict=True)),
    }


def nan_stays_in_its_row() -> dict[str, float]:
    """A NaN that was computed ends the wait as a number does: 1 where its row has it and the others have none."""
    torch.manual_seed(3)
    layer, values = LSTM(3, 5, batch_first=True), torch.randn(3, 4, 3)
    values[1, 2, 0] = float("nan")
    values.requires_grad_()
    output = layer(values)[0]
    (gradient,) = torch.autograd.grad(output.sum(), [values])
    wrong = output.isnan()
    clean = bool(wrong[1, 2:].all()) and not bool(wrong[1, :2].any() or wrong[[0, 2]].any())
    return {"clean": float(clean and not bool(gradient[[0, 2]].isnan().any()))}


@triton.jit
def read_board(board, mean, scale, B, H: tl.constexpr, R: tl.constexpr, NORM: tl.constexpr, PLAN: tl.constexpr):
    row, gate = tl.arange(0, PLAN[1]), tl.arange(0, R)
    found, factor, _ = moments(board, row, row < B, 10, H, R, NORM, PLAN)
    place = row[:, None] * R + gate[None, :]
    tl.store(mean + place, found, mask=(row < B)[:, None])
    tl.store(scale + place, factor, mask=(row < B)[:, None])


def board_of_many_programs() -> dict[str, float]:
    """Statistics of rows whose 21 units six programs share, read two programs at a time; the mean is far from 0."""
    torch.manual_seed(3)
    values = (torch.randn(3, 21, 2) + 1000).double()
    parts = values.split(4, 1)
    numbers = [torch.stack((part.sum(1), (part - part.mean(1, keepdim=True)).square().sum(1)), -1) for part in parts]
    board = torch.stack(numbers, 1).float()  # (rows, programs, gates, 2)
    mean, scale = torch.empty(3, 2), torch.empty(3, 2)
    read_board[(1,)](board, mean, scale, 3, H=21, R=2, NORM=(8, 4, 2, 2, 2), PLAN=(4, 4))
    right = 1 / (values.var(1, correction=0) + 1e-5).sqrt()
    return {
        "mean": (mean - values.mean(1)).abs().max().item() / 1000,
        "scale": ((scale - right) / right).abs().max().item(),
    }


def main() -> None:
    stack.choose = lambda backends, call: backend.TRITON  # type: ignore[assignment,misc]
    gpu_recurrent_launch.FORCED["backward"] = Plan(units=8, rows=2, parts=2, columns=2, chunks=2, group=3)
    made: dict[str, dict[str, float]] = {name: furthest(name, training=True) for name in CASES}
    made |= {f"{name}, trained": furthest(name, training=False) for name in CASES if "zoneout" in name}
    made["board"] = board_of_many_programs()
    made["nan"] = nan_stays_in_its_row()
    json.dump(made, sys.stdout)


if __name__ == "__main__":
    main()
