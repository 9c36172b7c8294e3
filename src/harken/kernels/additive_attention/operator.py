"""Additive attention on a GPU without a tensor of T x S x D; the reference is
`harken.nn.attention.functional.additive_attend_with_weights`.

The operators `harken::additive_attention` and `harken::additive_attention_backward` are registered with torch, so that
they can be differentiated and compiled without a graph break. The kernels are in `forward.py` and `backward.py`, their
launches in `launch.py`. `HARKEN_KERNELS=off` disables them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harken.kernels.backend import Backend
from harken.kernels.settings import why_no_triton

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
SMALLEST = 2**28  # B T S D below which the reference is faster than launching the kernels
FEWEST_TARGETS = 8  # a tile holds at least 16 queries: for fewer than half of that the reference does less work


def why_not_additive(queries: Tensor, keys: Tensor, values: Tensor) -> str | None:
    """The kernels have to be able to run on these tensors, and to be faster than the reference."""
    if reason := why_no_triton(queries.is_cuda):
        return reason
    if queries.shape[-2] < FEWEST_TARGETS or queries.numel() * keys.shape[-2] < SMALLEST:
        return "there are too few queries or keys"
    return None if all(part.dtype in DTYPES for part in (queries, keys, values)) else "the kernels lack the dtype"


def _saved_scores_shape(groups: int, targets: int, sources: int) -> tuple[int, int, int] | None:
    """The shape of the scores where they are saved for the backward pass."""
    from harken.kernels.additive_attention.launch import Shape

    shape = Shape(groups, targets, sources, 1, 1)
    return (groups, shape.rows, shape.columns) if shape.fits() else None


@torch.library.custom_op(
    "harken::additive_attention",
    mutates_args=(),
    device_types="cuda",
    schema="(Tensor queries, Tensor keys, Tensor vector, Tensor values, Tensor? mask, bool causal, bool keep,"
    " float drop, Tensor? seed)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def attention_operator(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """See `launch.forward`."""
    from harken.kernels.additive_attention import launch

    return launch.forward(*arguments)


@attention_operator.register_fake
def _(
    queries: Tensor,
    keys: Tensor,
    vector: Tensor,
    values: Tensor,
    mask: Tensor | None,
    causal: bool,
    keep: bool,
    *_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    groups, targets, sources = queries.shape[0], queries.shape[1], keys.shape[1]
    saved = _saved_scores_shape(groups, targets, sources) if keep else None
    keeps = keep and values.dtype != torch.float32
    return (
        values.new_empty(groups, targets, values.shape[2]),
        values.new_empty((groups, targets, values.shape[2]) if keeps else (0,), dtype=torch.float32),
        queries.new_empty((groups, targets), dtype=torch.float32),
        queries.new_empty(saved or (0,), dtype=torch.float32),
        queries.new_empty((2,), dtype=torch.float32),
    )


@torch.library.custom_op(
    "harken::additive_attention_backward",
    mutates_args=(),
    device_types="cuda",
    schema="(Tensor grad_output, Tensor queries, Tensor keys, Tensor vector, Tensor values, Tensor? mask, bool causal,"
    " Tensor context, Tensor log_sum, Tensor scores, Tensor limits, float drop,"
    " Tensor? seed) -> (Tensor, Tensor, Tensor, Tensor)",
)
def backward_operator(grad_output: Tensor, *arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """See `launch.backward`."""
    from harken.kernels.additive_attention import launch

    return launch.backward(grad_output.contiguous(), *arguments)


@backward_operator.register_fake
def _(grad_output: Tensor, queries: Tensor, keys: Tensor, vector: Tensor, values: Tensor, *rest: Any) -> Any:
    return tuple(part.new_empty(part.shape) for part in (queries, keys, vector, values))


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    queries, keys, vector, values, mask, causal, _, drop, seed = inputs
    ctx.causal, ctx.drop = causal, drop
    ctx.save_for_backward(queries, keys, vector, values, mask, seed, *output)


def _backward(ctx: Any, grad_output: Tensor, *rest: Any) -> tuple[Any, ...]:
    queries, keys, vector, values, mask, seed, context, exact, *saved = ctx.saved_tensors
    saved = [exact if exact.numel() else context, *saved]
    gradients = backward_operator(grad_output, queries, keys, vector, values, mask, ctx.causal, *saved, ctx.drop, seed)
    return *gradients, None, None, None, None, None


attention_operator.register_autograd(_backward, setup_context=_setup_context)


def additive_attention(
    queries: Tensor,
    keys: Tensor,
    vector: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """Queries (..., T, D), keys (..., S, D), vector (D,) or (N, D), values (..., S, V) -> contexts (..., T, V).

    The mask, True where visible, broadcasts to (..., T, S). N, where there is one, is the last of the leading sizes.
    Causal attention aligns queries to the end of the keys. Dropout zeroes weights. Autocast casts what the matrix units
    multiply; scores are float32 in any case.
    """
    if torch.is_autocast_enabled("cuda"):  # `register_autocast` takes one fixed dtype and would cast the vector too
        low = torch.get_autocast_dtype("cuda")
        queries, keys, values = (part.to(low) for part in (queries, keys, values))
    leading, targets, sources = queries.shape[:-2], queries.shape[-2], keys.shape[-2]
    if causal and targets != sources:  # the kernels align to the first key
        past = torch.ones(targets, sources, dtype=torch.bool, device=queries.device).tril(sources - targets)
        mask, causal = past if mask is None else mask & past, False
    vectors = vector.reshape(-1, vector.shape[-1])
    flat = [part.reshape(-1, *part.shape[-2:]).contiguous() for part in (queries, keys, values)]
    groups = flat[0].shape[0]
    visible = None
    if mask is not None:  # never copied where it is only repeated
        inner = leading[-1] if len(leading) > 1 else 1
        visible = mask.expand(*leading, targets, sources).reshape(groups // max(inner, 1), inner, targets, sources)
    keep = torch.is_grad_enabled() and any(part.requires_grad for part in (*flat, vectors))
    seed = torch.randint(2**31, (1,), device=queries.device) if dropout else None
    context = attention_operator(flat[0], flat[1], vectors, flat[2], visible, causal, keep, dropout, seed)[0]
    return context.view(*leading, targets, values.shape[-1])


ADDITIVE_ATTENTION = Backend("triton", why_not_additive, additive_attention)
