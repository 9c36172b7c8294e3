"""The vanilla (Elman) RNN cell, written to be read.

h = tanh(W x + U h + b)      or relu, or sigmoid, in the place of tanh

Weights lie as in `torch.nn.RNN`. Elman (1990).

>>> cell = RNNCell(1, 1)
>>> for parameter in cell.parameters():
...     _ = torch.nn.init.constant_(parameter, 0.5)
>>> round(cell(torch.ones(1, 1), torch.ones(1, 1)).item(), 4)  # tanh(0.5 + 0.5 + 0.5 + 0.5)
0.964
"""

from __future__ import annotations

import torch
from torch import Tensor

from harken.nn.recurrent.cell import Cell, Products, State, Step
from harken.nn.recurrent.options import Bias, one_of

NONLINEARITIES = {"tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid}


class RNNCell(Cell):
    """One step of a vanilla RNN."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: Bias = "two",
        nonlinearity: str = "tanh",
        layer_norm: bool = False,
    ) -> None:
        one_of("nonlinearity", nonlinearity, tuple(NONLINEARITIES))
        super().__init__(input_size, hidden_size, 1, hidden_size, bias, layer_norm)
        self.nonlinearity = nonlinearity
        self.draw()

    def step(self, from_input: Tensor, state: State, products: Products, keep: Tensor | None = None) -> Step:
        """E1."""
        (hidden,) = state
        seen = hidden if keep is None else hidden * keep
        hidden = NONLINEARITIES[self.nonlinearity](from_input + self.from_hidden(seen, products))
        return Step((hidden,), {})

    def forward(self, values: Tensor, hidden: Tensor) -> Tensor:
        """x (B, I), h (B, H) -> new h."""
        return self.advance(values, (hidden,))[0]
