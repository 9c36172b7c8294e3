"""Attention as a lookup: Attention(Q, K, V) = softmax(Q K^T / sqrt(K)) V.

`attend_with_weights` is the definition and returns the weights; `attend` is its fast twin through
`scaled_dot_product_attention`, which never writes them down. `Attention` does the same for the decoder of a recurrent
network, with any score of `harken.nn.attention.scores`. A query that may see nothing gets weights and a context of 0.
Bahdanau et al. (2015); Vaswani et al. (2017).

The lecture's example: a query that scores 112 and 96 against two keys of width 64.

>>> query, keys = torch.zeros(1, 64), torch.zeros(2, 64)
>>> query[0, 0], keys[0, 0], keys[1, 0] = 1.0, 112.0, 96.0
>>> [round(weight, 2) for weight in attend_with_weights(query, keys, keys)[1][0].tolist()]
[0.88, 0.12]

Soft and hard lookup are one: the colder, the harder.

>>> scores = torch.tensor([1.0, 3.0, 2.0])
>>> [[round(share, 2) for share in lookup(scores / cold).tolist()] for cold in (1, 0.2)]
[[0.09, 0.67, 0.24], [0.0, 0.99, 0.01]]
>>> lookup(scores, hard=True).tolist()
[0.0, 1.0, 0.0]
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


def lookup(scores: Tensor, mask: Tensor | None = None, hard: bool = False) -> Tensor:
    """Scores (..., S) -> weights (..., S) that sum to 1, and exactly 0 where the mask is False.

    Hard is what soft comes to as the scores are divided by a temperature that goes to 0: all weight on the best,
    shared by those that are equally good.
    """
    if mask is not None:  # -inf would do but for rows that are hidden as a whole, which it turns into NaN
        scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    if hard:
        best = (scores == scores.amax(-1, keepdim=True)).to(torch.promote_types(scores.dtype, torch.float32))
        weights = best / best.sum(-1, keepdim=True)
    else:
        weights = softmax(scores)
    return weights if mask is None else torch.where(mask, weights, 0.0)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    bias: Tensor | None = None,
) -> Tensor:
    """Queries (..., T, K), keys (..., S, K), values (..., S, K) -> contexts (..., T, K).

    The mask is True where visible; the bias (..., T, S) is added to the scores.
    """
    short = query.shape[-2] <= SHORT and key.shape[-2] <= SHORT
    if torch.compiler.is_compiling() and query.is_cuda and short and mask is None and not dropout:
        return attend_with_weights(query, key, value, None, causal, bias)[0]
    if causal and (mask is not None or bias is not None):  # torch takes one or the other
        past = causal_mask(query.shape[-2], key.shape[-2], query.device)
        mask, causal = past if mask is None else mask & past, False
    half = query.dtype if query.dtype == torch.bfloat16 and not query.is_cuda else None
    if half:  # torch's CPU kernel is several times slower in bfloat16 than in float32
        query, key, value = query.float(), key.float(), value.float()
    if bias is not None:
        bias = bias.to(query.dtype)
        mask = bias if mask is None else torch.where(mask, bias, -torch.inf)
    if half:
        with torch.autocast("cpu", enabled=False):
            context = F.scaled_dot_product_attention(query, key, value, mask, dropout, causal)
        return context.to(half)
    return F.scaled_dot_product_attention(query, key, value, mask, dropout, causal)


def attend_with_weights(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The definition of `attend`: contexts (..., T, K) and weights (..., T, S)."""
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])  # (..., T, S)
    if bias is not None:
        scores = scores + bias
    if causal:
        past = causal_mask(query.shape[-2], key.shape[-2], query.device)
        mask = past if mask is None else mask & past
    weights = lookup(scores, mask).to(value.dtype)
    return weights @ value, weights


class Attention(nn.Module):
    """One query a row over a memory: e_i = score(s, h_i), a = softmax(e), c = sum_i a_i h_i.

    With `hard`, an evaluating layer takes the best alone; it is trained soft, as the best has no gradient.
    """

    def __init__(self, score: nn.Module, hard: bool = False) -> None:
        super().__init__()
        self.score, self.hard = score, hard

    def forward(
        self, query: Tensor, keys: Tensor, memory: Tensor, mask: Tensor | None, coverage: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Query (B, H), keys from `score.keys(memory)`, memory (B, S, M) -> context (B, M), weights (B, S).

        Coverage (B, S), the sum of earlier weights, is for scores that take it.
        """
        scores = self.score(query, keys) if coverage is None else self.score(query, keys, coverage)  # (B, S)
        weights = lookup(scores, mask, self.hard and not self.training).to(memory.dtype)
        context = torch.bmm(weights[:, None], memory)[:, 0]  # (B, M)
        return context, weights
