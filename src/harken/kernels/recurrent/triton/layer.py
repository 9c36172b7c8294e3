"""A recurrent layer on a GPU, W x + b included, as one node of autograd.

    G = x W^T + b for all steps, then the launch             dG from the launch, then
                                                             dx = dG W     dW = dG^T x     db = sum dG     dU = dG^T h

For short sequences the host that starts all this is what takes the time: one node has fewer calls than the product, the
launch and the masking of padding as nodes of their own. What lies behind a row's end is set to 0 in x, so that it
reaches no gradient whatever it is; dG is 0 there. Under `torch.compile` the operators of
`harken.kernels.recurrent.triton.operator` are taken, and the compiler sees to the rest.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from harken.kernels.recurrent.triton.gradient import launch_backward
from harken.kernels.recurrent.triton.operator import gradients_of, launch_forward
from harken.kernels.recurrent.triton.plan import GATES


class WholeLayer(torch.autograd.Function):
    """Takes x, W and b, and then what `launch_forward` takes; gives y, the last h and the last C."""

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,  # (T, B, I)
        weight_in: Tensor,  # W of all directions, (D x gates x H, I)
        constant: Tensor | None,  # b, (D x gates x H)
        behind: Tensor | None,  # (T, B), True where a row has ended; None: nothing has to be set to 0
        weight: Tensor,
        *rest: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.kind, ctx.zone, ctx.reverse = rest[8:11]
        whole = values.contiguous()
        if behind is not None:
            whole = whole.clone() if whole is values else whole
            whole.masked_fill_(behind[:, :, None], 0.0)
        directions, units = weight.shape[0], weight.shape[-1]
        from_input = F.linear(whole, weight_in, constant).unflatten(-1, (directions, GATES[ctx.kind], units))
        given: Any = (from_input, weight, *rest, True)
        y, hidden_last, cell_last, *kept = launch_forward(*given)
        hidden, _, *further = rest[:8]
        ctx.save_for_backward(whole, weight_in, constant, weight, hidden, *further, y, *kept, cell_last)
        ctx.set_materialize_grads(False)
        return y, hidden_last, cell_last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *given: Tensor) -> Any:
        whole, weight_in, constant, *others = ctx.saved_tensors
        need_values, need_in, need_constant, _, *needed = ctx.needs_input_grad
        d_input, *of_others = gradients_of(ctx, others, needed[:4], launch_backward, *given)
        steps = d_input.flatten(0, 1).flatten(1)  # (T x B, D x gates x H)
        d_values = (steps @ weight_in).view_as(whole) if need_values else None
        d_in = steps.t() @ whole.flatten(0, 1) if need_in else None
        d_constant = steps.sum(0) if constant is not None and need_constant else None
        return d_values, d_in, d_constant, None, *of_others, *(None for _ in range(7))
