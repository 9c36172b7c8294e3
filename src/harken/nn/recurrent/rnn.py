"""The vanilla (Elman) RNN cell.

h = tanh(W x + U h + b)      or relu, or sigmoid, instead of tanh

Weights have the layout of `torch.nn.RNN`. Elman (1990).

>>> cell = RNNCell(1, 1)
>>> for parameter in cell.parameters():
...     _ = torch.nn.init.constant_(parameter, 0.5)
>>> round(cell(torch.ones(1, 1), torch.ones(1, 1)).item(), 4)  # tanh(0.5 + 0.5 + 0.5 + 0.5)
0.964
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from harken.kernels.recurrent.call import CellKind
from harken.nn.recurrent.cell import Cell, Products, State, Step
from harken.nn.recurrent.options import Bias, one_of

NONLINEARITIES = {"tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid}


class RNNWeights(NamedTuple):
    """The weights of one step."""

    W: Tensor  # (H, I)
    U: Tensor  # (H, H)
    b: Tensor | None  # (H,)


class RNNCell(Cell, has_kernels=True):
    """One step of a vanilla RNN, with the arguments, weights and results of `torch.nn.RNNCell`; also "sigmoid".

    >>> RNNCell(3, 5, nonlinearity="relu")(torch.randn(2, 3)).shape
    torch.Size([2, 5])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: Bias = True,
        nonlinearity: str = "tanh",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        layer_norm: bool = False,
    ) -> None:
        one_of("nonlinearity", nonlinearity, tuple(NONLINEARITIES))
        kind = CellKind("rnn", layer_norm, nonlinearity=nonlinearity)
        super().__init__(kind, input_size, hidden_size, 1, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity
        self.draw()

    def weights(self) -> RNNWeights:
        return RNNWeights(self.weight_ih, self.weight_hh, self.summed_bias())

    def step(self, x: Tensor, state: State, products: Products | None = None, keep: Tensor | None = None) -> Step:
        """h = tanh(W x + U h + b)."""
        linear = products or Products(self)
        W, U, b = linear.weights
        (h,) = state
        if keep is not None:  # recurrent dropout
            h = h * keep
        a = linear(x, W, b, self.norm_ih) + linear(h, U, None, self.norm_hh)  # W x + b + U h, (B, H)
        h = NONLINEARITIES[self.nonlinearity](a)
        return Step((h,), {})

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """x (B, I), h (B, H) -> the new h."""
        return self._in_torch_shapes(input, None if hx is None else (hx,))[0]
