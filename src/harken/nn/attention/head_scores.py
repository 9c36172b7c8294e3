"""Scores of E9 as heads of a Transformer: what is done to queries and keys before E12 compares them.

E12 scores q . k / sqrt(K), and its fast kernels know nothing else; so most are written as changes of q and k:

scaled          as it stands
dot             q sqrt(K), which undoes the scaling
cosine          q sqrt(K) / (|q| temperature) and k / |k|, a learned temperature for each head (Henry et al., 2020)
multiplicative  q sqrt(K) and W k, a learned W for each head that starts as the scaled score
additive        v^T tanh(W1 k + W2 q) is no product of q and k: `additive_heads.py`

>>> heads = CosineHeads(heads=1, width=2)
>>> query, key = heads.queries(torch.tensor([[[[9.0, 0.0]]]])), heads.keys(torch.tensor([[[[0.5, 0.0]]]]))
>>> round(heads.scores(query, key).item(), 4)  # a cosine of 1 at the first temperature, 0.1
10.0
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.nn.attention.functional import attend, attend_with_weights
from harken.nn.attention.scores import FIRST_TEMPERATURE


class ScaledHeads(nn.Module):
    """q . k / sqrt(K): nothing to do to queries and keys."""

    multiplies = True  # whether the score is a product of queries and keys, as rotary positions need it to be

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()

    def queries(self, query: Tensor) -> Tensor:
        """(B, N, T, K) -> (B, N, T, K)."""
        return query

    def keys(self, key: Tensor) -> Tensor:
        """(B, N, S, K) -> (B, N, S, K), made once and kept in caches."""
        return key

    def pairs(self, query: Tensor, key: Tensor) -> Tensor:
        """Pair by pair, as the equation has it: (..., K) and (..., K) -> (...)."""
        return (query * key).sum(-1) / math.sqrt(query.shape[-1])

    def scores(self, query: Tensor, key: Tensor, table: Tensor | None = None, rows: Tensor | None = None) -> Tensor:
        """Every query with every key: (B, N, T, K), (B, N, S, K) -> (B, N, T, S).

        With a table (R, K), key j has row rows[.., i, j] of it added when query i looks; rows (T, S) or (B, 1, T, S).
        """
        scores = query @ key.transpose(-1, -2)
        if table is not None and rows is not None:
            scores = scores + (query @ table.t()).gather(-1, rows.expand(scores.shape))
        return scores / math.sqrt(query.shape[-1])

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        dropout: float = 0.0,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Contexts (B, N, T, K), the quick way; the bias (N, T, S) is added to the scores."""
        return attend(query, key, value, mask, causal, dropout, bias)

    def attend_with_weights(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The definition of `attend`: contexts, and weights (B, N, T, S)."""
        return attend_with_weights(query, key, value, mask, causal, bias)


class DotHeads(ScaledHeads):
    """q . k."""

    def queries(self, query: Tensor) -> Tensor:
        """Longer by sqrt(K)."""
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
    """q^T W k, a W for each head. The matrices that make q and k could hold it too; here it is by itself."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__(heads, width)
        self.weight = nn.Parameter(torch.eye(width).repeat(heads, 1, 1) / math.sqrt(width))  # (N, K, K)

    def keys(self, key: Tensor) -> Tensor:
        """W k."""
        return key @ self.weight.transpose(-1, -2)


PLAIN = ScaledHeads(1, 1)
