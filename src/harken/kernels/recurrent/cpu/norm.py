"""Layer normalisation inside a step on a CPU, forward and backward.

n = (v - mean(v)) / sqrt(var(v) + epsilon), result gain * n (+ shift), each gate separately. The references are
`harken.nn.recurrent.cell.GateNorm` and, of the cell state, `torch.nn.LayerNorm`; arrays are as in `lstm.py`. Sums may
be taken in any order here: a compiler then takes sixteen at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from harken.kernels.caching import cached_njit
from harken.kernels.linking import linked_njit
from harken.kernels.numba_math import FLAGS
from harken.kernels.recurrent.cpu.plan import Span

REORDERED: Any = {**FLAGS, "fastmath": {"contract", "reassoc", "nsz"}}


@linked_njit(**REORDERED)
def _mean(values: Any) -> Any:
    total = values.dtype.type(0)
    for unit in range(len(values)):
        total += values[unit]
    return values.dtype.type(total / len(values))


@linked_njit(**REORDERED)
def _mean_product(values: Any, others: Any) -> Any:
    total = values.dtype.type(0)
    for unit in range(len(values)):
        total += values[unit] * others[unit]
    return values.dtype.type(total / len(values))


@cached_njit
def norm_forward(
    values: Any,  # (rows, gates x H)
    gain: Any,  # (gates x H,)
    shift: Any,  # (gates x H,), or empty
    result: Any,  # (rows, gates x H), out; may be `values`
    normal: Any,  # (N, gates x H), out: n
    scale: Any,  # (N, gates), out: 1 / sqrt(var + epsilon)
    start: int,
    rows: int,
    epsilon: float,
) -> None:
    """One step's rows."""
    gates = scale.shape[1]
    width = values.shape[1] // gates
    for row in range(rows):
        for gate in range(gates):
            low, high = gate * width, (gate + 1) * width
            source, normal_row = values[row, low:high], normal[start + row, low:high]
            mean = _mean(source)
            for unit in range(width):
                normal_row[unit] = source[unit] - mean
            scale[start + row, gate] = 1 / math.sqrt(_mean_product(normal_row, normal_row) + epsilon)
            factor = scale[start + row, gate]
            weight, result_row = gain[low:high], result[row, low:high]
            for unit in range(width):
                normal_row[unit] *= factor
            for unit in range(width):
                result_row[unit] = normal_row[unit] * weight[unit]
            if len(shift) > 0:
                more = shift[low:high]
                for unit in range(width):
                    result_row[unit] += more[unit]


@cached_njit
def norm_backward(
    gradient: Any,  # (rows, gates x H): of the result, then of the values
    gain: Any,  # (gates x H,)
    normal: Any,  # (N, gates x H)
    scale: Any,  # (N, gates)
    grad_gain: Any,  # (gates x H,), added to
    grad_shift: Any,  # (gates x H,), added to, or empty
    start: int,
    rows: int,
) -> None:
    """The gradient of `norm_forward`."""
    gates = scale.shape[1]
    width = gradient.shape[1] // gates
    for row in range(rows):
        for gate in range(gates):
            low, high = gate * width, (gate + 1) * width
            d_values, normal_row = gradient[row, low:high], normal[start + row, low:high]
            weight, total = gain[low:high], grad_gain[low:high]
            if len(grad_shift) > 0:
                moved = grad_shift[low:high]
                for unit in range(width):
                    moved[unit] += d_values[unit]
            for unit in range(width):
                total[unit] += d_values[unit] * normal_row[unit]
            for unit in range(width):
                d_values[unit] *= weight[unit]
            mean, along, factor = _mean(d_values), _mean_product(d_values, normal_row), scale[start + row, gate]
            for unit in range(width):
                d_values[unit] = (d_values[unit] - mean - normal_row[unit] * along) * factor


class StepNorm:
    """One norm over all steps of a pass: what its backward needs (`allocate(W)` is (N, W)), and its gradients."""

    def __init__(self, gain: Tensor, shift: Tensor | None, gates: int, allocate: Callable[[int], Tensor]) -> None:
        self.gain, self.shift = gain.numpy(), gain.new_empty(0).numpy() if shift is None else shift.numpy()
        self.normal, self.scale = allocate(len(gain)).numpy(), allocate(gates).numpy()
        self.sums: dict[int, tuple[Tensor, Tensor]] = {}  # first lane -> gradients of gain and shift

    def forward(self, values: Tensor, result: Tensor, start: int, rows: int, epsilon: float = 1e-5) -> None:
        """`values` (rows, gates x H), those from row `start` on of the packed sequence, normalised into `result`."""
        norms = self.normal, self.scale
        norm_forward(values.numpy(), self.gain, self.shift, result.numpy(), *norms, start, rows, epsilon)

    def backward(self, gradient: Tensor, span: Span) -> None:
        """Change `gradient` in place from that of the result to that of the values."""
        lane = span.lanes.start
        if lane not in self.sums:
            self.sums[lane] = gradient.new_zeros(len(self.gain)), gradient.new_zeros(len(self.shift))
        gain, shift = self.sums[lane]
        norms = self.gain, self.normal, self.scale
        norm_backward(gradient.numpy(), *norms, gain.numpy(), shift.numpy(), span.start, span.rows)

    def gradients(self) -> tuple[Tensor, Tensor]:
        """The gradients of gain and shift of one backward pass; the threads' shares are added in the order of their
        lanes."""
        shares = [self.sums[lane] for lane in sorted(self.sums)]
        self.sums = {}
        gain, shift = zip(*shares, strict=True)
        return torch.stack(gain).sum(0), torch.stack(shift).sum(0)
