"""Scores for the heads of a Transformer.

Fused attention computes q . k / sqrt(K), so dot-product scores are written as changes of q and k:

scaled          q . k / sqrt(K); Vaswani et al. (2017)
dot             q . k: q is multiplied by sqrt(K)
cosine          q . k / (|q| |k| temperature), a learned temperature for each head; Henry et al. (2020)
multiplicative  q^T W k, a learned W for each head, initialised as the scaled score; Luong et al. (2015)
additive        v^T tanh(W1 k + W2 q), all three for each head; Bahdanau et al. (2015). Not a dot product.

>>> heads = CosineHeads(heads=1, width=2)
>>> query, key = heads.queries(torch.tensor([[[[9.0, 0.0]]]])), heads.keys(torch.tensor([[[[0.5, 0.0]]]]))
>>> round(heads(query, key).item(), 4)  # a cosine of 1 at the initial temperature, 0.1
10.0
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from harken.nn.attention.scores import FIRST_TEMPERATURE

CHUNK = 2**22  # values of T x S x K held at once by the additive score: 16 MB in float32


class ScaledHeads(nn.Module):
    """q . k / sqrt(K)."""

    is_dot_product = True  # of what `queries` and `keys` return; rotary positions need that

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()

    def queries(self, query: Tensor) -> Tensor:
        """(B, N, T, K) -> (B, N, T, K)."""
        return query

    def keys(self, key: Tensor) -> Tensor:
        """(B, N, S, K) -> (B, N, S, K), computed once and cached."""
        return key

    def forward(self, query: Tensor, key: Tensor, table: Tensor | None = None, rows: Tensor | None = None) -> Tensor:
        """Results of `queries` and `keys`, (B, N, T, K) and (B, N, S, K) -> scores (B, N, T, S).

        With a table (R, K), row rows[.., i, j] of it is added to key j for query i; rows (T, S) or (B, 1, T, S).
        """
        scores = query @ key.transpose(-1, -2)
        if table is not None and rows is not None:  # q . (k + a) = q . k + q . a
            scores = scores + (query @ table.t()).gather(-1, rows.expand(scores.shape))
        return scores / math.sqrt(query.shape[-1])


class DotHeads(ScaledHeads):
    """q . k."""

    def queries(self, query: Tensor) -> Tensor:
        """q sqrt(K), which undoes the scaling."""
        return query * math.sqrt(query.shape[-1])


class CosineHeads(ScaledHeads):
    """q . k / (|q| |k| temperature)."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__(heads, width)
        self.log_temperature = nn.Parameter(torch.full((heads, 1, 1), math.log(FIRST_TEMPERATURE)))

    def queries(self, query: Tensor) -> Tensor:
        """Each of length sqrt(K) / temperature."""
        scale = math.sqrt(query.shape[-1]) * torch.exp(-self.log_temperature)
        return (F.normalize(query, dim=-1) * scale).to(query.dtype)

    def keys(self, key: Tensor) -> Tensor:
        """Each of length 1."""
        return F.normalize(key, dim=-1)


class MultiplicativeHeads(DotHeads):
    """q^T W k, a W for each head. The projections of q and k could express it too; here it is explicit."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__(heads, width)
        self.weight = nn.Parameter(torch.eye(width).repeat(heads, 1, 1) / math.sqrt(width))  # (N, K, K)

    def keys(self, key: Tensor) -> Tensor:
        """W k."""
        return key @ self.weight.transpose(-1, -2)


class AdditiveHeads(ScaledHeads):
    """v^T tanh(W1 k + W2 q).

    >>> heads = AdditiveHeads(heads=1, width=1)
    >>> for weight, value in zip(heads.parameters(), (2.0, 3.0, 10.0)):
    ...     _ = weight.data.fill_(value)
    >>> query, key = heads.queries(torch.tensor([[[[0.5]]]])), heads.keys(torch.tensor([[[[-1.0], [-0.25]]]]))
    >>> [round(score, 4) for score in heads(query, key)[0, 0, 0].tolist()]  # 10 tanh(3 x 0.5 + 2 k)
    [-4.6212, 7.6159]
    """

    is_dot_product = False

    def __init__(self, heads: int, width: int) -> None:
        super().__init__(heads, width)
        self.key_weight = nn.Parameter(torch.empty(heads, width, width))  # W1
        self.query_weight = nn.Parameter(torch.empty(heads, width, width))  # W2
        self.energy = nn.Parameter(torch.randn(heads, width) * width**-0.5)  # v
        for weight in (*self.key_weight.data, *self.query_weight.data):
            nn.init.orthogonal_(weight)

    def queries(self, query: Tensor) -> Tensor:
        """W2 q."""
        return query @ self.query_weight.transpose(-1, -2)

    def keys(self, key: Tensor) -> Tensor:
        """W1 k."""
        return key @ self.key_weight.transpose(-1, -2)

    def forward(self, query: Tensor, key: Tensor, table: Tensor | None = None, rows: Tensor | None = None) -> Tensor:
        """v^T tanh(q + k), or v^T tanh(q + k + a) with a row a of the table for each pair."""
        batch, heads, targets, width = query.shape
        each = max(1, heads * key.shape[-2] * width)  # values for one target position
        if batch * targets * each <= CHUNK:
            return additive_scores(query, key, self.energy, table, rows)
        sentences = max(1, CHUNK // (targets * each))
        positions = max(1, min(targets, CHUNK // (sentences * each)))
        rows = None if rows is None else rows.expand(batch, 1, targets, -1)
        scores = []
        for first in range(0, batch, sentences):
            some, parts = slice(first, first + sentences), []
            for start in range(0, targets, positions):
                here = slice(start, start + positions)
                inputs = (
                    *(query[some, :, here], key[some], self.energy),
                    *(table, None if rows is None else rows[some, :, here]),
                )
                if torch.is_grad_enabled():  # recompute in the backward pass, so that memory grows with T S, not T S K
                    parts.append(checkpoint(additive_scores, *inputs, use_reentrant=False, preserve_rng_state=False))
                else:
                    parts.append(additive_scores(*inputs))
            scores.append(torch.cat(parts, 2))
        return torch.cat(scores)


def additive_scores(
    query: Tensor, key: Tensor, vector: Tensor, table: Tensor | None = None, rows: Tensor | None = None
) -> Tensor:
    """v^T tanh(q + k): queries (..., T, K), keys (..., S, K), v (K,) or (N, K) -> scores (..., T, S)."""
    energy = query[..., :, None, :] + key[..., None, :, :]  # (..., T, S, K)
    if table is not None and rows is not None:
        energy += table[rows]
    return (energy.tanh_() @ vector[..., None, :, None].to(energy.dtype))[..., 0]


HEAD_SCORES: dict[str, type[ScaledHeads]] = {
    "scaled": ScaledHeads,
    "dot": DotHeads,
    "cosine": CosineHeads,
    "multiplicative": MultiplicativeHeads,
    "additive": AdditiveHeads,
}


def head_score(name: str, heads: int, width: int) -> ScaledHeads:
    """The score of this name for so many heads of this width."""
    if name not in HEAD_SCORES:
        raise ValueError(f"heads have no score called {name!r}; choose one of {', '.join(HEAD_SCORES)}")
    return HEAD_SCORES[name](heads, width)
