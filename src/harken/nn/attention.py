"""Attention as a soft lookup (E8, E10, E12): Attention(Q, K, V) = softmax(Q K^T / sqrt(K)) V.

`attend_with_weights` is the definition and returns the weights; `attend` is its fast twin through
`scaled_dot_product_attention`, which never writes them down. `Attention` does the same for the decoder of a recurrent
network, with any score of `harken.nn.scores`. Bahdanau et al. (2015); Vaswani et al. (2017).

The lecture's example: a query that scores 112 and 96 against two keys of width 64.

>>> query, keys = torch.zeros(1, 64), torch.zeros(2, 64)
>>> query[0, 0], keys[0, 0], keys[1, 0] = 1.0, 112.0, 96.0
>>> [round(weight, 2) for weight in attend_with_weights(query, keys, keys)[1][0].tolist()]
[0.88, 0.12]
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.nn.masks import causal_mask

SHORT = 64  # compiled for a GPU and without a mask, plain products beat half-empty tiles of fused kernels up to here


def softmax(scores: Tensor) -> Tensor:
    """Over the last dimension, in float32 at least."""
    return torch.softmax(scores, -1, dtype=torch.promote_types(scores.dtype, torch.float32))


def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, causal: bool = False, dropout: float = 0.0
) -> Tensor:
    """Queries (..., T, K), keys (..., S, K), values (..., S, K) -> contexts (..., T, K); mask True = visible."""
    short = query.shape[-2] <= SHORT and key.shape[-2] <= SHORT
    if torch.compiler.is_compiling() and query.is_cuda and short and mask is None and not dropout:
        return attend_with_weights(query, key, value, None, causal)[0]
    if causal and mask is not None:  # torch takes one or the other
        mask, causal = mask & causal_mask(query.shape[-2], key.shape[-2], query.device), False
    half = query.dtype if query.dtype == torch.bfloat16 and not query.is_cuda else None
    if half:  # torch's CPU kernel is several times slower in bfloat16 than in float32
        query, key, value = query.float(), key.float(), value.float()
        with torch.autocast("cpu", enabled=False):
            context = F.scaled_dot_product_attention(query, key, value, mask, dropout, causal)
        return context.to(half)
    return F.scaled_dot_product_attention(query, key, value, mask, dropout, causal)


def attend_with_weights(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """The definition of `attend`: contexts (..., T, K) and weights (..., T, S)."""
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])  # (..., T, S)
    if causal:
        scores = scores.masked_fill(~causal_mask(query.shape[-2], key.shape[-2], query.device), -torch.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = softmax(scores).to(value.dtype)
    return weights @ value, weights


class Attention(nn.Module):
    """One query a row over a memory: e_i = score(s, h_i), a = softmax(e), c = sum_i a_i h_i (E8)."""

    def __init__(self, score: nn.Module) -> None:
        super().__init__()
        self.score = score

    def forward(self, query: Tensor, keys: Tensor, memory: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Query (B, H), keys from `score.keys(memory)`, memory (B, S, M) -> context (B, M), weights (B, S)."""
        scores = self.score(query, keys)  # (B, S)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = softmax(scores).to(memory.dtype)
        context = torch.bmm(weights[:, None], memory)[:, 0]  # (B, M)
        return context, weights
