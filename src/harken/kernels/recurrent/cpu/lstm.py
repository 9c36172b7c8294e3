"""The LSTM on a CPU: its steps, and the pointwise part compiled by numba, forward and backward.

The reference is `harken.nn.recurrent.lstm.LSTMCell.step`. A plain, coupled or diagonally peeped step is one product and
one pass over the gates. With full peepholes or layer norm the pass has two halves, up to the new cell and from it on,
with the products and norms in between.

Arrays are C-contiguous. Those of N rows hold all steps of a packed sequence and are used from row `start` on; those of
one step have `rows` rows. Gates are changed in place: from pre-activation to value, and in the backward pass to the
gradient of the pre-activation. Each loop names few arrays, because a compiler vectorises only where it can check that
none of them overlap.
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
from harken.kernels.recurrent.cpu.plan import Span, Timeline
from harken.kernels.recurrent.cpu.products import Packed

WHOLE, TO_CELL, TO_HIDDEN = 0, 1, 2  # which half of a step: up to the new cell, from it on, or both


@cached_njit
def lstm_forward(
    gates: Any,  # (N, gates x H): W x + b, then the gates
    product: Any,  # (rows, gates x H): U h
    before: Any,  # (N, H): the old cell
    after: Any,  # (N, H), out: the new cell
    tanh_input: Any,  # (N, H): the new cell as tanh sees it; no rows: as it is
    hidden: Any,  # (N, H), out: o * tanh(tanh_input)
    peephole: Any,  # (gates - 1, H): weights of (i,) f, o; no rows: no diagonal peepholes
    start: int,
    rows: int,
    coupled: bool,
    half: int,
) -> None:
    """The gates with diagonal peepholes and coupling."""
    width = before.shape[1]
    early = width if coupled else 2 * width
    top = early + width
    for row in range(rows):
        at = start + row
        old, new, summand = before[at], after[at], product[row]
        if half != TO_HIDDEN:
            i_f = gates[at, :early]
            for gate in range(len(peephole) - 1):
                a, weight = gates[at, gate * width : (gate + 1) * width], peephole[gate]
                for unit in range(width):
                    a[unit] += weight[unit] * old[unit]
            for unit in range(early):
                i_f[unit] = sigmoid(i_f[unit] + summand[unit])
            candidate, added = gates[at, early:top], summand[early:top]
            for unit in range(width):
                candidate[unit] = tanh(candidate[unit] + added[unit])
            if coupled:
                for unit in range(width):
                    new[unit] = candidate[unit] + i_f[unit] * (old[unit] - candidate[unit])
            else:
                forget = gates[at, width:early]
                for unit in range(width):
                    new[unit] = forget[unit] * old[unit] + i_f[unit] * candidate[unit]
        if half != TO_CELL:
            output, added, out = gates[at, top:], summand[top:], hidden[at]
            if len(peephole) > 0:
                weight = peephole[-1]
                for unit in range(width):
                    output[unit] += weight[unit] * new[unit]
            for unit in range(width):
                output[unit] = sigmoid(output[unit] + added[unit])
            inner = tanh_input[at] if len(tanh_input) > 0 else new
            for unit in range(width):
                out[unit] = output[unit] * tanh(inner[unit])


@cached_njit
def lstm_backward(
    gates: Any,  # (N, gates x H): the gates, then their gradients
    grad_hidden: Any,  # (rows, H): of o * tanh(tanh_input)
    before: Any,  # (N, H): the old cell
    grad_cell: Any,  # (rows, H): of the new cell, then of the old
    tanh_input: Any,  # (N, H), or no rows
    grad_tanh_input: Any,  # (rows, H), out where `half` is TO_HIDDEN: not yet in `grad_cell`
    peephole: Any,  # (gates - 1, H), or no rows
    grad_peephole: Any,  # as `peephole`, added to
    start: int,
    rows: int,
    coupled: bool,
    half: int,
) -> None:
    """The gradient of `lstm_forward`: TO_HIDDEN comes before TO_CELL."""
    width = before.shape[1]
    early = width if coupled else 2 * width
    top = early + width
    scratch, tanh_cell = np.empty(width, gates.dtype), np.empty(width, gates.dtype)
    for row in range(rows):
        at = start + row
        old, d_cell = before[at], grad_cell[row]
        first, forget, candidate = gates[at, :width], gates[at, early - width : early], gates[at, early:top]
        if half != TO_CELL:
            output, d_hidden = gates[at, top:], grad_hidden[row]
            if coupled:
                for unit in range(width):
                    scratch[unit] = candidate[unit] + first[unit] * (old[unit] - candidate[unit])
            else:
                for unit in range(width):
                    scratch[unit] = forget[unit] * old[unit] + first[unit] * candidate[unit]
            inner = tanh_input[at] if len(tanh_input) > 0 else scratch
            for unit in range(width):
                tanh_cell[unit] = tanh(inner[unit])
            if half == TO_HIDDEN:
                apart = grad_tanh_input[row]
                for unit in range(width):
                    apart[unit] = d_hidden[unit] * output[unit] * (ONE - tanh_cell[unit] * tanh_cell[unit])
            else:
                for unit in range(width):
                    d_cell[unit] += d_hidden[unit] * output[unit] * (ONE - tanh_cell[unit] * tanh_cell[unit])
            for unit in range(width):
                output[unit] = d_hidden[unit] * tanh_cell[unit] * output[unit] * (ONE - output[unit])
            if len(peephole) > 0:
                weight, total = peephole[-1], grad_peephole[-1]
                for unit in range(width):
                    d_cell[unit] += output[unit] * weight[unit]
                for unit in range(width):
                    total[unit] += output[unit] * scratch[unit]
        if half != TO_HIDDEN:
            if coupled:
                for unit in range(width):
                    scratch[unit] = d_cell[unit] * first[unit]
                    tanh_cell[unit] = (old[unit] - candidate[unit]) * first[unit]
                for unit in range(width):
                    value = candidate[unit]
                    candidate[unit] = (d_cell[unit] - scratch[unit]) * (ONE - value * value)
                for unit in range(width):
                    first[unit] = d_cell[unit] * tanh_cell[unit] * (ONE - first[unit])
            else:
                for unit in range(width):
                    i, value, d = first[unit], candidate[unit], d_cell[unit]
                    first[unit] = d * value * i * (ONE - i)
                    candidate[unit] = d * i * (ONE - value * value)
                for unit in range(width):
                    d_old = d_cell[unit] * forget[unit]
                    scratch[unit] = d_old
                    forget[unit] = d_old * old[unit] * (ONE - forget[unit])
            for unit in range(width):
                d_cell[unit] = scratch[unit]
            for gate in range(len(peephole) - 1):
                a = gates[at, gate * width : (gate + 1) * width]
                weight, total = peephole[gate], grad_peephole[gate]
                for unit in range(width):
                    d_cell[unit] += a[unit] * weight[unit]
                for unit in range(width):
                    total[unit] += a[unit] * old[unit]


class LSTMPass(Pass):
    """With peepholes, coupling, projection and layer norm."""

    @property
    def gate_width(self) -> int:
        return self.tensors["cell"].shape[1]

    def prepare(self) -> None:
        super().prepare()
        tensors, setting = self.tensors, self.setting
        width = self.gate_width
        self.early = width if setting.kind.coupled else 2 * width
        self.top = self.early + width
        self.cell = Timeline(tensors["cell"], self.plan, setting.reverse, lambda rows, wide: self.buffer(wide, rows))
        self.timelines = [self.hidden, self.cell]
        self.before_array, self.after_array = self.cell.before.numpy(), self.cell.after.numpy()
        self.nothing = self.cell.before[:0].numpy()  # for an argument that is not in use
        peeps, self.full = tensors.get("weight_ch"), setting.kind.peephole == "full"
        self.peephole = self.nothing if peeps is None or self.full else peeps.view(-1, width).numpy()
        if peeps is not None and self.full:
            self.to_old, self.to_new = (Packed(part) for part in peeps.split([self.early, width]))
        gain = tensors.get("norm_cell")
        self.norm_cell = None if gain is None else StepNorm(gain, tensors["norm_cell_shift"], 1, self.buffer)
        self.tanh_input = None if gain is None else self.buffer(width)
        self.tanh_input_array = self.nothing if self.tanh_input is None else self.tanh_input.numpy()
        self.in_halves = self.full or self.norm_cell is not None
        projection = tensors.get("weight_hr")
        self.projection = None if projection is None else Packed(projection)
        self.wide = self.hidden.after if projection is None else self.buffer(width)  # o * tanh(C)
        self.wide_array = self.wide.numpy()

    def step(self, span: Span) -> None:
        product = self.product(span)
        if self.full:
            product[:, : self.early] += self.to_old(self.cell.before[span.packed])
        if self.in_halves:
            self._gates(span, product, TO_CELL)
            if self.full:
                product[:, self.top :] += self.to_new(self.cell.after[span.packed])
            if self.norm_cell is not None and self.tanh_input is not None:
                after, tanh_input = self.cell.after[span.packed], self.tanh_input[span.packed]
                self.norm_cell.forward(after, tanh_input, span.start, span.rows)
        self._gates(span, product, TO_HIDDEN if self.in_halves else WHOLE)
        if self.projection is not None:
            self.hidden.after[span.packed].copy_(self.projection(self.wide[span.packed]))

    def _gates(self, span: Span, product: Tensor, half: int) -> None:
        cells = self.before_array, self.after_array, self.tanh_input_array, self.wide_array, self.peephole
        options = span.start, span.rows, self.setting.kind.coupled, half
        lstm_forward(self.gates_array, product.numpy(), *cells, *options)

    def prepare_backward(self) -> None:
        super().prepare_backward()
        tensors, width = self.tensors, self.gate_width
        self.grad_peepholes: dict[int, Tensor] = {}
        if self.full:
            old, new = tensors["weight_ch"].split([self.early, width])
            self.from_old, self.from_new = Packed(old.t()), Packed(new.t())
            forget, candidate = self.gates[:, self.early - width : self.early], self.gates[:, self.early : self.top]
            write = 1 - forget if self.setting.kind.coupled else self.gates[:, :width]
            self.made_cells = torch.addcmul(forget * self.cell.before, write, candidate)  # before any zoneout
        if self.projection is not None:
            self.unprojected = Packed(tensors["weight_hr"].t())
            self.grad_projected = self.buffer(self.hidden.before.shape[1])

    def step_back(self, span: Span, grad_hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        if self.projection is not None:
            self.grad_projected[span.packed].copy_(grad_hidden)
            grad_hidden = self.unprojected(grad_hidden)
        grad_cell, grad_gates = self.grad_states[1][span.lanes], self.grad_gates[span.packed]
        if self.in_halves:
            apart = torch.empty_like(grad_hidden)
            self._gates_back(span, grad_hidden, grad_cell, apart, TO_HIDDEN)
            if self.norm_cell is not None:
                self.norm_cell.backward(apart, span)
            grad_cell.add_(apart)
            if self.full:
                grad_cell.add_(self.from_new(grad_gates[:, self.top :].contiguous()))
        self._gates_back(span, grad_hidden, grad_cell, grad_hidden, TO_CELL if self.in_halves else WHOLE)
        if self.full:
            grad_cell.add_(self.from_old(grad_gates[:, : self.early].contiguous()))
        return self.recurrent_back(self.through_norm(span, grad_gates)), None

    def _gates_back(self, span: Span, grad_hidden: Tensor, grad_cell: Tensor, apart: Tensor, half: int) -> None:
        lane = span.lanes.start
        if lane not in self.grad_peepholes:
            self.grad_peepholes[lane] = grad_hidden.new_zeros(self.peephole.shape)
        cells = self.before_array, grad_cell.numpy(), self.tanh_input_array, apart.numpy()
        peepholes = self.peephole, self.grad_peepholes[lane].numpy()
        options = span.start, span.rows, self.setting.kind.coupled, half
        lstm_backward(self.grad_gates_array, grad_hidden.numpy(), *cells, *peepholes, *options)

    @property
    def needs_grad_gates(self) -> bool:
        return self.full

    def weight_tasks(self, needed: set[str]) -> list[Task]:
        tasks, gradients = super().weight_tasks(needed), self.gradients
        if "weight_ch" in needed and self.full:
            gradient = torch.empty_like(self.tensors["weight_ch"])
            gradients["weight_ch"] = gradient
            old, new = gradient[: self.early], gradient[self.early :]
            tasks.append(lambda: torch.mm(self.grad_gates[:, : self.early].t(), self.cell.before, out=old))
            tasks.append(lambda: torch.mm(self.grad_gates[:, self.top :].t(), self.made_cells, out=new))
        elif "weight_ch" in needed:
            shares = [self.grad_peepholes[lane] for lane in sorted(self.grad_peepholes)]
            gradients["weight_ch"] = torch.stack(shares).sum(0).flatten()
        if "weight_hr" in needed:
            tasks.append(lambda: gradients.update(weight_hr=self.grad_projected.t() @ self.wide))
        if self.norm_cell is not None:
            gradients["norm_cell"], gradients["norm_cell_shift"] = self.norm_cell.gradients()
        return tasks
