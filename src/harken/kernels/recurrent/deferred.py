"""One weight gradient for all the steps of a loop, instead of one per step.

A recurrent decoder multiplies by the same matrix at every step. Autograd then computes a full weight gradient per step
and adds them up: T thin products and T passes over the whole matrix. Here each step records only its input and the
gradient of its output; when the last step is done, the weight gradient is one product over all steps.

The reference is `torch.nn.functional.linear(values, weight)` at each step, which runs where there are no gradients,
while compiling, under the transforms of `torch.func`, on the meta device, and with `HARKEN_KERNELS=off`. Both can be
differentiated any number of times.

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
import torch.nn.functional as F
from torch import Tensor

from harken.kernels.autograd import takes_torch_operators
from harken.kernels.settings import kernels_enabled


class _Record:
    """The inputs and gradients that the steps leave for the weight gradient. It refers to no graph, so there is no
    cycle of references through autograd."""

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
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        record = ctx.record
        grad_outputs, inputs = torch.cat(record.grad_outputs), torch.cat(record.inputs)
        record.grad_outputs, record.inputs = [], []
        return (grad_outputs.t() @ inputs).to(ctx.dtype), None


class _Product(torch.autograd.Function):
    """One step. Without `setup_context`, for which torch binds the arguments by their signature at every call: that
    costs more than a small product, and the transforms of torch.func never come here."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, anchor: Tensor, record: _Record) -> Tensor:
        ctx.record = record
        ctx.save_for_backward(values, weight)
        return values.to(weight.dtype) @ weight.t()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """The gradient of `values`; that of `weight` is the anchor's. Every tensor here is one of the graph (the inputs
        of the forward pass, or the gradient that comes in), so the backward pass can be differentiated itself."""
        values, weight = ctx.saved_tensors
        anchor = ctx.next_functions[2][0]
        # `autograd.grad` of the inputs alone does not reach the anchor, which would then not consume the record
        if anchor is not None and torch._C._will_engine_execute_node(anchor):
            ctx.record.grad_outputs.append(gradients[0])
            ctx.record.inputs.append(values.to(weight.dtype))
        return (gradients[0] @ weight).to(values.dtype), None, None, None


class DeferredLinear:
    """`values @ weight.T` for the many small products of one forward pass; make a new one for each pass."""

    def __init__(self, weight: Tensor) -> None:
        self.weight, self.anchor, self.record = weight, None, _Record()
        if not torch.is_grad_enabled() or weight.is_meta or takes_torch_operators() or not kernels_enabled():
            return
        device = weight.device.type
        autocast = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        self.weight = weight.to(torch.get_autocast_dtype(device)) if autocast else weight
        self.anchor = _Anchor.apply(weight, self.record)

    def __call__(self, values: Tensor) -> Tensor:
        """(B, I) -> (B, O)."""
        if self.anchor is None:
            return F.linear(values, self.weight)
        return _Product.apply(values, self.weight, self.anchor, self.record)
