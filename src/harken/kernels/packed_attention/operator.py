"""Scaled dot-product attention between packed sentences on a GPU; the reference is `harken.nn.attention.packed`.

Query i sees the keys first_key[i] ... end_key[i] - 1, and key j is seen by queries first_query[j] ... end_query[j] - 1.
Intervals describe encoder self-attention (a sentence), causal self-attention (a sentence up to i) and cross-attention
(the source of a sentence) alike. The operator reads queries, keys and values where their projection left them and
writes the gradients of all three into one tensor, so nothing is copied before or after it.

`harken::packed_attention` and its backward are registered with torch, so that they can be differentiated and compiled
without a graph break.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from harken.kernels.backend import Backend
from harken.kernels.settings import why_no_triton

OWN, LOOP, WARPS = 64, 16, 4  # a program's own tile and the tile it loops over; the fastest tried on an H200
WIDEST = 256  # head width that a tile holds
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def why_not_packed(device: torch.device, dtype: torch.dtype, head_width: int) -> str | None:
    """The reason for which the kernels cannot run; None: they can."""
    if dtype not in DTYPES or head_width > WIDEST:
        return f"the kernels lack {dtype}, or heads {head_width} wide"
    return why_no_triton(device.type == "cuda")


def _parts(projected: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values (T or S, N, K) as views."""
    if memory is None:
        return projected[:, 0], projected[:, 1], projected[:, 2]
    return projected[:, 0], memory[:, 0], memory[:, 1]


def _options(query: Tensor, over_keys: bool = True) -> dict[str, Any]:
    """The constants of a launch; its loop is over keys or over queries."""
    from harken.kernels.triton_import import triton

    width = query.shape[-1]
    head = max(16, triton.next_power_of_2(width))
    precision = "ieee" if query.dtype == torch.float32 else "tf32"  # tf32 does not concern half precision
    own, loop = (OWN, LOOP) if head <= 64 else (32, 32)
    rows, columns = (own, loop) if over_keys else (loop, own)
    return {"WIDTH": width, "HEAD": head, "ROWS": rows, "COLUMNS": columns, "PRECISION": precision, "num_warps": WARPS}


@torch.library.custom_op(
    "harken::packed_attention",
    mutates_args=(),
    schema="(Tensor projected, Tensor? memory, Tensor first_key, Tensor end_key, Tensor first_query, Tensor end_query)"
    " -> (Tensor, Tensor)",
)
def attention_operator(
    projected: Tensor,
    memory: Tensor | None,
    first_key: Tensor,
    end_key: Tensor,
    first_query: Tensor,
    end_query: Tensor,
) -> tuple[Tensor, Tensor]:
    """Contexts (T, N, K) and the log-sum-exp of the scores (N, T)."""
    from harken.kernels.packed_attention.kernels import forward_kernel

    query, key, value = _parts(projected, memory)
    queries, heads, width = query.shape
    out = query.new_empty(queries, heads, width)
    log_sum = query.new_empty(heads, queries, dtype=torch.float32)
    options = _options(query)
    grid = (-(-queries // options["ROWS"]), heads)
    forward_kernel[grid](
        *(query, key, value, out, log_sum, first_key, end_key, 1 / math.sqrt(width)),
        *(query.stride(0), key.stride(0), queries, key.shape[0]),
        **options,
    )
    return out, log_sum


@attention_operator.register_fake
def _(projected: Tensor, memory: Tensor | None, *ranges: Tensor) -> tuple[Tensor, Tensor]:
    queries, _, heads, width = projected.shape
    return projected.new_empty(queries, heads, width), projected.new_empty(heads, queries, dtype=torch.float32)


@torch.library.custom_op(
    "harken::packed_attention_backward",
    mutates_args=(),
    schema="(Tensor grad_out, Tensor projected, Tensor? memory, Tensor out, Tensor log_sum, Tensor first_key,"
    " Tensor end_key, Tensor first_query, Tensor end_query) -> (Tensor, Tensor)",
)
def backward_operator(
    grad_out: Tensor,
    projected: Tensor,
    memory: Tensor | None,
    out: Tensor,
    log_sum: Tensor,
    first_key: Tensor,
    end_key: Tensor,
    first_query: Tensor,
    end_query: Tensor,
) -> tuple[Tensor, Tensor]:
    """The gradients of `projected` and of `memory` (an empty tensor where there is none)."""
    from harken.kernels.packed_attention.kernels import key_gradient_kernel, query_gradient_kernel

    query, key, value = _parts(projected, memory)
    queries, heads, width = query.shape
    keys = key.shape[0]
    grad_projected = torch.empty(projected.shape, dtype=projected.dtype, device=projected.device)
    grad_memory = projected.new_empty(0 if memory is None else memory.shape)
    grad_query, grad_key, grad_value = _parts(grad_projected, None if memory is None else grad_memory)
    inner = torch.empty_like(log_sum)
    grad_out = grad_out.contiguous()
    scale, options = 1 / math.sqrt(width), _options(query)
    strides = query.stride(0), key.stride(0)
    query_gradient_kernel[(-(-queries // options["ROWS"]), heads)](
        *(query, key, value, out, grad_out, log_sum, inner, grad_query, first_key, end_key, scale),
        *(*strides, grad_query.stride(0), queries, keys),
        **options,
    )
    options = _options(query, over_keys=False)
    key_gradient_kernel[(-(-keys // options["COLUMNS"]), heads)](
        *(query, key, value, grad_out, log_sum, inner, grad_key, grad_value),
        *(first_key, end_key, first_query, end_query, scale),
        *(*strides, grad_key.stride(0), queries, keys),
        **options,
    )
    return grad_projected, grad_memory


@backward_operator.register_fake
def _(grad_out: Tensor, projected: Tensor, memory: Tensor | None, *rest: Tensor) -> tuple[Tensor, Tensor]:
    return projected.new_empty(projected.shape), projected.new_empty(0 if memory is None else memory.shape)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    projected, memory, *ranges = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(projected, memory, *output, *ranges)


def _backward(ctx: Any, grad_out: Tensor, grad_log_sum: Any) -> tuple[Any, ...]:
    projected, memory, out, log_sum, *ranges = ctx.saved_tensors
    grad_projected, grad_memory = backward_operator(grad_out, projected, memory, out, log_sum, *ranges)
    return grad_projected, None if memory is None else grad_memory, None, None, None, None


attention_operator.register_autograd(_backward, setup_context=_setup_context)


def packed_attention(
    projected: Tensor,
    memory: Tensor | None,
    first_key: Tensor,
    end_key: Tensor,
    first_query: Tensor,
    end_query: Tensor,
) -> Tensor:
    """Projected (T, 3, N, K), or queries (T, 1, N, K) and memory (S, 2, N, K) -> contexts (T, N, K).

    The last three sizes of either tensor must be contiguous; intervals are int32.
    """
    return attention_operator(projected, memory, first_key, end_key, first_query, end_query)[0]


PACKED_ATTENTION = Backend("triton", why_not_packed, packed_attention)
