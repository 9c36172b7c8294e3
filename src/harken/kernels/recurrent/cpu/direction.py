"""One direction of one layer through all steps on a CPU: what every cell shares.

Forward     W x + b for all steps, then for each step the cell's own products and gates (`step`), then the noise
Backward    for each step from the last to the first the same by hand (`step_back`), then all weights' gradients,
            one product over all steps for each weight

A cell's class has the rest (`rnn.py`, `lstm.py`, `gru.py`). The reference is `harken.nn.recurrent.unroll`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from harken.kernels.recurrent.cpu.norm import StepNorm
from harken.kernels.recurrent.cpu.plan import Plan, Setting, Span, Timeline, zoneout_backward
from harken.kernels.recurrent.cpu.products import Packed, column_sums, linear_tasks
from harken.kernels.recurrent.cpu.runtime import acquire, release

Tensors = dict[str, Tensor]
Task = Callable[[], object]


class Pass:
    """`tensors` has values (N, I), hidden (B, R), weights and what else the cell has; none may require gradients."""

    def __init__(self, setting: Setting, tensors: Tensors, plan: Plan) -> None:
        self.setting, self.tensors, self.plan = setting, tensors, plan
        self.keep = setting.keep
        self.buffers: list[Tensor] = []
        self.hidden = Timeline(tensors["hidden"], plan, setting.reverse, tensors["hidden"].new_empty)  # goes out
        self.timelines = [self.hidden]
        rows = tensors["weight_hh"].shape[0]
        self.gates = self.buffer(rows)
        self.gates_array = self.gates.numpy()
        self.dropped_hidden = self.hidden.before if self.keep is None else self.buffer(self.hidden.before.shape[1])
        self.prepare()

    def buffer(self, width: int, rows: int = 0) -> Tensor:
        """(N, width) for this pass alone, or of other `rows`."""
        tensor = acquire(self.tensors["values"], rows or self.plan.total, width)
        self.buffers.append(tensor)
        return tensor

    def release(self) -> None:
        """Nobody needs what the pass kept."""
        buffers, self.buffers = self.buffers, []
        release(buffers)

    def prepare(self) -> None:
        """Pack weights, allocate buffers."""
        self.recurrent = Packed(self.tensors["weight_hh"])
        gain = self.tensors.get("norm_hidden")
        width = self.tensors["weight_hh"].shape[0]
        count = width // self.gate_width
        self.norm = None if gain is None else StepNorm(gain, None, count, self.buffer)
        self.prepare_input_norm(count)

    def prepare_input_norm(self, count: int) -> None:
        """That of W x: each of `count` gates on its own; b is its shift."""
        gain = self.tensors.get("norm_input")
        self.norm_input = None if gain is None else StepNorm(gain, self.tensors.get("bias"), count, self.buffer)

    @property
    def gate_width(self) -> int:
        """H."""
        return self.tensors["hidden"].shape[1]

    def input_tasks(self, parts: int) -> list[Task]:
        """W x + b of all steps, W x normalised where the cell does so."""
        values, weight, constant = self.tensors["values"], self.tensors["weight_ih"], self.tensors.get("bias")
        norm = self.norm_input
        if norm is None:
            return linear_tasks(values, weight, constant, self.gates, parts)

        def normalise(product: Tensor, start: int) -> None:
            norm.forward(product, product, start, len(product))

        return linear_tasks(values, weight, None, self.gates, parts, normalise)

    def forward(self, low: int, high: int) -> None:
        """All steps of lanes `low` to `high`."""
        for span in self.plan.spans(low, high, self.setting.reverse):
            for timeline in self.timelines:
                timeline.begin(span)
            if self.keep is not None:
                torch.mul(self.hidden.before[span.packed], self.keep[span.lanes], out=self.dropped_hidden[span.packed])
            self.step(span)
            for timeline, stay in zip(self.timelines, self.setting.stay, strict=False):
                timeline.zoneout(span, stay)
            for timeline in self.timelines:
                timeline.end(span)

    def step(self, span: Span) -> None:
        """The new state from the old."""
        raise TypeError("a cell's own class has the step")

    def product(self, span: Span) -> Tensor:
        """U h, normalised where the cell does so: (rows, gates x H)."""
        product = self.recurrent(self.dropped_hidden[span.packed])
        if self.norm is not None:
            self.norm.forward(product, product, span.start, span.rows)
        return product

    def begin_backward(self, output: Tensor, last: list[Tensor], keep_graph: bool) -> None:
        """Gradients of the outputs (N, R) and of the parts of the last state (B, W); the gates are used up unless
        the graph is to be walked again."""
        self.grad_output = output
        self.grad_gates = self.gates.clone() if keep_graph else self.gates
        self.grad_gates_array = self.grad_gates.numpy()
        apart = self.norm_input is not None and self.needs_grad_gates
        self.grad_inputs = self.buffer(self.grad_gates.shape[1]) if apart else self.grad_gates
        self.grad_states = [part.clone(memory_format=torch.contiguous_format) for part in last]
        self.grad_products = self.grad_gates if self.norm is None else self.buffer(self.grad_gates.shape[1])
        self.gradients: Tensors = {}
        self.prepare_backward()

    def prepare_backward(self) -> None:
        """Pack weights, allocate buffers."""
        self.recurrent_back = Packed(self.tensors["weight_hh"].t())

    def backward(self, low: int, high: int) -> None:
        """All steps of lanes `low` to `high`, the last first."""
        for span in self.plan.spans(low, high, not self.setting.reverse):
            parts = [gradient[span.lanes] for gradient in self.grad_states]
            grad_hidden = parts[0] + self.grad_output[span.packed]
            old = zip([grad_hidden, *parts[1:]], self.setting.stay, strict=False)
            carried = [zoneout_backward(gradient, span, stay) for gradient, stay in old]
            through, direct = self.step_back(span, grad_hidden)
            self.input_norm_backward(span)
            if self.keep is not None:
                through.mul_(self.keep[span.lanes])
            if direct is None:
                parts[0].copy_(through)
            else:
                torch.add(through, direct, out=parts[0])
            for gradient, more in zip(parts, carried, strict=False):
                gradient.add_(more)

    def step_back(self, span: Span, grad_hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        """The gradient of the new h, (rows, R), free to be changed -> of h as products see it, and directly of h."""
        raise TypeError("a cell's own class has the step")

    def through_norm(self, span: Span, gradient: Tensor) -> Tensor:
        """The gradient (rows, gates x H) of U h, from that of its normalised form."""
        if self.norm is None:
            return gradient
        inner = self.grad_products[span.packed]
        inner.copy_(gradient)
        self.norm.backward(inner, span)
        return inner

    def input_norm_backward(self, span: Span) -> None:
        """From the gradients of W x + b to those of W x, where that is normalised."""
        if self.norm_input is None:
            return
        grad_gates = self.grad_inputs[span.packed]
        if self.needs_grad_gates:
            grad_gates.copy_(self.grad_gates[span.packed])
        self.norm_input.backward(grad_gates, span)

    @property
    def needs_grad_gates(self) -> bool:
        """Whether `weight_tasks` reads the gradients of what the gates see, those of W x + b."""
        return False

    def gradient_tasks(self, needed: set[str], parts: int) -> list[Task]:
        """Tasks that fill `gradients`, one product over all steps each, the longest first."""
        gradients, tensors, grad_gates = self.gradients, self.tensors, self.grad_inputs
        tasks = self.weight_tasks(needed)
        if "weight_ih" in needed:
            tasks.append(lambda: gradients.update(weight_ih=grad_gates.t() @ tensors["values"]))
        if "values" in needed:
            gradients["values"] = torch.empty_like(tensors["values"])
            tasks += linear_tasks(grad_gates, tensors["weight_ih"].t(), None, gradients["values"], parts)
        if self.norm_input is not None:
            gradients["norm_input"], gradients["bias"] = self.norm_input.gradients()
        elif "bias" in needed:
            tasks.append(lambda: gradients.update(bias=column_sums(grad_gates)))
        if self.norm is not None:
            gradients["norm_hidden"] = self.norm.gradients()[0]
        for name, gradient in zip(("hidden", "cell"), self.grad_states, strict=False):
            gradients[name] = gradient
        return tasks

    def weight_tasks(self, needed: set[str]) -> list[Task]:
        """The tasks for the recurrent weights."""
        if "weight_hh" not in needed:
            return []
        return [lambda: self.gradients.update(weight_hh=self.grad_products.t() @ self.dropped_hidden)]
