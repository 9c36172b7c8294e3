"""The LSTM's step for `cpu_recurrent`: products, gates, and the way back. Definition:
`harken.nn.recurrent.lstm.LSTMCell.step`.

A plain, coupled or diagonally peeped step is one product and one pass over the gates. With full peepholes or layer
norm the pass is made in two halves, up to the new cell and from it on, with the products and norms in between.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harken.kernels.recurrent.cpu.direction import Pass, Task, empty_like_rows
from harken.kernels.recurrent.cpu.lstm_gates import BOTH, SHOW, WRITE, lstm_backward, lstm_forward
from harken.kernels.recurrent.cpu.norm import StepNorm
from harken.kernels.recurrent.cpu.plan import Place, Timeline
from harken.kernels.recurrent.cpu.products import Packed


class LSTMPass(Pass):
    """E2 with E4, E5, projection and layer norm."""

    @property
    def gate_width(self) -> int:
        return self.tensors["cell"].shape[1]

    def prepare(self) -> None:
        super().prepare()
        tensors, setting = self.tensors, self.setting
        width = self.gate_width
        self.early = width if setting.coupled else 2 * width
        self.top = self.early + width
        self.cell = Timeline(tensors["cell"], self.plan, setting.reverse, lambda rows, wide: self.room(wide, rows))
        self.timelines = [self.hidden, self.cell]
        self.before_array, self.after_array = self.cell.before.numpy(), self.cell.after.numpy()
        self.nothing = empty_like_rows(self.cell.before)
        peeps, self.full = tensors.get("weight_ch"), setting.peephole == "full"
        self.peephole = self.nothing if peeps is None or self.full else peeps.view(-1, width).numpy()
        if peeps is not None and self.full:
            self.to_old, self.to_new = (Packed(part) for part in peeps.split([self.early, width]))
        gain = tensors.get("norm_cell")
        self.norm_cell = None if gain is None else StepNorm(gain, tensors["norm_cell_shift"], 1, self.room)
        self.shown = None if gain is None else self.room(width)
        self.shown_array = self.nothing if self.shown is None else self.shown.numpy()
        self.in_halves = self.full or self.norm_cell is not None
        projection = tensors.get("weight_hr")
        self.projection = None if projection is None else Packed(projection)
        self.wide = self.hidden.after if projection is None else self.room(width)  # o * tanh(C)
        self.wide_array = self.wide.numpy()

    def step(self, place: Place) -> None:
        product = self.product(place)
        if self.full:
            product[:, : self.early] += self.to_old(self.cell.before[place.packed])
        if self.in_halves:
            self._gates(place, product, WRITE)
            if self.full:
                product[:, self.top :] += self.to_new(self.cell.after[place.packed])
            if self.norm_cell is not None and self.shown is not None:
                after, shown = self.cell.after[place.packed], self.shown[place.packed]
                self.norm_cell.forward(after, shown, place.start, place.rows)
        self._gates(place, product, SHOW if self.in_halves else BOTH)
        if self.projection is not None:
            self.hidden.after[place.packed].copy_(self.projection(self.wide[place.packed]))

    def _gates(self, place: Place, product: Tensor, half: int) -> None:
        lstm_forward(
            self.gates_array,
            product.numpy(),
            self.before_array,
            self.after_array,
            self.shown_array,
            self.wide_array,
            self.peephole,
            place.start,
            place.rows,
            self.setting.coupled,
            half,
        )

    def prepare_backward(self) -> None:
        super().prepare_backward()
        tensors, width = self.tensors, self.gate_width
        self.peephole_gradients: dict[int, Tensor] = {}
        if self.full:
            old, new = tensors["weight_ch"].split([self.early, width])
            self.from_old, self.from_new = Packed(old.t()), Packed(new.t())
            forget, candidate = self.gates[:, self.early - width : self.early], self.gates[:, self.early : self.top]
            write = 1 - forget if self.setting.coupled else self.gates[:, :width]
            self.made_cells = torch.addcmul(forget * self.cell.before, write, candidate)  # before any zoneout
        if self.projection is not None:
            self.unprojected = Packed(tensors["weight_hr"].t())
            self.projected_gradient = self.room(self.hidden.before.shape[1])

    def step_back(self, place: Place, pulled: Tensor) -> tuple[Tensor, Tensor | None]:
        if self.projection is not None:
            self.projected_gradient[place.packed].copy_(pulled)
            pulled = self.unprojected(pulled)
        cell_gradient, slopes = self.state_gradients[1][place.lanes], self.slopes[place.packed]
        if self.in_halves:
            apart = torch.empty_like(pulled)
            self._gates_back(place, pulled, cell_gradient, apart, SHOW)
            if self.norm_cell is not None:
                self.norm_cell.backward(apart, place)
            cell_gradient.add_(apart)
            if self.full:
                cell_gradient.add_(self.from_new(slopes[:, self.top :].contiguous()))
        self._gates_back(place, pulled, cell_gradient, pulled, WRITE if self.in_halves else BOTH)
        if self.full:
            cell_gradient.add_(self.from_old(slopes[:, : self.early].contiguous()))
        return self.recurrent_back(self.through_norm(place, slopes)), None

    def _gates_back(self, place: Place, pulled: Tensor, cell_gradient: Tensor, apart: Tensor, half: int) -> None:
        lane = place.lanes.start
        if lane not in self.peephole_gradients:
            self.peephole_gradients[lane] = pulled.new_zeros(self.peephole.shape)
        lstm_backward(
            self.slopes_array,
            pulled.numpy(),
            self.before_array,
            cell_gradient.numpy(),
            self.shown_array,
            apart.numpy(),
            self.peephole,
            self.peephole_gradients[lane].numpy(),
            place.start,
            place.rows,
            self.setting.coupled,
            half,
        )

    @property
    def slopes_are_needed(self) -> bool:
        return self.full

    def weight_tasks(self, wanted: set[str]) -> list[Task]:
        tasks, made = super().weight_tasks(wanted), self.gradients
        if "weight_ch" in wanted and self.full:
            gradient = torch.empty_like(self.tensors["weight_ch"])
            made["weight_ch"] = gradient
            old, new = gradient[: self.early], gradient[self.early :]
            tasks.append(lambda: torch.mm(self.slopes[:, : self.early].t(), self.cell.before, out=old))
            tasks.append(lambda: torch.mm(self.slopes[:, self.top :].t(), self.made_cells, out=new))
        elif "weight_ch" in wanted:
            shares = [self.peephole_gradients[lane] for lane in sorted(self.peephole_gradients)]
            made["weight_ch"] = torch.stack(shares).sum(0).flatten()
        if "weight_hr" in wanted:
            tasks.append(lambda: made.update(weight_hr=self.projected_gradient.t() @ self.wide))
        if self.norm_cell is not None:
            made["norm_cell"], made["norm_cell_shift"] = self.norm_cell.gradients()
        return tasks
