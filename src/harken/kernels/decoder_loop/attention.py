"""The looks of one reading, for a decoder that looks once a step; fast twin of
`harken.nn.attention.functional.Attention`.

A step makes its context and, on the way back, the gradients of its scores and its query. What all steps add to the
gradients of the keys, the memory and the vector v is made once, when the last of them has passed:

dh_s = sum_t a_ts dc_t          dk_s = sum_t de_ts v (1 - tanh^2(q_t + k_s))          dv = sum_ts de_ts tanh(q_t + k_s)

Scores that are products (dot, scaled, multiplicative, cosine, given a query made ready for them) have no v; there
dk_s = sum_t de_ts q_t. As in `harken.kernels.recurrent.deferred`, there are no second derivatives.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

WIDEST = 1024  # a program holds a whole key and a whole context
ROWS = 16  # of the memory at a time


def fits(keys: Tensor, memory: Tensor) -> bool:
    """Whether the kernels can take keys and memory of these widths."""
    return keys.shape[-1] <= WIDEST and memory.shape[-1] <= WIDEST


def _power(size: int) -> int:
    return max(16, 1 << (size - 1).bit_length())


class _Anchor(torch.autograd.Function):
    """Stands for keys, memory and vector in the graph; its backward runs once, after every step's."""

    @staticmethod
    def forward(ctx: Any, looks: DeferredLooks, keys: Tensor, memory: Tensor, vector: Tensor | None) -> Tensor:
        ctx.looks = looks
        return memory.new_zeros((), dtype=torch.float32)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *_: Tensor) -> Any:
        from harken.kernels.additive_attention import launch as additive_attention_launch

        looks, tape = ctx.looks, ctx.looks.tape
        ctx.looks.tape = []
        queries, forces, scores, spreads, pulls = (torch.stack(parts, 1) for parts in zip(*tape, strict=True))
        weights = torch.exp(scores - spreads[..., None]).to(looks.memory.dtype)  # (B, T, S)
        by_memory = torch.bmm(weights.transpose(1, 2), pulls.to(weights.dtype))
        if looks.vector is None:
            by_keys = torch.bmm(forces.to(queries.dtype).transpose(1, 2), queries)
            return None, by_keys.to(looks.keys.dtype), by_memory, None
        by_keys, by_vector = additive_attention_launch.key_gradients(queries, looks.keys, looks.vector, forces)
        return None, by_keys, by_memory, by_vector


class _Look(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, anchor: Tensor, looks: DeferredLooks) -> Tensor:
        from harken.kernels.decoder_loop import triton_kernels as kernels

        query = query.contiguous()
        keys, memory, mask, vector = looks.keys, looks.memory, looks.mask, looks.vector
        batch, sources, depth = keys.shape
        width = memory.shape[2]
        context = memory.new_empty(batch, width)
        scores = torch.empty(batch, sources, device=keys.device, dtype=torch.float32)
        spread = torch.empty(batch, device=keys.device, dtype=torch.float32)
        kernels.look_kernel[(batch,)](
            query, keys, query if vector is None else vector, memory, scores if mask is None else mask, context,
            scores, spread, sources, depth, width, ADDITIVE=vector is not None, MASKED=mask is not None,
            ROWS=ROWS, DEPTH=_power(depth), WIDTH=_power(width), num_warps=8,
        )  # fmt: skip
        ctx.looks = looks
        ctx.save_for_backward(query, context, scores, spread)
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *pulls: Tensor) -> Any:
        from harken.kernels.decoder_loop import triton_kernels as kernels

        looks, pull = ctx.looks, pulls[0].contiguous()
        query, context, scores, spread = ctx.saved_tensors
        batch, sources, depth = looks.keys.shape
        width, vector = looks.memory.shape[2], looks.vector
        force, by_query = torch.empty_like(scores), torch.empty_like(query)
        kernels.look_back_kernel[(batch,)](
            pull, query, looks.keys, query if vector is None else vector, looks.memory, context, scores, spread,
            force, by_query, sources, depth, width, ADDITIVE=vector is not None,
            ROWS=ROWS, DEPTH=_power(depth), WIDTH=_power(width), num_warps=8,
        )  # fmt: skip
        if looks.is_wanted():
            looks.tape.append((query, force, scores, spread, pull))
        return by_query, None, None  # no gradient, but the anchor still runs


class DeferredLooks:
    """Looks into one memory: keys (B, S, A), memory (B, S, M), mask (B, S), for the additive score its v (A,).

    Make a new one for each forward pass.
    """

    def __init__(self, keys: Tensor, memory: Tensor, mask: Tensor | None, vector: Tensor | None = None) -> None:
        self.keys, self.memory = keys.detach().contiguous(), memory.detach().contiguous()
        self.mask = None if mask is None else mask.contiguous().view(torch.uint8)
        self.vector = None if vector is None else vector.detach().contiguous()
        self.tape: list[tuple[Tensor, ...]] = []
        self.anchor = _Anchor.apply(self, keys, memory, vector)

    def is_wanted(self) -> bool:
        """Whether the backward pass that runs now reaches what is looked into."""
        return self.anchor.grad_fn is not None and torch._C._will_engine_execute_node(self.anchor.grad_fn)

    def __call__(self, query: Tensor) -> Tensor:
        """(B, A) -> the context (B, M)."""
        return _Look.apply(query, self.anchor, self)
