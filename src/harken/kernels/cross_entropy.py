"""Fast twin of `harken.nn.loss.smoothed_cross_entropy`, from hidden states to the loss in one go.

The output layer is the widest of a translator: its logits (M, V) are the largest tensor of a training step, and a
plain cross-entropy walks over them six times. Here a block of rows is projected, turned into probabilities, compared,
turned into its own gradient in place and multiplied back while it is still in the cache; no logits outlive the block.
The gradients are made in the forward pass, because the loss is a scalar and the backward pass only scales them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_BLOCK_VALUES = {"cpu": 2**21, "cuda": 2**29}  # logits held at once: 8 MiB in a CPU's cache


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
    ) -> Tensor:
        device = hidden.device.type
        half = torch.is_autocast_enabled(device)
        compute = torch.get_autocast_dtype(device) if half else weight.dtype
        with torch.autocast(device, enabled=False):
            states, matrix = hidden.to(compute), weight.to(compute)
            vocabulary = weight.shape[0]
            rows = max(1, _BLOCK_VALUES.get(device, 2**24) // vocabulary)
            need_hidden, need_weight, need_bias = ctx.needs_input_grad[:3]
            loss = hidden.new_zeros((), dtype=torch.float32 if half else weight.dtype)
            hidden_gradient = torch.empty_like(states) if need_hidden else None
            weight_gradient: Tensor | None = None
            bias_gradient = torch.zeros_like(bias) if need_bias and bias is not None else None
            for start in range(0, states.shape[0], rows):
                block = slice(start, start + rows)
                logits = states[block] @ matrix.t()  # (m, V)
                if half:
                    logits = logits.float()
                if bias is not None:
                    logits += bias
                wanted = targets[block, None]
                chosen = logits.gather(-1, wanted)
                mean = logits.mean(-1, keepdim=True) if smoothing else chosen
                gradient = torch.softmax(logits, -1)
                # log-sum-exp from the normaliser: log p(y) = logit(y) - lse, exact where p(y) underflows too
                peak = logits.amax(-1, keepdim=True)
                spread = peak - gradient.amax(-1, keepdim=True).log()  # = lse
                loss += (spread - (1 - smoothing) * chosen - smoothing * mean).sum()
                if smoothing:
                    gradient.sub_(smoothing / vocabulary)
                gradient.scatter_add_(-1, wanted, torch.full_like(chosen, smoothing - 1))
                if bias_gradient is not None:
                    bias_gradient += gradient.sum(0)
                gradient = gradient.to(compute)
                if hidden_gradient is not None:
                    torch.mm(gradient, matrix, out=hidden_gradient[block])
                if need_weight:
                    if weight_gradient is None:
                        weight_gradient = (gradient.t() @ states[block]).to(weight.dtype)
                    elif half:
                        weight_gradient += gradient.t() @ states[block]
                    else:
                        weight_gradient.addmm_(gradient.t(), states[block])
            ctx.save_for_backward(hidden_gradient, weight_gradient, bias_gradient)
            ctx.hidden_dtype = hidden.dtype
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        scale = gradients[0]
        hidden, weight, bias = ctx.saved_tensors
        if hidden is not None:
            hidden = hidden.to(ctx.hidden_dtype) * scale.to(ctx.hidden_dtype)
        return hidden, None if weight is None else weight * scale, None if bias is None else bias * scale, None, None


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float = 0.0
) -> Tensor:
    """`smoothed_cross_entropy(hidden @ weight.T + bias, targets)` for hidden (M, D), weight (V, D), targets (M,)."""
    if not torch.is_grad_enabled():  # a Function is told what requires gradients, not whether they are wanted now
        hidden, weight, bias = hidden.detach(), weight.detach(), None if bias is None else bias.detach()
    return _LinearCrossEntropy.apply(hidden, weight, bias, targets, smoothing)
