"""The GRU cell in both of its forms; the equations are in `GRUCell.step`.

reset="after", as torch and cuDNN have it       reset="before", as Cho et al. (2014) have it
r = sigmoid(W_r x + U_r h + b_r)                r = sigmoid(W_r x + U_r h + b_r)
z = sigmoid(W_z x + U_z h + b_z)                z = sigmoid(W_z x + U_z h + b_z)
n = tanh(W_n x + b_n + r * (U_n h + c_n))       n = tanh(W_n x + U_n (r * h) + b_n)
h = (1 - z) * n + z * h                         h = (1 - z) * h + z * n

r is the reset gate: how much of the past the candidate n sees. z is the update gate, with opposite meanings: "after",
it is how much of the past stays; "before", how much is new. Each form keeps its own convention, in its weights and in
what a trace shows as `update`. With the reset after the product, all products of a step can be computed at once.
Weights have the layout of `torch.nn.GRU`: the rows of r, z, n in this order.

>>> cell = GRUCell(3, 5, reset="before")
>>> cell(torch.zeros(2, 3), torch.zeros(2, 5)).shape
torch.Size([2, 5])
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from harken.kernels.recurrent.call import CellKind, inner_bias, summed_bias
from harken.nn.recurrent.cell import Cell, Products, State, Step
from harken.nn.recurrent.options import Bias, one_of


class GRUWeights(NamedTuple):
    """The weights of one step: "after" has U and c, "before" has U_rz and U_n, which it multiplies by separately."""

    W: Tensor  # (3H, I), rows of r, z, n
    U: Tensor | None  # (3H, H)
    U_rz: Tensor | None  # (2H, H)
    U_n: Tensor | None  # (H, H)
    b: Tensor | None  # (3H,)
    c: Tensor | None  # (H,), the bias inside the reset


class GRUCell(Cell, has_kernels=True):
    """One step of a GRU, with the arguments, weights and results of `torch.nn.GRUCell`; `reset` as above.

    >>> GRUCell(3, 5)(torch.randn(2, 3)).shape
    torch.Size([2, 5])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: Bias = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        reset: str = "after",
        layer_norm: bool = False,
    ) -> None:
        one_of("reset", reset, ("after", "before"))
        kind = CellKind("gru", layer_norm, reset=reset)
        super().__init__(kind, input_size, hidden_size, 3, hidden_size, bias, device, dtype)
        self.reset = reset
        self.draw()

    def summed_bias(self) -> Tensor | None:
        """b (3H,); without the candidate's second bias where the reset acts on it."""
        return summed_bias(self.kind, self.bias_ih, self.bias_hh)

    def weights(self) -> GRUWeights:
        if self.reset == "after":
            c = inner_bias(self.kind, self.bias_hh)
            return GRUWeights(self.weight_ih, self.weight_hh, None, None, self.summed_bias(), c)
        U_rz, U_n = self.weight_hh.split([2 * self.hidden_size, self.hidden_size])
        return GRUWeights(self.weight_ih, None, U_rz, U_n, self.summed_bias(), None)

    def step(self, x: Tensor, state: State, products: Products | None = None, keep: Tensor | None = None) -> Step:
        """x (B, I) and the last h -> the new h and the gates; the arguments are those of `Cell.step`."""
        linear = products or Products(self)
        W, U, U_rz, U_n, b, c = linear.weights
        (h,) = state
        h_dropped = h if keep is None else h * keep  # recurrent dropout
        a = linear(x, W, b, self.norm_ih)  # W x + b, (B, 3H)
        a_rz, a_n = a.split([2 * self.hidden_size, self.hidden_size], -1)

        if self.reset == "after":
            u = linear(h_dropped, U, None, self.norm_hh)  # U h, (B, 3H)
            u_rz, u_n = u.split([2 * self.hidden_size, self.hidden_size], -1)
            r, z = torch.sigmoid(a_rz + u_rz).chunk(2, -1)
            n = torch.tanh(a_n + r * (u_n if c is None else u_n + c))
            h = n + z * (h - n)  # (1 - z) n + z h
        else:
            r, z = torch.sigmoid(a_rz + self._normed(linear(h_dropped, U_rz), slice(None, U_rz.shape[0]))).chunk(2, -1)
            n = torch.tanh(a_n + self._normed(linear(r * h_dropped, U_n), slice(U_rz.shape[0], None)))
            h = h + z * (n - h)  # (1 - z) h + z n
        return Step((h,), {"reset": r, "update": z, "candidate": n})

    def _normed(self, product: Tensor, rows: slice) -> Tensor:
        return product if self.norm_hh is None else self.norm_hh(product, rows)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """x (B, I), h (B, H) -> the new h."""
        return self._in_torch_shapes(input, None if hx is None else (hx,))[0]
