"""The LSTM cell and its variants; the equations are in `LSTMCell.step`.

i = sigmoid(W_i x + U_i h + b_i)      input gate
f = sigmoid(W_f x + U_f h + b_f)      forget gate
g = tanh(W_g x + U_g h + b_g)         candidate
c = f * c + i * g
o = sigmoid(W_o x + U_o h + b_o)      output gate
h = o * tanh(c)

peephole      i and f also see the old c, and o the new one: through one weight per unit ("diagonal") or a matrix
              ("full"). Gers and Schmidhuber (2000).
coupled       i = 1 - f: something is forgotten only where something is written. Greff et al. (2017).
proj_size     h = R (o * tanh(c)), a narrower h. Sak et al. (2014).
layer_norm    W x and U h are normalised gate by gate, and c before its tanh. Ba et al. (2016).

Weights have the layout of `torch.nn.LSTM`: the rows of i, f, g, o in this order; a coupled cell has no i. Peepholes:
i, f, o. Hochreiter and Schmidhuber (1997), forget gate: Gers et al. (2000). With one bias a cell of m inputs and n
units has 4 (m n + n^2 + n) parameters.

>>> cell = LSTMCell(3, 5, bias="one")
>>> sum(p.numel() for p in cell.parameters()) == 4 * (3 * 5 + 5 * 5 + 5)
True
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from harken.kernels.recurrent.call import CellKind
from harken.nn.recurrent.cell import Cell, Products, State, Step
from harken.nn.recurrent.options import Bias, one_of

LSTMState = tuple[Tensor, Tensor]  # h and c, each (B, H)


class LSTMWeights(NamedTuple):
    """The weights of one step; those that a variant lacks are None."""

    W: Tensor  # (4H, I), rows of i, f, g, o; coupled: (3H, I), rows of f, g, o
    U: Tensor  # (4H, R)
    b: Tensor | None  # (4H,)
    P_if: Tensor | None  # peepholes of i and f: (2H,), or (2H, H) where they are full; coupled: of f alone
    P_o: Tensor | None  # and of o
    R: Tensor | None  # projection (R, H)


class LSTMCell(Cell, has_kernels=True):
    """One step of an LSTM, with the arguments, weights and results of `torch.nn.LSTMCell`, and its variants.

    `bias` is True as torch has it, "one" as the equation has it, or False. x (B, I) or (I,), h and c (B, H) or (H,).

    >>> cell = LSTMCell(3, 5)
    >>> cell.load_state_dict(torch.nn.LSTMCell(3, 5).state_dict())
    <All keys matched successfully>
    >>> h, c = cell(torch.randn(2, 3))
    >>> h.shape, c.shape
    (torch.Size([2, 5]), torch.Size([2, 5]))
    """

    weight_ch: nn.Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: Bias = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
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
        kind = CellKind("lstm", layer_norm, peephole=peephole, coupled=coupled)
        gates = 3 if coupled else 4
        super().__init__(kind, input_size, hidden_size, gates, proj_size or hidden_size, bias, device, dtype)
        self.peephole, self.coupled, self.proj_size = peephole, coupled, proj_size
        self.early = hidden_size * (1 if coupled else 2)  # rows of i and f, the gates that see the old c
        late = self.early + hidden_size
        self.add_weight("weight_ch", *({"diagonal": [late], "full": [late, hidden_size]}.get(str(peephole), [])))
        self.add_weight("weight_hr", *([proj_size, hidden_size] if proj_size else []))
        self.norm_cell = nn.LayerNorm(hidden_size, **self.factory) if layer_norm else None
        self.draw()

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return self.output_size, self.hidden_size

    def weights(self) -> LSTMWeights:
        P_if, P_o = None, None
        if self.weight_ch is not None:
            P_if, P_o = self.weight_ch.split([self.early, self.hidden_size])
        return LSTMWeights(self.weight_ih, self.weight_hh, self.summed_bias(), P_if, P_o, self.weight_hr)

    def tensors(self) -> dict[str, Tensor | None]:
        named = super().tensors()
        named["weight_ch"] = None if self.peephole is None else self.weight_ch
        if self.norm_cell is not None:
            named |= {"norm_cell": self.norm_cell.weight, "norm_cell_shift": self.norm_cell.bias}
        return named

    def step(self, x: Tensor, state: State, products: Products | None = None, keep: Tensor | None = None) -> Step:
        """x (B, I) and the last (h, c) -> the new (h, c) and the gates; the arguments are those of `Cell.step`."""
        linear = products or Products(self)
        W, U, b, *_ = linear.weights
        h, c = state
        if keep is not None:  # recurrent dropout
            h = h * keep
        return self.apply_gates(linear(x, W, b, self.norm_ih) + linear(h, U, None, self.norm_hh), c, linear)

    def apply_gates(self, a: Tensor, c: Tensor, linear: Products) -> Step:
        """W x + b + U h (B, 4H) and the old c -> the new (h, c) and the gates."""
        P_if, P_o, R = linear.weights[3:]
        i_f, g, o = a.split([self.early, self.hidden_size, self.hidden_size], -1)

        if P_if is not None:  # i and f see the old c
            i_f = i_f + self._peephole(linear, P_if, c)
        i_f = torch.sigmoid(i_f)
        i, f = (1 - i_f, i_f) if self.coupled else i_f.chunk(2, -1)
        g = torch.tanh(g)
        c = f * c + i * g
        if P_o is not None:  # o sees the new c
            o = o + self._peephole(linear, P_o, c)
        o = torch.sigmoid(o)
        h = o * torch.tanh(c if self.norm_cell is None else self.norm_cell(c))
        if R is not None:
            h = linear(h, R)
        return Step((h, c), {"input": i, "forget": f, "candidate": g, "output": o})

    def _peephole(self, linear: Products, P: Tensor, c: Tensor) -> Tensor:
        """P c: a matrix, or one weight per unit of each gate."""
        if self.peephole == "full":
            return linear(c, P)
        return (P.view(-1, self.hidden_size) * c[:, None]).flatten(1)

    def forward(self, input: Tensor, hx: LSTMState | None = None) -> LSTMState:
        """x (B, I), (h, c) -> the new (h, c)."""
        h, c = self._in_torch_shapes(input, hx)
        return h, c
