"""A model in a few numbers: its parts, its recurrent layers, and the largest singular value of what they multiply with.

>>> import harken.nn
>>> model = nn.Sequential(nn.Embedding(9, 3), harken.nn.GRU(3, 4, batch_first=True))
>>> summary = summarise(model)
>>> summary.parts, summary.total, [cell.name for cell in summary.cells]
({'0': 27, '1': 108}, 135, ['1.cells.0'])
>>> list(recurrent_norms(LSTMCell(3, 5)))
['all gates', 'input', 'forget', 'candidate', 'output']
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from harken.nn.recurrent.cell import Cell
from harken.nn.recurrent.gru import GRUCell
from harken.nn.recurrent.lstm import LSTMCell


@dataclass(frozen=True)
class CellSummary:
    """One recurrent cell."""

    name: str  # its path in the model
    cell: str  # LSTM, GRU or RNN
    input_size: int
    hidden_size: int
    parameters: int
    weights: dict[str, float]  # largest singular values: the recurrent weights as a whole, and gate by gate

    @property
    def largest(self) -> float:
        """The largest singular value of the recurrent weights as a whole."""
        return next(iter(self.weights.values()))


@dataclass(frozen=True)
class Summary:
    """The summary that `harken inspect MODEL` shows."""

    parts: dict[str, int]  # parameters by part; shared ones are counted where they come first
    cells: list[CellSummary]

    @property
    def total(self) -> int:
        """All parameters."""
        return sum(self.parts.values())

    def to_dict(self) -> dict[str, Any]:
        """The summary as JSON can hold it."""
        return {"parameters": self.total, "parts": self.parts, "recurrent": [asdict(cell) for cell in self.cells]}


def summarise(model: nn.Module) -> Summary:
    """Count a model's parameters and measure its recurrent weights."""
    parts: dict[str, int] = {}
    for name, parameter in model.named_parameters():  # names each shared one once
        part = name.split(".")[0]
        parts[part] = parts.get(part, 0) + parameter.numel()
    cells = [
        CellSummary(
            name,
            type(cell).__name__.removesuffix("Cell"),
            cell.input_size,
            cell.hidden_size,
            sum(parameter.numel() for _, parameter in cell.named_weights()),
            recurrent_norms(cell),
        )
        for name, cell in model.named_modules()
        if isinstance(cell, Cell)
    ]
    return Summary(parts, cells)


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
