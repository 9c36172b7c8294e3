"""Additive attention with all queries at once (E8 with the additive score of E9), where the whole target is known.

e_ts = v^T tanh(q_t + k_s)      a_t = softmax_s(e_t)      c_t = sum_s a_ts v_s

with q = W2 s and k = W1 h made before (`harken.nn.attention.scores.AdditiveScore` has both).
`additive_attend_with_weights` is the definition; it writes down a tensor of T x S x D. `additive_attend` gives the
same, on a GPU through `harken.kernels.additive_attention.operator`, which does not. A query that may see nothing gets
weights and a context of 0. Bahdanau et al. (2015).

>>> queries, keys = torch.zeros(1, 2, 3), torch.tensor([[[9.0, 9.0, 9.0], [0.0, 0.0, 0.0]]])
>>> context = additive_attend(queries, keys, torch.ones(3), torch.tensor([[[1.0], [0.0]]]))
>>> [round(value, 4) for value in context.flatten().tolist()]  # e^3 / (e^3 + e^0), for both queries
[0.9526, 0.9526]
"""

from __future__ import annotations

from typing import Literal, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from harken.kernels.additive_attention.operator import additive_attention, serves
from harken.nn.attention.functional import lookup
from harken.nn.masks import causal_mask


@overload
def additive_attend(
    queries: Tensor,
    keys: Tensor,
    vector: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    weights: Literal[False] = False,
) -> Tensor: ...


@overload
def additive_attend(
    queries: Tensor,
    keys: Tensor,
    vector: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    *,
    weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...


def additive_attend(
    queries: Tensor,
    keys: Tensor,
    vector: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Queries (..., T, D), keys (..., S, D), v (D,), values (..., S, V) -> contexts (..., T, V).

    The mask broadcasts to (..., T, S) and is True where visible. For heads, (B, N, T, K) with a v (N, K) of their own.
    Dropout is of weights. With `weights`, also those before dropout (..., T, S) to look at, in float32 at least: no
    gradient passes through them.
    """
    if serves(queries, keys, values):
        context, shares = additive_attention(queries, keys, vector, values, mask, causal, weights, dropout)
    else:
        context, shares = additive_attend_with_weights(queries, keys, vector, values, mask, causal)
        if dropout:
            context = F.dropout(shares, dropout).to(values.dtype) @ values
    return context if shares is None or not weights else (context, shares.detach())


def additive_attend_with_weights(
    queries: Tensor,
    keys: Tensor,
    vector: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
) -> tuple[Tensor, Tensor]:
    """The definition: contexts (..., T, V) and weights (..., T, S), both with gradients."""
    energy = torch.tanh(queries[..., :, None, :] + keys[..., None, :, :])  # (..., T, S, D)
    scores = (energy @ vector[..., None, :, None])[..., 0]  # (..., T, S)
    if causal:
        past = causal_mask(queries.shape[-2], keys.shape[-2], queries.device)
        mask = past if mask is None else mask & past
    weights = lookup(scores, mask)
    return weights.to(values.dtype) @ values, weights
