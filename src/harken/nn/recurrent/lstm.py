"""The LSTM cell and its variants, written to be read.

i = sigmoid(W_i [h, x] + b_i)      what to write into the cell
f = sigmoid(W_f [h, x] + b_f)      what to keep of it
g = tanh(W_C [h, x] + b_C)         the candidate
C = f * C + i * g
o = sigmoid(W_o [h, x] + b_o)      what to show
h = o * tanh(C)

peephole    i and f also see the old C, o sees the new one: through one weight a unit ("diagonal") or a matrix
                 ("full"). Gers and Schmidhuber (2000).
coupled     i = 1 - f: something is forgotten only where something is written. Greff et al. (2017).
proj_size        h = W_r (o * tanh(C)), a narrower h. Sak et al. (2014).
layer_norm       W x and U h are normalised gate by gate, and C before its tanh. Ba et al. (2016).

Weights lie as in `torch.nn.LSTM`: gates i, f, g, o one below the other; coupled, there is no i. Peepholes: i, f, o.
Hochreiter and Schmidhuber (1997), forget gate: Gers et al. (2000).
Parameters with one bias, as E3 counts them: 4 (m n + n^2 + n).

>>> cell = LSTMCell(3, 5, bias="one")
>>> sum(p.numel() for p in cell.parameters()) == 4 * (3 * 5 + 5 * 5 + 5)
True
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harken.nn.recurrent.cell import Cell, Products, State, Step
from harken.nn.recurrent.options import Bias, one_of

LSTMState = tuple[Tensor, Tensor]  # h and C, each (B, H)


def lstm_gates(gates: Tensor, cell: Tensor) -> LSTMState:
    """The pointwise half of E2: pre-activations (B, 4H) in the order i, f, g, o and the last cell -> h, C."""
    write, forget, candidate, show = gates.chunk(4, -1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(write) * torch.tanh(candidate)
    return torch.sigmoid(show) * torch.tanh(cell), cell


class LSTMCell(Cell):
    """One step of an LSTM; `bias="two"` as torch has it, `"one"` as the equation has it."""

    weight_ch: nn.Parameter | None
    weight_hr: nn.Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: Bias = "two",
        peephole: str | None = None,
        coupled: bool = False,
        proj_size: int = 0,
        layer_norm: bool = False,
    ) -> None:
        one_of("peephole", peephole, (None, "diagonal", "full"))
        if not 0 <= proj_size < hidden_size:
            raise ValueError(
                f"proj_size is {proj_size}, but a projection makes h narrower: it has to be less than hidden_size "
                f"({hidden_size}), or 0 for none"
            )
        super().__init__(input_size, hidden_size, 3 if coupled else 4, proj_size or hidden_size, bias, layer_norm)
        self.peephole, self.coupled, self.proj_size = peephole, coupled, proj_size
        self.early = hidden_size * (1 if coupled else 2)  # rows of the gates that look at the old cell: (i,) f
        shape = {None: None, "diagonal": (self.early + hidden_size,), "full": (self.early + hidden_size, hidden_size)}
        seen = shape[peephole]
        self.weight_ch = nn.Parameter(torch.empty(seen)) if seen else None
        self.weight_hr = nn.Parameter(torch.empty(proj_size, hidden_size)) if proj_size else None
        self.norm_cell = nn.LayerNorm(hidden_size) if layer_norm else None
        self.draw()

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return self.output_size, self.hidden_size

    def recurrent_weights(self) -> dict[str, Tensor]:
        weights: dict[str, Tensor] = {"hidden": self.weight_hh}
        if self.weight_ch is not None and self.peephole == "full":
            weights["old cell"], weights["new cell"] = self.weight_ch.split([self.early, self.hidden_size])
        if self.weight_hr is not None:
            weights["projection"] = self.weight_hr
        return weights

    def peep(self, gates: Tensor, cell: Tensor, which: str, products: Products) -> Tensor:
        """E4: what the gates see of the `which` ("old cell", "new cell") cell is added to them."""
        if self.weight_ch is None:
            return gates
        if self.peephole == "full":
            return gates + products[which](cell)
        old, new = self.weight_ch.split([self.early, self.hidden_size])
        weight = old if which == "old cell" else new
        return gates + (weight.view(-1, self.hidden_size) * cell[:, None]).flatten(1)

    def step(self, from_input: Tensor, state: State, products: Products, keep: Tensor | None = None) -> Step:
        """E2, with E4 and E5 where they were asked for."""
        hidden, cell = state
        seen = hidden if keep is None else hidden * keep
        gates = from_input + self.from_hidden(seen, products)
        early, candidate, show = gates.split([self.early, self.hidden_size, self.hidden_size], -1)
        opened = torch.sigmoid(self.peep(early, cell, "old cell", products))
        if self.coupled:
            forget, write = opened, 1 - opened
        else:
            write, forget = opened.chunk(2, -1)
        candidate = torch.tanh(candidate)
        cell = forget * cell + write * candidate
        show = torch.sigmoid(self.peep(show, cell, "new cell", products))
        hidden = show * torch.tanh(cell if self.norm_cell is None else self.norm_cell(cell))
        if self.weight_hr is not None:
            hidden = products["projection"](hidden)
        return Step((hidden, cell), {"input": write, "forget": forget, "candidate": candidate, "output": show})

    def forward(self, values: Tensor, state: LSTMState) -> LSTMState:
        """x (B, I), (h, C) -> new (h, C)."""
        hidden, cell = self.advance(values, state)
        return hidden, cell
