"""One weight gradient for all the steps of a loop, in place of one for each.

A recurrent decoder multiplies the same matrix at every step. Autograd then makes a full weight gradient a step and adds
them up: T thin products and T passes over the whole matrix. Here each step only notes its input and its output's
gradient; when the last of them has passed, the weight gradient is made by one product over all steps.

The definition is `torch.nn.functional.linear(values, weight)` at each step. It has second derivatives; this has none,
and says so when asked for them.

>>> weight = torch.randn(4, 3, requires_grad=True)
>>> linear = DeferredLinear(weight)
>>> total = sum(linear(torch.ones(2, 3)).sum() for _ in range(5))
>>> total.backward()
>>> weight.grad.unique().tolist()
[10.0]
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class _Anchor(torch.autograd.Function):
    """Stands for the weight in the graph; its backward runs once, after every step's."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, tape: DeferredLinear) -> Tensor:
        ctx.tape = tape
        return weight.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        tape = ctx.tape
        outputs, inputs = torch.cat(tape.gradients), torch.cat(tape.inputs)
        tape.gradients, tape.inputs = [], []
        return (outputs.t() @ inputs).to(tape.dtype), None


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, anchor: Tensor, tape: DeferredLinear) -> Tensor:
        ctx.tape, ctx.dtype = tape, values.dtype
        values = values.to(tape.weight.dtype)
        ctx.save_for_backward(values)
        return values @ tape.weight.t()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (values,) = ctx.saved_tensors
        if ctx.tape.is_wanted():
            ctx.tape.gradients.append(gradients[0])
            ctx.tape.inputs.append(values)
        return (gradients[0] @ ctx.tape.weight).to(ctx.dtype), None, None  # no gradient, but the anchor still runs


class DeferredLinear:
    """`values @ weight.T` for the many small products of one forward pass; make a new one for each pass."""

    def __init__(self, weight: Tensor) -> None:
        device = weight.device.type
        compute = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        self.weight = weight.detach().to(compute)
        self.dtype = weight.dtype
        self.inputs: list[Tensor] = []
        self.gradients: list[Tensor] = []
        self.anchor = _Anchor.apply(weight, self)

    def is_wanted(self) -> bool:
        """Whether the backward pass that runs now reaches the weight; `autograd.grad` of inputs alone does not."""
        return self.anchor.grad_fn is not None and torch._C._will_engine_execute_node(self.anchor.grad_fn)

    def __call__(self, values: Tensor) -> Tensor:
        """(B, I) -> (B, O)."""
        return _Product.apply(values, self.anchor, self)
