"""One direction of one layer through all steps for `cpu_recurrent`: what every cell shares.

Forward     W x + b for all steps, then for each step the cell's own products and gates (`step`), then the noise
Backward    for each step from the last to the first the same by hand (`step_back`), then all weights' gradients,
            one product over all steps for each weight

A cell's class says the rest: `cpu_recurrent_cells`. The definition is
`harken.nn.recurrent.unroll.unroll_by_definition`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from harken.kernels.recurrent.cpu.norm import StepNorm
from harken.kernels.recurrent.cpu.plan import Place, Plan, Setting, Timeline, unzone
from harken.kernels.recurrent.cpu.products import Packed, column_sums, linear_tasks
from harken.kernels.recurrent.cpu.workspace import give_back, take

Tensors = dict[str, Tensor]
Task = Callable[[], object]


class Pass:
    """`tensors` has values (N, I), hidden (B, R), weights and what else the cell has; none may require gradients."""

    def __init__(self, setting: Setting, tensors: Tensors, plan: Plan) -> None:
        self.setting, self.tensors, self.plan = setting, tensors, plan
        self.keep = setting.keep
        self.rooms: list[Tensor] = []
        self.hidden = Timeline(tensors["hidden"], plan, setting.reverse, tensors["hidden"].new_empty)  # goes out
        self.timelines = [self.hidden]
        rows = tensors["weight_hh"].shape[0]
        self.gates = self.room(rows)
        self.gates_array = self.gates.numpy()
        self.seen = self.hidden.before if self.keep is None else self.room(self.hidden.before.shape[1])
        self.prepare()

    def room(self, width: int, rows: int = 0) -> Tensor:
        """(N, width) for this pass alone, or of other `rows`."""
        tensor = take(self.tensors["values"], rows or self.plan.total, width)
        self.rooms.append(tensor)
        return tensor

    def leave(self) -> None:
        """Nobody needs what the pass kept."""
        rooms, self.rooms = self.rooms, []
        give_back(rooms)

    def prepare(self) -> None:
        """Pack weights, make room."""
        self.recurrent = Packed(self.tensors["weight_hh"])
        gain = self.tensors.get("norm_hidden")
        width = self.tensors["weight_hh"].shape[0]
        count = width // self.gate_width
        self.norm = None if gain is None else StepNorm(gain, None, count, self.room)
        self.prepare_input_norm(count)

    def prepare_input_norm(self, count: int) -> None:
        """That of W x: each of `count` gates on its own; b is its shift."""
        gain = self.tensors.get("norm_input")
        self.norm_input = None if gain is None else StepNorm(gain, self.tensors.get("constant"), count, self.room)

    @property
    def gate_width(self) -> int:
        """H."""
        return self.tensors["hidden"].shape[1]

    def input_tasks(self, parts: int) -> list[Task]:
        """W x + b of all steps, W x normalised where the cell does so."""
        values, weight, constant = self.tensors["values"], self.tensors["weight_ih"], self.tensors.get("constant")
        norm = self.norm_input
        if norm is None:
            return linear_tasks(values, weight, constant, self.gates, parts)

        def normalise(product: Tensor, start: int) -> None:
            norm.forward(product, product, start, len(product))

        return linear_tasks(values, weight, None, self.gates, parts, normalise)

    def forward(self, low: int, high: int) -> None:
        """All steps of lanes `low` to `high`."""
        for place in self.plan.places(low, high, self.setting.reverse):
            for timeline in self.timelines:
                timeline.begin(place)
            if self.keep is not None:
                torch.mul(self.hidden.before[place.packed], self.keep[place.lanes], out=self.seen[place.packed])
            self.step(place)
            for timeline, stay in zip(self.timelines, self.setting.stay, strict=False):
                timeline.zone(place, stay)
            for timeline in self.timelines:
                timeline.end(place)

    def step(self, place: Place) -> None:
        """The new state from the old."""
        raise TypeError("a cell's own class has the step")

    def product(self, place: Place) -> Tensor:
        """U h, normalised where the cell does so: (rows, gates x H)."""
        made = self.recurrent(self.seen[place.packed])
        if self.norm is not None:
            self.norm.forward(made, made, place.start, place.rows)
        return made

    def begin_backward(self, output: Tensor, last: list[Tensor], keep_graph: bool) -> None:
        """Gradients of the outputs (N, R) and of the parts of the last state (B, W); the gates are used up unless
        the graph is to be walked again."""
        self.output_gradient = output
        self.slopes = self.gates.clone() if keep_graph else self.gates
        self.slopes_array = self.slopes.numpy()
        apart = self.norm_input is not None and self.slopes_are_needed
        self.input_slopes = self.room(self.slopes.shape[1]) if apart else self.slopes
        self.state_gradients = [part.clone(memory_format=torch.contiguous_format) for part in last]
        self.product_slopes = self.slopes if self.norm is None else self.room(self.slopes.shape[1])
        self.gradients: Tensors = {}
        self.prepare_backward()

    def prepare_backward(self) -> None:
        """Pack weights, make room."""
        self.recurrent_back = Packed(self.tensors["weight_hh"].t())

    def backward(self, low: int, high: int) -> None:
        """All steps of lanes `low` to `high`, the last first."""
        for place in self.plan.places(low, high, not self.setting.reverse):
            parts = [gradient[place.lanes] for gradient in self.state_gradients]
            pulled = parts[0] + self.output_gradient[place.packed]
            old = zip([pulled, *parts[1:]], self.setting.stay, strict=False)
            carried = [unzone(gradient, place, stay) for gradient, stay in old]
            through, direct = self.step_back(place, pulled)
            self.settle(place)
            if self.keep is not None:
                through.mul_(self.keep[place.lanes])
            if direct is None:
                parts[0].copy_(through)
            else:
                torch.add(through, direct, out=parts[0])
            for gradient, more in zip(parts, carried, strict=False):
                gradient.add_(more)

    def step_back(self, place: Place, pulled: Tensor) -> tuple[Tensor, Tensor | None]:
        """The gradient of the new h, (rows, R), free to be changed -> of h as products see it, and directly of h."""
        raise TypeError("a cell's own class has the step")

    def through_norm(self, place: Place, gradient: Tensor) -> Tensor:
        """The gradient (rows, gates x H) of U h, from that of its normalised form."""
        if self.norm is None:
            return gradient
        inner = self.product_slopes[place.packed]
        inner.copy_(gradient)
        self.norm.backward(inner, place)
        return inner

    def settle(self, place: Place) -> None:
        """From the gradients of W x + b to those of W x, where that is normalised."""
        if self.norm_input is None:
            return
        slopes = self.input_slopes[place.packed]
        if self.slopes_are_needed:
            slopes.copy_(self.slopes[place.packed])
        self.norm_input.backward(slopes, place)

    @property
    def slopes_are_needed(self) -> bool:
        """Whether `weight_tasks` reads the gradients of what the gates see, those of W x + b."""
        return False

    def gradient_tasks(self, wanted: set[str], parts: int) -> list[Task]:
        """Tasks that fill `gradients`, one product over all steps each, the longest first."""
        made, tensors, slopes = self.gradients, self.tensors, self.input_slopes
        tasks = self.weight_tasks(wanted)
        if "weight_ih" in wanted:
            tasks.append(lambda: made.update(weight_ih=slopes.t() @ tensors["values"]))
        if "values" in wanted:
            made["values"] = torch.empty_like(tensors["values"])
            tasks += linear_tasks(slopes, tensors["weight_ih"].t(), None, made["values"], parts)
        if self.norm_input is not None:
            made["norm_input"], made["constant"] = self.norm_input.gradients()
        elif "constant" in wanted:
            tasks.append(lambda: made.update(constant=column_sums(slopes)))
        if self.norm is not None:
            made["norm_hidden"] = self.norm.gradients()[0]
        for name, gradient in zip(("hidden", "cell"), self.state_gradients, strict=False):
            made[name] = gradient
        return tasks

    def weight_tasks(self, wanted: set[str]) -> list[Task]:
        """Those of the recurrent weights."""
        if "weight_hh" not in wanted:
            return []
        return [lambda: self.gradients.update(weight_hh=self.product_slopes.t() @ self.seen)]


def empty_like_rows(tensor: Tensor, rows: int = 0) -> Any:
    """An array (rows, W) of no meaning, for an argument that is not in use."""
    return tensor.new_empty(rows, tensor.shape[-1]).numpy()
