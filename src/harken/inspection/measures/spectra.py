"""The largest singular value of every matrix that a cell multiplies its state with at each step.

>>> from harken.nn import LSTMCell
>>> list(recurrent_norms(LSTMCell(3, 5)))
['all gates', 'input', 'forget', 'candidate', 'output']
"""

from __future__ import annotations

import torch
from torch import Tensor

from harken.nn.recurrent.cell import Cell
from harken.nn.recurrent.gru import GRUCell
from harken.nn.recurrent.lstm import LSTMCell


def gate_names(cell: Cell) -> tuple[str, ...]:
    """The gates in the order in which their weights lie one below the other."""
    if isinstance(cell, LSTMCell):
        return ("forget", "candidate", "output") if cell.coupled else ("input", "forget", "candidate", "output")
    if isinstance(cell, GRUCell):
        return ("reset", "update", "candidate")
    return ("hidden",) if cell.gates == 1 else tuple(f"gate {number + 1}" for number in range(cell.gates))


def recurrent_norms(cell: Cell) -> dict[str, float]:
    """Largest singular values: of U as a whole, and gate by gate; of full peepholes and of a projection too."""
    weights: dict[str, Tensor] = {}
    names = gate_names(cell)
    if len(names) > 1:
        weights["all gates"] = cell.weight_hh
    weights |= dict(zip(names, cell.weight_hh.split(cell.hidden_size), strict=True))
    if isinstance(cell, LSTMCell):
        named = cell.weights()
        others = {"old cell": named.P_if, "new cell": named.P_o, "projection": named.R}
        weights |= {name: weight for name, weight in others.items() if weight is not None and weight.dim() == 2}
    return {name: _largest(weight) for name, weight in weights.items()}


def _largest(weight: Tensor) -> float:
    with torch.no_grad():
        return float(torch.linalg.matrix_norm(weight.double(), 2))
