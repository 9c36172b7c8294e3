"""The GRU cell (E6) in torch's form, written to be read.

r = sigmoid(W_r x + U_r h)             how much of the past the candidate sees
z = sigmoid(W_z x + U_z h)             how much of the past stays
n = tanh(W x + b + r * (U h + c))      the candidate; the reset comes after the product
h = (1 - z) * n + z * h

Cho et al. (2014) have the reset before the product and the roles of z and 1 - z swapped; cuDNN and torch use this
form because all products of a step can then be made at once.

>>> cell = GRUCell(3, 5)
>>> cell(torch.zeros(2, 3), torch.zeros(2, 5)).shape
torch.Size([2, 5])
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def gru_gates(from_input: Tensor, from_hidden: Tensor, hidden: Tensor) -> Tensor:
    """The pointwise half: (B, 3H) from x and from h in the order r, z, n, and the last h -> h."""
    reset_input, keep_input, candidate_input = from_input.chunk(3, -1)
    reset_hidden, keep_hidden, candidate_hidden = from_hidden.chunk(3, -1)
    reset = torch.sigmoid(reset_input + reset_hidden)
    keep = torch.sigmoid(keep_input + keep_hidden)
    candidate = torch.tanh(candidate_input + reset * candidate_hidden)
    return candidate + keep * (hidden - candidate)


class GRUCell(nn.Module):
    """One step of a GRU."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.weight_ih = nn.Parameter(torch.empty(3 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.empty(3 * hidden_size, hidden_size))
        self.bias_ih = nn.Parameter(torch.empty(3 * hidden_size))
        self.bias_hh = nn.Parameter(torch.empty(3 * hidden_size))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -1 / math.sqrt(hidden_size), 1 / math.sqrt(hidden_size))

    def forward(self, values: Tensor, hidden: Tensor) -> Tensor:
        """x (B, I), h (B, H) -> new h."""
        from_input = F.linear(values, self.weight_ih, self.bias_ih)
        from_hidden = F.linear(hidden, self.weight_hh, self.bias_hh)
        return gru_gates(from_input, from_hidden, hidden)
