"""What all recurrent cells share: the weights, and one step as a function of them.

A cell computes one step from its input x (B, I) and its state (h, and c of an LSTM):

    step(x, state)                   W x + b, U h, the gates and the new state, in one function per cell
    step(wx, state, products)        the same in a loop that has W x + b of all steps already (`Cell.project_input`)

Weights have torch's names and shapes: `weight_ih` W (gates x H, I) and `weight_hh` U (gates x H, R), where R is the
width of h. Layer normalisation (Ba et al., 2016) normalises W x and U h, each gate separately; the cell's biases are
its shifts.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.kernels.recurrent.call import CellKind
from harken.kernels.recurrent.deferred import DeferredLinear, can_defer
from harken.nn.recurrent.options import Bias, at_least, one_of

State = tuple[Tensor, ...]  # (h,) or (h, c): h (B, R), c (B, H)


class Step(NamedTuple):
    """The result of one step: the new state, and the gates by name, each (B, H)."""

    state: State
    gates: dict[str, Tensor]


class GateNorm(nn.Module):
    """Layer normalisation of each gate separately: mean 0 and variance 1 over its units, then one gain per unit."""

    def __init__(self, gates: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.weight = nn.Parameter(torch.ones(gates * hidden_size))

    def forward(self, values: Tensor, rows: slice = slice(None)) -> Tensor:
        """(..., gates x H) -> the same shape; `rows` selects the gains where `values` has some of the gates."""
        by_gate = values.unflatten(-1, (-1, self.hidden_size))
        return F.layer_norm(by_gate, (self.hidden_size,)).flatten(-2) * self.weight[rows]


class Products:
    """Products with a cell's weights during one pass: `linear(x, W, b)` is W x + b, `linear(x, W, b, norm)` is
    norm(W x) + b.

    Args:
        cell: whose weights; `weights` is what its `step` unpacks.
        projected: the loop's inputs are W x + b already, so `linear(wx, W, b, norm)` returns them as they are.
        deferred: the weight gradients of all steps are computed at once (`harken.kernels.recurrent.deferred`).
    """

    def __init__(self, cell: Cell, projected: bool = False, deferred: bool = False) -> None:
        self.weights = cell.weights()
        self.projected = self.weights[0] if projected else None
        recurrent = self.weights[1:] if deferred and can_defer(cell.weight_hh) else ()
        matrices = [weight for weight in recurrent if weight is not None and weight.dim() == 2]
        self.deferred = {id(weight): DeferredLinear(weight) for weight in matrices}

    def __call__(
        self, values: Tensor, weight: Tensor, bias: Tensor | None = None, norm: GateNorm | None = None
    ) -> Tensor:
        """(..., I) -> (..., O)."""
        if weight is self.projected:
            return values
        deferred = self.deferred.get(id(weight))
        if deferred is not None:
            product = deferred(values)  # of U, which has no bias
        elif norm is None:
            return F.linear(values, weight, bias)
        else:
            product = F.linear(values, weight)
        if norm is not None:
            product = norm(product)
        return product if bias is None else product + bias


class Cell(nn.Module):
    """The weights of a cell; a subclass adds the equations in `step`."""

    bias_ih: nn.Parameter | None
    bias_hh: nn.Parameter | None

    def __init__(
        self, kind: CellKind, input_size: int, hidden_size: int, gates: int, output_size: int, bias: Bias
    ) -> None:
        super().__init__()
        at_least("input_size", input_size, 1)
        at_least("hidden_size", hidden_size, 1)
        one_of("bias", bias, (True, False, "two", "one", "none"))
        self.kind = kind
        self.input_size, self.hidden_size, self.gates, self.output_size = input_size, hidden_size, gates, output_size
        rows = gates * hidden_size
        self.weight_ih = nn.Parameter(torch.empty(rows, input_size))
        self.weight_hh = nn.Parameter(torch.empty(rows, output_size))
        self.bias_ih = nn.Parameter(torch.empty(rows)) if bias in (True, "two", "one") else None
        self.bias_hh = nn.Parameter(torch.empty(rows)) if bias in (True, "two") else None
        self.norm_ih = GateNorm(gates, hidden_size) if kind.layer_norm else None
        self.norm_hh = GateNorm(gates, hidden_size) if kind.layer_norm else None

    def draw(self) -> None:
        """Torch's initial weights: uniform within 1 / sqrt(H)."""
        for name, parameter in self.named_parameters():
            if "norm" not in name:
                nn.init.uniform_(parameter, -1 / math.sqrt(self.hidden_size), 1 / math.sqrt(self.hidden_size))

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The width of each part of the state."""
        return (self.output_size,)

    def constant(self) -> Tensor | None:
        """b (gates x H): torch's two biases act as their sum."""
        return self.bias_ih if self.bias_hh is None or self.bias_ih is None else self.bias_ih + self.bias_hh

    def weights(self) -> Any:
        """A named tuple of the weights as `step` uses them; W is the first."""
        raise NotImplementedError

    def project_input(self, x: Tensor) -> Tensor:
        """W x + b for any number of steps, W x normalised where the cell does so: (..., I) -> (..., gates x H)."""
        return Products(self)(x, self.weight_ih, self.constant(), self.norm_ih)

    def products(self, deferred: bool = False) -> Products:
        """For a loop whose inputs went through `project_input`."""
        return Products(self, projected=True, deferred=deferred)

    def tensors(self) -> dict[str, Tensor | None]:
        """The weights by the names that kernels use (`harken.kernels.recurrent.call.WEIGHTS`)."""
        named = {"weight_ih": self.weight_ih, "weight_hh": self.weight_hh, "bias": self.constant()}
        if self.norm_ih is not None and self.norm_hh is not None:
            named |= {"norm_input": self.norm_ih.weight, "norm_hidden": self.norm_hh.weight}
        return named

    def step(self, x: Tensor, state: State, products: Products | None = None, keep: Tensor | None = None) -> Step:
        """One step.

        Args:
            x: the input (B, I); with `products`, W x + b (B, gates x H).
            state: h (B, R), and c (B, H) of an LSTM.
            products: how to multiply by the weights in a loop.
            keep: the mask of recurrent dropout on h, (B, R).
        """
        raise NotImplementedError

    def start(self, x: Tensor) -> State:
        """The state before the first step, zeros, for inputs (B, I)."""
        return tuple(x.new_zeros(x.shape[0], size) for size in self.state_sizes)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"
