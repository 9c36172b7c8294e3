"""Fast twin of `harken.nn.attention.additive.additive_attend_with_weights` on a GPU: no tensor of T x S x D is ever
made.

The operators are registered with torch, so that they can be differentiated, compiled without a break, and run under
autocast: `harken::additive_attention`, its backward pass, and `harken::additive_weights` for those who want to look at
the weights. `HARKEN_KERNELS=off` turns them off. What they do is in `additive_attention_triton.py` and
`additive_attention_backward.py`, how they are run in `additive_attention_launch.py`.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import torch
from torch import Tensor

HAS_TRITON = importlib.util.find_spec("triton") is not None
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
SMALLEST = 2**28  # B T S D below which the definition is done before our kernels are launched
FEWEST_TARGETS = 8  # a tile holds 16 queries at least: for fewer, the definition has less to do


def serves(queries: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether the kernels are there for these, and faster."""
    return (
        HAS_TRITON
        and queries.is_cuda
        and os.environ.get("HARKEN_KERNELS") != "off"
        and queries.shape[-2] >= FEWEST_TARGETS
        and queries.numel() * keys.shape[-2] >= SMALLEST
        and all(part.dtype in DTYPES for part in (queries, keys, values))
    )


def _kept(groups: int, targets: int, sources: int) -> tuple[int, int, int] | None:
    """The shape of the scores where they are kept for the backward pass."""
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
def attention_operator(
    queries: Tensor,
    keys: Tensor,
    vector: Tensor,
    values: Tensor,
    mask: Tensor | None,
    causal: bool,
    keep: bool,
    drop: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """See `additive_attention_launch.forward`."""
    from harken.kernels.additive_attention import launch as additive_attention_launch

    return additive_attention_launch.forward(queries, keys, vector, values, mask, causal, keep, drop, seed)


@attention_operator.register_fake
def _(
    queries: Tensor,
    keys: Tensor,
    vector: Tensor,
    values: Tensor,
    mask: Tensor | None,
    causal: bool,
    keep: bool,
    drop: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    groups, targets, sources = queries.shape[0], queries.shape[1], keys.shape[1]
    kept = _kept(groups, targets, sources) if keep else None
    keeps = keep and values.dtype != torch.float32
    return (
        values.new_empty(groups, targets, values.shape[2]),
        values.new_empty((groups, targets, values.shape[2]) if keeps else (0,), dtype=torch.float32),
        queries.new_empty((groups, targets), dtype=torch.float32),
        queries.new_empty(kept or (0,), dtype=torch.float32),
        queries.new_empty((2,), dtype=torch.float32),
    )


@torch.library.custom_op(
    "harken::additive_attention_backward",
    mutates_args=(),
    device_types="cuda",
    schema="(Tensor pull, Tensor queries, Tensor keys, Tensor vector, Tensor values, Tensor? mask, bool causal,"
    " Tensor context, Tensor spread, Tensor scores, Tensor limits, float drop,"
    " Tensor? seed) -> (Tensor, Tensor, Tensor, Tensor)",
)
def backward_operator(
    pull: Tensor,
    queries: Tensor,
    keys: Tensor,
    vector: Tensor,
    values: Tensor,
    mask: Tensor | None,
    causal: bool,
    context: Tensor,
    spread: Tensor,
    scores: Tensor,
    limits: Tensor,
    drop: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """See `additive_attention_launch.backward`."""
    from harken.kernels.additive_attention import launch as additive_attention_launch

    return additive_attention_launch.backward(
        pull.contiguous(), queries, keys, vector, values, mask, causal, context, spread, scores, limits, drop, seed
    )


@backward_operator.register_fake
def _(pull: Tensor, queries: Tensor, keys: Tensor, vector: Tensor, values: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    return tuple(part.new_empty(part.shape) for part in (queries, keys, vector, values))


@torch.library.custom_op(
    "harken::additive_weights",
    mutates_args=(),
    device_types="cuda",
    schema="(Tensor queries, Tensor keys, Tensor vector, Tensor? mask, bool causal, Tensor spread, Tensor scores,"
    " Tensor limits) -> Tensor",
)
def weights_operator(
    queries: Tensor,
    keys: Tensor,
    vector: Tensor,
    mask: Tensor | None,
    causal: bool,
    spread: Tensor,
    scores: Tensor,
    limits: Tensor,
) -> Tensor:
    """See `additive_attention_launch.weights`."""
    from harken.kernels.additive_attention import launch as additive_attention_launch

    return additive_attention_launch.weights(queries, keys, vector, mask, causal, spread, scores, limits)


@weights_operator.register_fake
def _(queries: Tensor, keys: Tensor, *rest: Any) -> Tensor:
    shape = queries.shape[0], queries.shape[1], keys.shape[1]
    return torch.empty(shape, device=queries.device, dtype=torch.float32)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    queries, keys, vector, values, mask, causal, _, drop, seed = inputs
    ctx.causal, ctx.drop = causal, drop
    ctx.save_for_backward(queries, keys, vector, values, mask, seed, *output)


def _backward(ctx: Any, pull: Tensor, *rest: Any) -> tuple[Any, ...]:
    queries, keys, vector, values, mask, seed, context, exact, *made = ctx.saved_tensors
    made = [exact if exact.numel() else context, *made]
    gradients = backward_operator(pull, queries, keys, vector, values, mask, ctx.causal, *made, ctx.drop, seed)
    return *gradients, None, None, None, None, None


attention_operator.register_autograd(_backward, setup_context=_remember)

_library = torch.library.Library("harken", "FRAGMENT")


def _under_autocast(
    queries: Tensor,
    keys: Tensor,
    vector: Tensor,
    values: Tensor,
    mask: Tensor | None,
    causal: bool,
    keep: bool,
    drop: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """What is multiplied by matrix units goes there in autocast's type; the scores are made in float32 in any case."""
    low = torch.get_autocast_dtype("cuda")
    queries, keys, values = (part.to(low) if part.dtype in DTYPES else part for part in (queries, keys, values))
    autocast = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)
    with torch._C._ExcludeDispatchKeyGuard(autocast):
        return attention_operator(queries, keys, vector, values, mask, causal, keep, drop, seed)


_library.impl("additive_attention", _under_autocast, "AutocastCUDA")


def additive_attention(
    queries: Tensor,
    keys: Tensor,
    vector: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    weights: bool = False,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor | None]:
    """Queries (..., T, D), keys (..., S, D), vector (D,) or (N, D), values (..., S, V) -> (..., T, V), weights or None.

    The mask, True where visible, broadcasts to (..., T, S). N, where there is one, is the last of the leading sizes.
    Dropout is of weights, as heads have it; the weights returned are those before.
    """
    leading, targets, sources = queries.shape[:-2], queries.shape[-2], keys.shape[-2]
    vectors = vector.reshape(-1, vector.shape[-1])
    flat = [part.reshape(-1, *part.shape[-2:]).contiguous() for part in (queries, keys, values)]
    groups = flat[0].shape[0]
    seen = None
    if mask is not None:  # never copied where it is only repeated
        inner = leading[-1] if len(leading) > 1 else 1
        seen = mask.expand(*leading, targets, sources).reshape(groups // max(inner, 1), inner, targets, sources)
    learns = (*flat, vectors)
    keep = weights or (torch.is_grad_enabled() and any(part.requires_grad for part in learns))
    seed = torch.randint(2**31, (1,), device=queries.device) if dropout else None
    context, _, *made = attention_operator(flat[0], flat[1], vectors, flat[2], seen, causal, keep, dropout, seed)
    context = context.view(*leading, targets, values.shape[-1])
    if not weights:
        return context, None
    with torch.no_grad():
        shares = weights_operator(flat[0], flat[1], vectors, seen, causal, *made)
    return context, shares.view(*leading, targets, sources)
