"""The GRU cell in both of its forms, written to be read.

reset="after", as torch and cuDNN have it       reset="before", as E6 and Cho et al. (2014) have it
r = sigmoid(W_r x + U_r h)                      r = sigmoid(W_r x + U_r h)
z = sigmoid(W_z x + U_z h)                      z = sigmoid(W_z x + U_z h)
n = tanh(W x + b + r * (U h + c))               n = tanh(W x + U (r * h))
h = (1 - z) * n + z * h                         h = (1 - z) * h + z * n

r says how much of the past the candidate n sees. Mind z: after, it is how much of the past stays; before, how much is
new. Each form keeps its own convention, in its weights and in what a trace shows as `update`. With the reset after the
product all products of a step can be made at once. Weights lie as in `torch.nn.GRU`: r, z, n one below the other.

>>> cell = GRUCell(3, 5, reset="before")
>>> cell(torch.zeros(2, 3), torch.zeros(2, 5)).shape
torch.Size([2, 5])
"""

from __future__ import annotations

import torch
from torch import Tensor

from harken.nn.recurrent.cell import Cell, Products, State, Step
from harken.nn.recurrent.options import Bias, one_of


class GRUCell(Cell):
    """One step of a GRU."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: Bias = "two",
        reset: str = "after",
        layer_norm: bool = False,
    ) -> None:
        one_of("reset", reset, ("after", "before"))
        super().__init__(input_size, hidden_size, 3, hidden_size, bias, layer_norm)
        self.reset = reset
        self.draw()

    def constant(self) -> Tensor | None:
        """The reset, where it comes after the product, also acts on the candidate's second bias: it stays behind."""
        if self.reset == "before" or self.bias_ih is None or self.bias_hh is None:
            return super().constant()
        gates = self.bias_hh[: 2 * self.hidden_size]
        return self.bias_ih + torch.cat((gates, gates.new_zeros(self.hidden_size)))

    def recurrent_weights(self) -> dict[str, Tensor]:
        if self.reset == "after":
            return {"hidden": self.weight_hh}
        gates, candidate = self.weight_hh.split([2 * self.hidden_size, self.hidden_size])
        return {"gates": gates, "candidate": candidate}

    def step(self, from_input: Tensor, state: State, products: Products, keep: Tensor | None = None) -> Step:
        """E6 in the form asked for."""
        (hidden,) = state
        seen = hidden if keep is None else hidden * keep
        if self.reset == "after":
            return self._reset_after(from_input, hidden, self.from_hidden(seen, products))
        return self._reset_before(from_input, hidden, seen, products)

    def _reset_after(self, from_input: Tensor, hidden: Tensor, from_hidden: Tensor) -> Step:
        reset_input, update_input, candidate_input = from_input.chunk(3, -1)
        reset_hidden, update_hidden, candidate_hidden = from_hidden.chunk(3, -1)
        reset, update = torch.sigmoid(reset_input + reset_hidden), torch.sigmoid(update_input + update_hidden)
        if self.bias_hh is not None:
            candidate_hidden = candidate_hidden + self.bias_hh[2 * self.hidden_size :]
        candidate = torch.tanh(candidate_input + reset * candidate_hidden)
        hidden = candidate + update * (hidden - candidate)  # (1 - z) n + z h
        return Step((hidden,), {"reset": reset, "update": update, "candidate": candidate})

    def _reset_before(self, from_input: Tensor, hidden: Tensor, seen: Tensor, products: Products) -> Step:
        gates_input, candidate_input = from_input.split([2 * self.hidden_size, self.hidden_size], -1)
        gates_hidden = self._normalised(products["gates"](seen), slice(None, 2 * self.hidden_size))
        reset, update = torch.sigmoid(gates_input + gates_hidden).chunk(2, -1)
        candidate_hidden = products["candidate"](reset * seen)
        candidate_hidden = self._normalised(candidate_hidden, slice(2 * self.hidden_size, None))
        candidate = torch.tanh(candidate_input + candidate_hidden)
        hidden = hidden + update * (candidate - hidden)  # (1 - z) h + z n
        return Step((hidden,), {"reset": reset, "update": update, "candidate": candidate})

    def _normalised(self, product: Tensor, rows: slice) -> Tensor:
        return product if self.norm_hh is None else self.norm_hh(product, rows)

    def forward(self, values: Tensor, hidden: Tensor) -> Tensor:
        """x (B, I), h (B, H) -> new h."""
        return self.advance(values, (hidden,))[0]
