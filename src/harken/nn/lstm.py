"""The LSTM cell (E2), written to be read.

f = sigmoid(W_f [h, x] + b_f)      what to keep of the cell
i = sigmoid(W_i [h, x] + b_i)      what to write into it
g = tanh(W_C [h, x] + b_C)         the candidate
C = f * C + i * g
o = sigmoid(W_o [h, x] + b_o)      what to show
h = o * tanh(C)

Weights lie as in `torch.nn.LSTM`: gates i, f, g, o one below the other. Hochreiter and Schmidhuber (1997),
forget gate: Gers et al. (2000). Parameters with one bias, as E3 counts them: 4 (m n + n^2 + n).

>>> cell = LSTMCell(3, 5, bias="one")
>>> sum(p.numel() for p in cell.parameters()) == 4 * (3 * 5 + 5 * 5 + 5)
True
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LSTMState = tuple[Tensor, Tensor]  # h and C, each (B, H)


def lstm_gates(gates: Tensor, cell: Tensor) -> LSTMState:
    """The pointwise half of E2: pre-activations (B, 4H) in the order i, f, g, o and the last cell -> h, C."""
    write, forget, candidate, show = gates.chunk(4, -1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(write) * torch.tanh(candidate)
    return torch.sigmoid(show) * torch.tanh(cell), cell


class LSTMCell(nn.Module):
    """One step of an LSTM; `bias="two"` as torch has it, `"one"` as the equation has it."""

    def __init__(self, input_size: int, hidden_size: int, bias: str = "two") -> None:
        super().__init__()
        self.weight_ih = nn.Parameter(torch.empty(4 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.empty(4 * hidden_size, hidden_size))
        self.bias_ih = nn.Parameter(torch.empty(4 * hidden_size))
        self.bias_hh = nn.Parameter(torch.empty(4 * hidden_size)) if bias == "two" else None
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -1 / math.sqrt(hidden_size), 1 / math.sqrt(hidden_size))

    def forward(self, values: Tensor, state: LSTMState) -> LSTMState:
        """x (B, I), (h, C) each (B, H) -> new (h, C)."""
        hidden, cell = state
        gates = F.linear(values, self.weight_ih, self.bias_ih) + F.linear(hidden, self.weight_hh, self.bias_hh)
        return lstm_gates(gates, cell)
