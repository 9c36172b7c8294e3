"""Scores of E9 as heads of a Transformer: what is done to queries and keys before E12 compares them.

E12 scores q . k / sqrt(K), and its fast kernels know nothing else; so the others are written as changes of q and k:

scaled   as it stands
dot      q sqrt(K), which undoes the scaling
cosine   q sqrt(K) / (|q| temperature) and k / |k|, a learned temperature for each head (Henry et al., 2020)

The multiplicative score is there already: q = W_q s and k = W_k h make q . k = s^T (W_q^T W_k) h.

>>> heads = head_score("cosine", 1)
>>> query, key = heads.queries(torch.tensor([[[[9.0, 0.0]]]])), heads.keys(torch.tensor([[[[0.5, 0.0]]]]))
>>> round((query * key).sum().item() / math.sqrt(2), 4)  # a cosine of 1 at the first temperature, 0.1
10.0
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.nn.scores import FIRST_TEMPERATURE


class ScaledHeads(nn.Module):
    """q . k / sqrt(K): nothing to do."""

    def __init__(self, heads: int) -> None:
        super().__init__()

    def queries(self, query: Tensor) -> Tensor:
        """(B, N, T, K) -> (B, N, T, K)."""
        return query

    def keys(self, key: Tensor) -> Tensor:
        """(B, N, S, K) -> (B, N, S, K)."""
        return key


class DotHeads(ScaledHeads):
    """q . k."""

    def queries(self, query: Tensor) -> Tensor:
        """Longer by sqrt(K)."""
        return query * math.sqrt(query.shape[-1])


class CosineHeads(ScaledHeads):
    """q . k / (|q| |k| temperature)."""

    def __init__(self, heads: int) -> None:
        super().__init__(heads)
        self.log_temperature = nn.Parameter(torch.full((heads, 1, 1), math.log(FIRST_TEMPERATURE)))

    def queries(self, query: Tensor) -> Tensor:
        """Each of length sqrt(K) / temperature."""
        scale = math.sqrt(query.shape[-1]) * torch.exp(-self.log_temperature)
        return (F.normalize(query, dim=-1) * scale).to(query.dtype)

    def keys(self, key: Tensor) -> Tensor:
        """Each of length 1."""
        return F.normalize(key, dim=-1)


HEAD_SCORES = {"scaled": ScaledHeads, "dot": DotHeads, "cosine": CosineHeads}


def head_score(name: str, heads: int) -> ScaledHeads:
    """The score of this name for so many heads."""
    if name not in HEAD_SCORES:
        raise ValueError(f"heads have no score called {name!r}; choose one of {', '.join(HEAD_SCORES)}")
    return HEAD_SCORES[name](heads)
