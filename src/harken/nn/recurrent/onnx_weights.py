"""The weights of our cells as ONNX's operators RNN, LSTM and GRU want them: the same numbers in another order.

LSTM    gates i, o, f, c and peepholes i, o, f; ours i, f, g, o and i, f, o. Coupled there is no i of ours, but
        1 - sigmoid(a) = sigmoid(-a): i is f with its sign changed.
GRU     gates z, r, h; ours r, z, n. ONNX's z is how much of the past stays. With reset="before" ours is how much
        is new, so its sign changes.

Operators: https://onnx.ai/onnx/operators.

>>> from harken.nn import GRUCell, LSTMCell
>>> gate_order(LSTMCell(3, 5, coupled=True))  # (our block of H rows, its sign) for ONNX's i, o, f, c
[(0, -1), (2, 1), (0, 1), (1, 1)]
>>> gate_order(GRUCell(3, 5, reset="before"))  # for ONNX's z, r, h
[(1, -1), (0, 1), (2, 1)]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from harken.nn.recurrent.cell import Cell
from harken.nn.recurrent.gru import GRUCell
from harken.nn.recurrent.lstm import LSTMCell
from harken.nn.recurrent.rnn import RNNCell

Order = list[tuple[int, int]]


def gate_order(cell: Cell) -> Order:
    """For each of ONNX's gates, which block of H rows of our weights it is, and with which sign."""
    if isinstance(cell, LSTMCell):
        return [(0, -1), (2, 1), (0, 1), (1, 1)] if cell.coupled else [(0, 1), (3, 1), (1, 1), (2, 1)]
    if isinstance(cell, GRUCell):
        return [(1, -1 if cell.reset == "before" else 1), (0, 1), (2, 1)]
    return [(0, 1)]


def peephole_order(cell: LSTMCell) -> Order:
    """The same for ONNX's peepholes i, o, f."""
    return [(0, -1), (1, 1), (0, 1)] if cell.coupled else [(0, 1), (2, 1), (1, 1)]


def lacking(cell: Cell) -> list[str]:
    """The options of a cell that ONNX's operator does not have."""
    found = ["layer_norm=True"] if cell.norm_ih is not None else []
    if isinstance(cell, LSTMCell):
        found += ["peephole='full'"] if cell.peephole == "full" else []
        found += [f"proj_size={cell.proj_size}"] if cell.proj_size else []
    return found


def operator_weights(cells: Sequence[Cell]) -> dict[str, Tensor]:
    """W, R, B and P of one layer, directions first, by the operator's names; B and P where there are any."""
    return {
        name: torch.stack([made[name] for made in map(_weights, cells)])
        for name in _weights(cells[0])  # directions have the same options
    }


def operator_attributes(cells: Sequence[Cell]) -> dict[str, Any]:
    """What else the operator has to know of one layer."""
    cell = cells[0]
    known: dict[str, Any] = {"hidden_size": cell.hidden_size}
    known["direction"] = "bidirectional" if len(cells) > 1 else "forward"
    if isinstance(cell, GRUCell):
        known["linear_before_reset"] = int(cell.reset == "after")
    if isinstance(cell, RNNCell):
        known["activations"] = [cell.nonlinearity.capitalize()] * len(cells)
    return known


def _weights(cell: Cell) -> dict[str, Tensor]:
    order, size = gate_order(cell), cell.hidden_size
    weights = {"W": _arranged(cell.weight_ih, size, order), "R": _arranged(cell.weight_hh, size, order)}
    if cell.bias_ih is not None:
        second = torch.zeros_like(cell.bias_ih) if cell.bias_hh is None else cell.bias_hh
        weights["B"] = torch.cat([_arranged(bias, size, order) for bias in (cell.bias_ih, second)])
    if isinstance(cell, LSTMCell) and cell.weight_ch is not None:
        weights["P"] = _arranged(cell.weight_ch, size, peephole_order(cell))
    return weights


def _arranged(weight: Tensor, size: int, order: Order) -> Tensor:
    """Blocks of H rows in another order, in float32: (gates x H, ...) -> (ONNX's gates x H, ...)."""
    blocks = weight.detach().float().split(size)
    return torch.cat([sign * blocks[block] for block, sign in order])
