"""The GRU on a CPU in both of its forms: its steps, and the pointwise part compiled by numba, forward and backward.

The reference is `harken.nn.recurrent.gru.GRUCell.step`; arrays are as in `lstm.py`. With the reset before the product a
step has two halves, because the candidate's product waits for the reset: the gates, then the candidate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.kernels.caching import cached_njit
from harken.kernels.numba_math import ONE, sigmoid, tanh
from harken.kernels.recurrent.cpu.direction import Pass, Task
from harken.kernels.recurrent.cpu.norm import StepNorm
from harken.kernels.recurrent.cpu.plan import Span
from harken.kernels.recurrent.cpu.products import Packed, column_sums


@cached_njit
def gru_after_forward(
    gates: Any,  # (N, 3H): W x + b, then r, z, n
    product: Any,  # (rows, 3H): U h
    bias: Any,  # (H,): c, which the reset acts on
    before: Any,  # (N, H): the old h
    past: Any,  # (N, H), out: U h + c of the candidate
    after: Any,  # (N, H), out: the new h
    start: int,
    rows: int,
) -> None:
    """The reset after the product, as torch has it."""
    width = before.shape[1]
    for row in range(rows):
        at = start + row
        summand, r_z, reset, update = product[row], gates[at, : 2 * width], gates[at, :width], gates[at, width:]
        candidate, added, past_candidate = gates[at, 2 * width :], product[row, 2 * width :], past[at]
        old, new = before[at], after[at]
        for unit in range(2 * width):
            r_z[unit] = sigmoid(r_z[unit] + summand[unit])
        for unit in range(width):
            past_candidate[unit] = added[unit] + bias[unit]
        for unit in range(width):
            candidate[unit] = tanh(candidate[unit] + reset[unit] * past_candidate[unit])
        for unit in range(width):
            new[unit] = candidate[unit] + update[unit] * (old[unit] - candidate[unit])


@cached_njit
def gru_after_backward(
    gates: Any,  # (N, 3H): r, z, n, then the gradients of what they see
    grad_hidden: Any,  # (rows, H): of the new h, then of the old, but for what goes through U h
    past: Any,  # (N, H)
    before: Any,  # (N, H): the old h
    grad_product: Any,  # (N, 3H), out: of U h (and, in its last third, of c)
    start: int,
    rows: int,
) -> None:
    """The gradient of `gru_after_forward`."""
    width = before.shape[1]
    inner = np.empty(width, gates.dtype)
    for row in range(rows):
        at = start + row
        reset, update, candidate = gates[at, :width], gates[at, width : 2 * width], gates[at, 2 * width :]
        through, through_candidate = grad_product[at], grad_product[at, 2 * width :]
        d_hidden, old, past_candidate = grad_hidden[row], before[at], past[at]
        for unit in range(width):
            value = candidate[unit]
            inner[unit] = d_hidden[unit] * (ONE - update[unit]) * (ONE - value * value)
        for unit in range(width):
            through_candidate[unit] = inner[unit] * reset[unit]
        for unit in range(width):
            reset[unit] = inner[unit] * past_candidate[unit] * reset[unit] * (ONE - reset[unit])
        for unit in range(width):
            d_old = d_hidden[unit] * update[unit]
            update[unit] = d_old * (old[unit] - candidate[unit]) * (ONE - update[unit])
            d_hidden[unit] = d_old
        for unit in range(width):
            candidate[unit] = inner[unit]
        for unit in range(2 * width):
            through[unit] = gates[at, unit]


@cached_njit
def gru_before_gates(
    gates: Any,  # (N, 3H): W x + b, then r, z
    product: Any,  # (rows, 2H): U h of r and z
    dropped_hidden: Any,  # (N, H): h as the products see it
    reset_hidden: Any,  # (N, H), out: r * h
    start: int,
    rows: int,
) -> None:
    """The reset before the product: r and z."""
    width = dropped_hidden.shape[1]
    for row in range(rows):
        at = start + row
        r_z, summand, past, out = gates[at, : 2 * width], product[row], dropped_hidden[at], reset_hidden[at]
        for unit in range(2 * width):
            r_z[unit] = sigmoid(r_z[unit] + summand[unit])
        for unit in range(width):
            out[unit] = r_z[unit] * past[unit]


@cached_njit
def gru_before_candidate(
    gates: Any,  # (N, 3H): n comes to r, z
    product: Any,  # (rows, H): U (r * h) of the candidate
    before: Any,  # (N, H): the old h
    after: Any,  # (N, H), out: the new h
    start: int,
    rows: int,
) -> None:
    """The candidate and the new h."""
    width = before.shape[1]
    for row in range(rows):
        at = start + row
        update, candidate, added = gates[at, width : 2 * width], gates[at, 2 * width :], product[row]
        old, new = before[at], after[at]
        for unit in range(width):
            candidate[unit] = tanh(candidate[unit] + added[unit])
        for unit in range(width):
            new[unit] = old[unit] + update[unit] * (candidate[unit] - old[unit])


@cached_njit
def gru_before_candidate_backward(
    gates: Any,  # (N, 3H): r, z, n, then of z and n the gradients
    grad_hidden: Any,  # (rows, H): of the new h, then of the old, but for what goes through products
    before: Any,  # (N, H): the old h
    inner: Any,  # (rows, H), out: the gradient of n once more
    start: int,
    rows: int,
) -> None:
    """The gradient of `gru_before_candidate`."""
    width = before.shape[1]
    for row in range(rows):
        at = start + row
        update, candidate, out = gates[at, width : 2 * width], gates[at, 2 * width :], inner[row]
        d_hidden, old = grad_hidden[row], before[at]
        for unit in range(width):
            value = candidate[unit]
            out[unit] = d_hidden[unit] * update[unit] * (ONE - value * value)
        for unit in range(width):
            d, z = d_hidden[unit], update[unit]
            update[unit] = d * (candidate[unit] - old[unit]) * z * (ONE - z)
            d_hidden[unit] = d * (ONE - z)
        for unit in range(width):
            candidate[unit] = out[unit]


@cached_njit
def gru_before_gates_backward(
    gates: Any,  # (N, 3H): r, then its gradient, beside those of z and n
    grad_reset_hidden: Any,  # (rows, H): of r * h, then of h as r let it through
    dropped_hidden: Any,  # (N, H)
    both: Any,  # (rows, 2H), out: the gradients of r and z once more
    start: int,
    rows: int,
) -> None:
    """The gradient of `gru_before_gates`."""
    width = dropped_hidden.shape[1]
    for row in range(rows):
        at = start + row
        reset, d_hidden, past, out = gates[at, :width], grad_reset_hidden[row], dropped_hidden[at], both[row]
        for unit in range(width):
            through = d_hidden[unit] * reset[unit]
            reset[unit] = through * past[unit] * (ONE - reset[unit])
            d_hidden[unit] = through
        for unit in range(2 * width):
            out[unit] = gates[at, unit]


class GRUAfterPass(Pass):
    """The reset after the product, as torch has it."""

    def prepare(self) -> None:
        super().prepare()
        hidden = self.hidden
        self.past = self.buffer(self.gate_width).numpy()
        bias = self.tensors.get("inner_bias")
        self.bias = (hidden.before.new_zeros(self.gate_width) if bias is None else bias).numpy()
        self.before_array, self.after_array = hidden.before.numpy(), hidden.after.numpy()

    def step(self, span: Span) -> None:
        states = self.before_array, self.past, self.after_array
        gru_after_forward(self.gates_array, self.product(span).numpy(), self.bias, *states, span.start, span.rows)

    def prepare_backward(self) -> None:
        super().prepare_backward()
        self.grad_normed = self.buffer(self.grad_gates.shape[1])
        self.grad_normed_array = self.grad_normed.numpy()
        if self.norm is None:
            self.grad_products = self.grad_normed

    def step_back(self, span: Span, grad_hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        states = self.past, self.before_array, self.grad_normed_array
        gru_after_backward(self.grad_gates_array, grad_hidden.numpy(), *states, span.start, span.rows)
        return self.recurrent_back(self.through_norm(span, self.grad_normed[span.packed])), grad_hidden

    def weight_tasks(self, needed: set[str]) -> list[Task]:
        tasks = super().weight_tasks(needed)
        if "inner_bias" in needed:
            grad_gates = self.grad_normed[:, 2 * self.gate_width :]
            tasks.append(lambda: self.gradients.update(inner_bias=column_sums(grad_gates)))
        return tasks


class GRUBeforePass(Pass):
    """The reset before the product, as Cho et al. (2014) have it."""

    def prepare(self) -> None:
        width, weight = self.gate_width, self.tensors["weight_hh"]
        self.split = [2 * width, width]
        self.to_gates, self.to_candidate = (Packed(part) for part in weight.split(self.split))
        gain = self.tensors.get("norm_hidden")
        self.norm = None
        self.norms = None
        if gain is not None:
            gates, candidate = gain.split(self.split)
            self.norms = StepNorm(gates, None, 2, self.buffer), StepNorm(candidate, None, 1, self.buffer)
        self.prepare_input_norm(3)
        self.reset_hidden = self.buffer(width)
        self.reset_hidden_array, self.dropped_hidden_array = self.reset_hidden.numpy(), self.dropped_hidden.numpy()
        self.before_array, self.after_array = self.hidden.before.numpy(), self.hidden.after.numpy()

    def step(self, span: Span) -> None:
        at = span.start, span.rows
        product = self.to_gates(self.dropped_hidden[span.packed])
        if self.norms is not None:
            self.norms[0].forward(product, product, *at)
        gru_before_gates(self.gates_array, product.numpy(), self.dropped_hidden_array, self.reset_hidden_array, *at)
        product = self.to_candidate(self.reset_hidden[span.packed])
        if self.norms is not None:
            self.norms[1].forward(product, product, *at)
        gru_before_candidate(self.gates_array, product.numpy(), self.before_array, self.after_array, *at)

    def prepare_backward(self) -> None:
        gates, candidate = self.tensors["weight_hh"].split(self.split)
        self.from_gates, self.from_candidate = Packed(gates.t()), Packed(candidate.t())
        if self.norms is not None:
            self.grad_products = self.buffer(self.grad_gates.shape[1])

    def step_back(self, span: Span, grad_hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        at = span.start, span.rows
        inner, both = torch.empty_like(grad_hidden), grad_hidden.new_empty(span.rows, 2 * self.gate_width)
        gru_before_candidate_backward(self.grad_gates_array, grad_hidden.numpy(), self.before_array, inner.numpy(), *at)
        if self.norms is not None:
            self.norms[1].backward(inner, span)
        through = self.from_candidate(inner)
        gru_before_gates_backward(self.grad_gates_array, through.numpy(), self.dropped_hidden_array, both.numpy(), *at)
        if self.norms is not None:
            self.norms[0].backward(both, span)
            torch.cat((both, inner), 1, out=self.grad_products[span.packed])
        return self.from_gates(both).add_(through), grad_hidden

    def weight_tasks(self, needed: set[str]) -> list[Task]:
        if "weight_hh" not in needed:
            return []
        gradient = torch.empty_like(self.tensors["weight_hh"])
        self.gradients["weight_hh"] = gradient
        gates, candidate = gradient.split(self.split)
        of_gates, of_candidate = self.grad_products.split(self.split, 1)
        return [
            lambda: torch.mm(of_gates.t(), self.dropped_hidden, out=gates),
            lambda: torch.mm(of_candidate.t(), self.reset_hidden, out=candidate),
        ]

    def gradient_tasks(self, needed: set[str], parts: int) -> list[Task]:
        if self.norms is not None:
            self.gradients["norm_hidden"] = torch.cat([norm.gradients()[0] for norm in self.norms])
        return super().gradient_tasks(needed, parts)
