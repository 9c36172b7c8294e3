"""The vanilla RNN on a CPU: its steps, and the pointwise part compiled by numba, forward and backward.

The reference is `harken.nn.recurrent.rnn.RNNCell.step`; arrays are as in `lstm.py`.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from harken.kernels.caching import cached_njit
from harken.kernels.numba_math import ONE, sigmoid, tanh
from harken.kernels.recurrent.cpu.direction import Pass
from harken.kernels.recurrent.cpu.plan import Span

KINDS = {"tanh": 0, "relu": 1, "sigmoid": 2}


@cached_njit
def rnn_forward(gates: Any, product: Any, after: Any, start: int, rows: int, kind: int) -> None:
    """`gates` (N, H) from W x + b to the new h, which also goes to `after` (N, H); `product` (rows, H) is U h."""
    for row in range(rows):
        value, summand, new = gates[start + row], product[row], after[start + row]
        if kind == 0:
            for unit in range(len(value)):
                value[unit] = tanh(value[unit] + summand[unit])
        elif kind == 1:
            for unit in range(len(value)):
                a = value[unit] + summand[unit]
                value[unit] = a * 0 if a < 0 else a
        else:
            for unit in range(len(value)):
                value[unit] = sigmoid(value[unit] + summand[unit])
        for unit in range(len(value)):
            new[unit] = value[unit]


@cached_njit
def rnn_backward(gates: Any, grad_hidden: Any, start: int, rows: int, kind: int) -> None:
    """`gates` (N, H) from the new h to the gradient of what it sees; `grad_hidden` (rows, H) is that of h."""
    for row in range(rows):
        value, d_hidden = gates[start + row], grad_hidden[row]
        if kind == 0:
            for unit in range(len(value)):
                value[unit] = d_hidden[unit] * (ONE - value[unit] * value[unit])
        elif kind == 1:
            for unit in range(len(value)):
                value[unit] = d_hidden[unit] if value[unit] > 0 else d_hidden[unit] * 0
        else:
            for unit in range(len(value)):
                value[unit] = d_hidden[unit] * value[unit] * (ONE - value[unit])


class RNNPass(Pass):
    """h = tanh(W x + U h + b)."""

    def prepare(self) -> None:
        super().prepare()
        self.after_array, self.kind = self.hidden.after.numpy(), KINDS[self.setting.kind.nonlinearity]

    def step(self, span: Span) -> None:
        product = self.product(span).numpy()
        rnn_forward(self.gates_array, product, self.after_array, span.start, span.rows, self.kind)

    def step_back(self, span: Span, grad_hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        rnn_backward(self.grad_gates_array, grad_hidden.numpy(), span.start, span.rows, self.kind)
        return self.recurrent_back(self.through_norm(span, self.grad_gates[span.packed])), None
