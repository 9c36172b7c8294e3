"""What every recurrent cell has: weights from the input, weights from the last state, and one step.

A cell's step is split in two, because only one half has to wait for the step before:

from_input(x)     W x + b             for all steps of a sequence in one product
step(...)         the rest            U h, the gates, the new state

`forward` is both together and is the definition; `harken.nn.recurrent.unroll` makes the first half for all steps at
once and hands the second products that gather the weight gradients of all steps.

Weights lie as in torch: `weight_ih` (gates x H, I), `weight_hh` (gates x H, R), where R is the width of h.
Layer normalisation: Ba et al. (2016), here each gate on its own, with the cell's biases in the place of its shifts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.kernels.recurrent.deferred import DeferredLinear, can_defer
from harken.nn.recurrent.options import Bias, at_least, one_of

State = tuple[Tensor, ...]  # (h,) or (h, C), each (B, H)
Products = dict[str, Callable[[Tensor], Tensor]]


@dataclass(frozen=True)
class Step:
    """What one step made: the new state, and the gates by the field's words, each (B, H)."""

    state: State
    gates: dict[str, Tensor]


class GateNorm(nn.Module):
    """Mean 0 and variance 1 over the units of each gate, then one gain a unit."""

    def __init__(self, gates: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.weight = nn.Parameter(torch.ones(gates * hidden_size))

    def forward(self, values: Tensor, rows: slice = slice(None)) -> Tensor:
        """(..., gates x H) -> the same shape; `rows` says which gates these are where not all."""
        apart = values.unflatten(-1, (-1, self.hidden_size))
        return F.layer_norm(apart, (self.hidden_size,)).flatten(-2) * self.weight[rows]


class Cell(nn.Module):
    """The weights; a subclass adds the equations in `step`."""

    bias_ih: nn.Parameter | None
    bias_hh: nn.Parameter | None

    def __init__(
        self, input_size: int, hidden_size: int, gates: int, output_size: int, bias: Bias, layer_norm: bool
    ) -> None:
        super().__init__()
        at_least("input_size", input_size, 1)
        at_least("hidden_size", hidden_size, 1)
        one_of("bias", bias, (True, False, "two", "one", "none"))
        self.input_size, self.hidden_size, self.gates, self.output_size = input_size, hidden_size, gates, output_size
        rows = gates * hidden_size
        self.weight_ih = nn.Parameter(torch.empty(rows, input_size))
        self.weight_hh = nn.Parameter(torch.empty(rows, output_size))
        first, second = bias in (True, "two", "one"), bias in (True, "two")
        self.bias_ih = nn.Parameter(torch.empty(rows)) if first else None
        self.bias_hh = nn.Parameter(torch.empty(rows)) if second else None
        self.norm_ih = GateNorm(gates, hidden_size) if layer_norm else None
        self.norm_hh = GateNorm(gates, hidden_size) if layer_norm else None

    def draw(self) -> None:
        """Torch's first weights: uniform within 1 / sqrt(H)."""
        for name, parameter in self.named_parameters():
            if "norm" not in name:
                nn.init.uniform_(parameter, -1 / math.sqrt(self.hidden_size), 1 / math.sqrt(self.hidden_size))

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The width of each part of the state."""
        return (self.output_size,)

    def constant(self) -> Tensor | None:
        """b, (gates x H): torch's two biases act as their sum."""
        return self.bias_ih if self.bias_hh is None or self.bias_ih is None else self.bias_ih + self.bias_hh

    def from_input(self, values: Tensor) -> Tensor:
        """W x + b: (..., I) -> (..., gates x H)."""
        constant = self.constant()
        if self.norm_ih is None:
            return F.linear(values, self.weight_ih, constant)
        normalised = self.norm_ih(F.linear(values, self.weight_ih))
        return normalised if constant is None else normalised + constant

    def from_hidden(self, hidden: Tensor, products: Products) -> Tensor:
        """U h: (B, R) -> (B, gates x H)."""
        product = products["hidden"](hidden)
        return product if self.norm_hh is None else self.norm_hh(product)

    def recurrent_weights(self) -> dict[str, Tensor]:
        """The matrices that every step multiplies with, by the names `step` knows them under."""
        return {"hidden": self.weight_hh}

    def products(self, deferred: bool = False) -> Products:
        """Products with those matrices; deferred, the weight gradients of all steps are made at once."""
        weights = self.recurrent_weights()
        if deferred and can_defer(self.weight_hh):
            return {name: DeferredLinear(weight) for name, weight in weights.items()}
        return {name: partial(F.linear, weight=weight) for name, weight in weights.items()}

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"

    def step(self, from_input: Tensor, state: State, products: Products, keep: Tensor | None = None) -> Step:
        """W x + b (B, gates x H) and the last state -> the new one; `keep` (B, R) is recurrent dropout's mask on h."""
        raise TypeError(f"{type(self).__name__} has no step: use RNNCell, LSTMCell or GRUCell")

    def advance(self, values: Tensor, state: State) -> State:
        """One step of the definition: x (B, I) and the last state -> the new one."""
        return self.step(self.from_input(values), state, self.products()).state
