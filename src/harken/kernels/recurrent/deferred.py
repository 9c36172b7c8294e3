"""One weight gradient for all the steps of a loop, instead of one per step.

A recurrent decoder multiplies by the same matrix at every step. Autograd then computes a full weight gradient per step
and adds them up: T thin products and T passes over the whole matrix. Here each step records only its input and the
gradient of its output; when the last step is done, the weight gradient is one product over all steps.

The reference is `torch.nn.functional.linear(values, weight)` at each step. It has second derivatives; this has none,
and raises where they are needed.

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


class _Record:
    """What the backward pass of the steps leaves for the weight gradient. It refers to no graph, so there is no cycle
    of references through autograd."""

    def __init__(self) -> None:
        self.inputs: list[Tensor] = []
        self.grad_outputs: list[Tensor] = []


class _Anchor(torch.autograd.Function):
    """Represents the weight in the graph; its backward runs once, after that of every step."""

    @staticmethod
    def forward(weight: Tensor, record: _Record) -> Tensor:
        return weight.new_zeros(())

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        weight, ctx.record = inputs
        ctx.dtype = weight.dtype

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        record = ctx.record
        grad_outputs, inputs = torch.cat(record.grad_outputs), torch.cat(record.inputs)
        record.grad_outputs, record.inputs = [], []
        return (grad_outputs.t() @ inputs).to(ctx.dtype), None


class _Product(torch.autograd.Function):
    """One step. Without `setup_context`, for which torch binds the arguments by their signature at every call: that
    costs more than a small product, and `can_defer` keeps the transforms of torch.func out anyway."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, anchor: Tensor, record: _Record) -> Tensor:
        ctx.record, ctx.dtype = record, values.dtype
        values = values.to(weight.dtype)
        ctx.save_for_backward(values, weight)  # `weight` shares its parameter's version: changes in place are detected
        return values @ weight.t()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        values, weight = ctx.saved_tensors
        anchor = ctx.next_functions[2][0]
        # `autograd.grad` of the inputs alone does not reach the anchor, which would then not consume the record
        if anchor is not None and torch._C._will_engine_execute_node(anchor):
            ctx.record.grad_outputs.append(gradients[0])
            ctx.record.inputs.append(values)
        return (gradients[0] @ weight).to(ctx.dtype), None, None, None


def can_defer(weight: Tensor) -> bool:
    """Whether a loop over `weight` may use `DeferredLinear`: not without gradients, while compiling, under the
    transforms of `torch.func`, or on the meta device, where each step has to be an operator of torch's own."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled() or weight.is_meta:
        return False
    return not torch._C._are_functorch_transforms_active()


class DeferredLinear:
    """`values @ weight.T` for the many small products of one forward pass; make a new one for each pass."""

    def __init__(self, weight: Tensor) -> None:
        device = weight.device.type
        autocast = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        self.weight = weight.detach().to(torch.get_autocast_dtype(device) if autocast else weight.dtype)
        self.record = _Record()
        self.anchor = _Anchor.apply(weight, self.record)

    def __call__(self, values: Tensor) -> Tensor:
        """(B, I) -> (B, O)."""
        return _Product.apply(values, self.weight, self.anchor, self.record)
