"""Attention of a decoder to one memory at every step; the reference is
`harken.nn.attention.functional.Attention`.

A step computes its context and, in the backward pass, the gradients of its scores and its query. The gradients of the
keys, the memory and the vector v are sums over all steps and are computed once, after the backward pass of the first
step:

dh_s = sum_t a_ts dc_t          dk_s = sum_t de_ts v (1 - tanh^2(q_t + k_s))          dv = sum_ts de_ts tanh(q_t + k_s)

Dot-product scores (dot, scaled, multiplicative, cosine, with the query prepared for them) have no v; there
dk_s = sum_t de_ts q_t. There are no second derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from harken.kernels.autograd import first_order
from harken.kernels.backend import Backend
from harken.kernels.decoder_loop.gates import why_not_in_loops

WIDEST = 1024  # a program holds a whole key and a whole context
ROWS = 16  # of the memory at a time


def why_not_attention(keys: Tensor, memory: Tensor) -> str | None:
    """The reason for which the kernels are not used for keys (B, S, A) and a memory (B, S, M); None: they are."""
    if max(keys.shape[-1], memory.shape[-1]) > WIDEST:
        return f"keys or memory are wider than {WIDEST}"
    return why_not_in_loops(memory)


def _power_of_two(size: int) -> int:
    return max(16, 1 << (size - 1).bit_length())


@dataclass
class _Inputs:
    """Inputs of all steps, and what their backward passes leave for the anchor's; it holds no graph, so no cycle."""

    keys: Tensor
    memory: Tensor
    mask: Tensor | None
    vector: Tensor | None
    tape: list[tuple[Tensor, ...]] = field(default_factory=list)


class _Anchor(torch.autograd.Function):
    """Represents keys, memory and vector in the graph; its backward runs once, after that of every step."""

    @staticmethod
    def forward(ctx: Any, inputs: _Inputs, keys: Tensor, memory: Tensor, vector: Tensor | None) -> Tensor:
        ctx.inputs = inputs
        return memory.new_zeros((), dtype=torch.float32)

    @staticmethod
    @first_order("the GPU kernel of attention")
    def backward(ctx: Any, *_: Tensor) -> Any:
        from harken.kernels.additive_attention import launch

        inputs, tape = ctx.inputs, ctx.inputs.tape
        ctx.inputs.tape = []
        queries, grad_scores, scores, log_sums, grad_contexts = (
            torch.stack(parts, 1) for parts in zip(*tape, strict=True)
        )
        weights = torch.exp(scores - log_sums[..., None]).to(inputs.memory.dtype)  # (B, T, S)
        grad_memory = torch.bmm(weights.transpose(1, 2), grad_contexts.to(weights.dtype))
        if inputs.vector is None:
            grad_keys = torch.bmm(grad_scores.to(queries.dtype).transpose(1, 2), queries)
            return None, grad_keys.to(inputs.keys.dtype), grad_memory, None
        grad_keys, grad_vector = launch.key_gradients(queries, inputs.keys, inputs.vector, grad_scores)
        return None, grad_keys, grad_memory, grad_vector


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, anchor: Tensor, inputs: _Inputs) -> Tensor:
        from harken.kernels.decoder_loop import triton_kernels as kernels

        query = query.contiguous()
        keys, memory, mask, vector = inputs.keys, inputs.memory, inputs.mask, inputs.vector
        batch, sources, depth = keys.shape
        width = memory.shape[2]
        context = memory.new_empty(batch, width)
        scores = torch.empty(batch, sources, device=keys.device, dtype=torch.float32)
        log_sum = torch.empty(batch, device=keys.device, dtype=torch.float32)
        kernels.attention_kernel[(batch,)](
            query, keys, query if vector is None else vector, memory, scores if mask is None else mask, context,
            scores, log_sum, sources, depth, width, ADDITIVE=vector is not None, MASKED=mask is not None,
            ROWS=ROWS, DEPTH=_power_of_two(depth), WIDTH=_power_of_two(width), num_warps=8,
        )  # fmt: skip
        ctx.inputs = inputs
        ctx.save_for_backward(query, context, scores, log_sum)
        return context

    @staticmethod
    @first_order("the GPU kernel of attention")
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        from harken.kernels.decoder_loop import triton_kernels as kernels

        inputs, grad_context = ctx.inputs, grad_outputs[0].contiguous()
        query, context, scores, log_sum = ctx.saved_tensors
        batch, sources, depth = inputs.keys.shape
        width, vector = inputs.memory.shape[2], inputs.vector
        grad_scores, grad_query = torch.empty_like(scores), torch.empty_like(query)
        kernels.attention_backward_kernel[(batch,)](
            grad_context, query, inputs.keys, query if vector is None else vector, inputs.memory, context, scores,
            log_sum, grad_scores, grad_query, sources, depth, width, ADDITIVE=vector is not None,
            ROWS=ROWS, DEPTH=_power_of_two(depth), WIDTH=_power_of_two(width), num_warps=8,
        )  # fmt: skip
        anchor = ctx.next_functions[1][0]
        if anchor is not None and torch._C._will_engine_execute_node(anchor):
            inputs.tape.append((query, grad_scores, scores, log_sum, grad_context))
        return grad_query, None, None  # no gradient, but the anchor's backward still runs


class DeferredAttention:
    """Attention to one memory: keys (B, S, A), memory (B, S, M), mask (B, S), for the additive score its v (A,).

    Make a new one for each forward pass.
    """

    def __init__(self, keys: Tensor, memory: Tensor, mask: Tensor | None, vector: Tensor | None = None) -> None:
        self.inputs = _Inputs(
            keys.detach().contiguous(),
            memory.detach().contiguous(),
            None if mask is None else mask.contiguous().view(torch.uint8),
            None if vector is None else vector.detach().contiguous(),
        )
        self.anchor = _Anchor.apply(self.inputs, keys, memory, vector)

    def __call__(self, query: Tensor) -> Tensor:
        """(B, A) -> the context (B, M)."""
        return _Attend.apply(query, self.anchor, self.inputs)


ATTENTION = Backend("triton", why_not_attention, DeferredAttention)
