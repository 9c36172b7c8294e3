"""The steps of each cell for `cpu_recurrent`: products, gates, and the way back.

Definitions: the `step` methods of `harken.nn.recurrent.rnn`, `harken.nn.recurrent.lstm` and `harken.nn.recurrent.gru`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harken.kernels.recurrent.cpu.direction import Pass, Task, Tensors
from harken.kernels.recurrent.cpu.gru_gates import (
    gru_after_backward,
    gru_after_forward,
    gru_before_close,
    gru_before_close_backward,
    gru_before_open,
    gru_before_open_backward,
)
from harken.kernels.recurrent.cpu.norm import StepNorm
from harken.kernels.recurrent.cpu.plan import Place, Plan, Setting
from harken.kernels.recurrent.cpu.products import Packed, column_sums
from harken.kernels.recurrent.cpu.rnn_gates import KINDS, rnn_backward, rnn_forward


class RNNPass(Pass):
    """E1."""

    def prepare(self) -> None:
        super().prepare()
        self.after_array, self.kind = self.hidden.after.numpy(), KINDS[self.setting.nonlinearity]

    def step(self, place: Place) -> None:
        product = self.product(place).numpy()
        rnn_forward(self.gates_array, product, self.after_array, place.start, place.rows, self.kind)

    def step_back(self, place: Place, pulled: Tensor) -> tuple[Tensor, Tensor | None]:
        rnn_backward(self.slopes_array, pulled.numpy(), place.start, place.rows, self.kind)
        return self.recurrent_back(self.through_norm(place, self.slopes[place.packed])), None


class GRUAfterPass(Pass):
    """E6 as torch has it."""

    def prepare(self) -> None:
        super().prepare()
        hidden = self.hidden
        self.past = self.room(self.gate_width).numpy()
        bias = self.tensors.get("candidate_bias")
        self.bias = (hidden.before.new_zeros(self.gate_width) if bias is None else bias).numpy()
        self.before_array, self.after_array = hidden.before.numpy(), hidden.after.numpy()

    def step(self, place: Place) -> None:
        gru_after_forward(
            self.gates_array,
            self.product(place).numpy(),
            self.bias,
            self.before_array,
            self.past,
            self.after_array,
            place.start,
            place.rows,
        )

    def prepare_backward(self) -> None:
        super().prepare_backward()
        self.normal_slopes = self.room(self.slopes.shape[1])
        self.normal_slopes_array = self.normal_slopes.numpy()
        if self.norm is None:
            self.product_slopes = self.normal_slopes

    def step_back(self, place: Place, pulled: Tensor) -> tuple[Tensor, Tensor | None]:
        gru_after_backward(
            self.slopes_array,
            pulled.numpy(),
            self.past,
            self.before_array,
            self.normal_slopes_array,
            place.start,
            place.rows,
        )
        return self.recurrent_back(self.through_norm(place, self.normal_slopes[place.packed])), pulled

    def weight_tasks(self, wanted: set[str]) -> list[Task]:
        tasks = super().weight_tasks(wanted)
        if "candidate_bias" in wanted:
            slopes = self.normal_slopes[:, 2 * self.gate_width :]
            tasks.append(lambda: self.gradients.update(candidate_bias=column_sums(slopes)))
        return tasks


class GRUBeforePass(Pass):
    """E6 as Cho et al. (2014) have it."""

    def prepare(self) -> None:
        width, weight = self.gate_width, self.tensors["weight_hh"]
        self.split = [2 * width, width]
        self.to_gates, self.to_candidate = (Packed(part) for part in weight.split(self.split))
        gain = self.tensors.get("norm_hidden")
        self.norm = None
        self.norms = None
        if gain is not None:
            gates, candidate = gain.split(self.split)
            self.norms = StepNorm(gates, None, 2, self.room), StepNorm(candidate, None, 1, self.room)
        self.prepare_input_norm(3)
        self.left = self.room(width)
        self.left_array, self.seen_array = self.left.numpy(), self.seen.numpy()
        self.before_array, self.after_array = self.hidden.before.numpy(), self.hidden.after.numpy()

    def step(self, place: Place) -> None:
        at = place.start, place.rows
        product = self.to_gates(self.seen[place.packed])
        if self.norms is not None:
            self.norms[0].forward(product, product, *at)
        gru_before_open(self.gates_array, product.numpy(), self.seen_array, self.left_array, *at)
        product = self.to_candidate(self.left[place.packed])
        if self.norms is not None:
            self.norms[1].forward(product, product, *at)
        gru_before_close(self.gates_array, product.numpy(), self.before_array, self.after_array, *at)

    def prepare_backward(self) -> None:
        gates, candidate = self.tensors["weight_hh"].split(self.split)
        self.from_gates, self.from_candidate = Packed(gates.t()), Packed(candidate.t())
        if self.norms is not None:
            self.product_slopes = self.room(self.slopes.shape[1])

    def step_back(self, place: Place, pulled: Tensor) -> tuple[Tensor, Tensor | None]:
        at = place.start, place.rows
        inner, both = torch.empty_like(pulled), pulled.new_empty(place.rows, 2 * self.gate_width)
        gru_before_close_backward(self.slopes_array, pulled.numpy(), self.before_array, inner.numpy(), *at)
        if self.norms is not None:
            self.norms[1].backward(inner, place)
        through = self.from_candidate(inner)
        gru_before_open_backward(self.slopes_array, through.numpy(), self.seen_array, both.numpy(), *at)
        if self.norms is not None:
            self.norms[0].backward(both, place)
            torch.cat((both, inner), 1, out=self.product_slopes[place.packed])
        return self.from_gates(both).add_(through), pulled

    def weight_tasks(self, wanted: set[str]) -> list[Task]:
        if "weight_hh" not in wanted:
            return []
        gradient = torch.empty_like(self.tensors["weight_hh"])
        self.gradients["weight_hh"] = gradient
        gates, candidate = gradient.split(self.split)
        of_gates, of_candidate = self.product_slopes.split(self.split, 1)
        return [
            lambda: torch.mm(of_gates.t(), self.seen, out=gates),
            lambda: torch.mm(of_candidate.t(), self.left, out=candidate),
        ]

    def gradient_tasks(self, wanted: set[str], parts: int) -> list[Task]:
        if self.norms is not None:
            self.gradients["norm_hidden"] = torch.cat([norm.gradients()[0] for norm in self.norms])
        return super().gradient_tasks(wanted, parts)


def make_pass(setting: Setting, tensors: Tensors, plan: Plan) -> Pass:
    """The pass of a cell."""
    from harken.kernels.recurrent.cpu.lstm import LSTMPass

    kinds = {"rnn": RNNPass, "lstm": LSTMPass, "gru after": GRUAfterPass, "gru before": GRUBeforePass}
    return kinds[setting.cell](setting, tensors, plan)
