"""Relative positions: a learned vector for each distance, on keys and on values.

e_ij = q_i . (k_j + a^K_d) / sqrt(K)      z_i = sum_j softmax(e)_ij (v_j + a^V_d)      d = clip(j - i, -C, C)

Shaw et al. (2018), equations 3 to 5; the vectors are shared by the heads of a layer. Distances may also be given, such
as those in a dependency tree (`dependency.py`).

`attend_with_weights` is the definition, with a vector for every pair. `attend` never makes those: a query meets each of
the 2C + 1 vectors once, and the weights are summed by distance before they meet the values'.

>>> layer = RelativePositions(4, clip=2)
>>> layer.buckets(1, 4)[0].tolist()  # three steps back counts as two
[0, 0, 1, 2]
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.nn.attention.functional import lookup
from harken.nn.attention.head_scores import PLAIN, ScaledHeads
from harken.nn.masks import visible
from harken.nn.positions.base import AttentionPositions, distances


class RelativePositions(AttentionPositions):
    """Two tables (2C + 1, K)."""

    measures = True

    def __init__(self, head_width: int, clip: int = 16) -> None:
        super().__init__()
        self.clip = clip
        self.keys = nn.Parameter(torch.empty(2 * clip + 1, head_width))
        self.values = nn.Parameter(torch.empty(2 * clip + 1, head_width))
        nn.init.xavier_uniform_(self.keys)
        nn.init.xavier_uniform_(self.values)

    def buckets(self, targets: int, sources: int, given: Tensor | None = None) -> Tensor:
        """(T, S), or (B, 1, T, S) from given distances (B, T, S): the row of the tables for each pair."""
        apart = distances(targets, sources, self.keys.device) if given is None else given[:, None]
        return apart.clamp(-self.clip, self.clip) + self.clip

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        causal: bool,
        dropout: float = 0.0,
        given: Tensor | None = None,
        score: ScaledHeads = PLAIN,
    ) -> Tensor:
        """Contexts (B, N, T, K)."""
        shape = (*query.shape[:-1], key.shape[-2])  # (B, N, T, S)
        buckets = self.buckets(shape[-2], shape[-1], given)
        seen = visible(mask, causal, shape[-2], shape[-1], query.device)
        weights = lookup(score.scores(query, key, self.keys, buckets), seen).to(value.dtype)
        weights = F.dropout(weights, dropout) if dropout else weights
        by_distance = weights.new_zeros(*shape[:-1], len(self.values)).scatter_add(-1, buckets.expand(shape), weights)
        return weights @ value + by_distance @ self.values

    def attend_with_weights(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        causal: bool,
        given: Tensor | None = None,
        score: ScaledHeads = PLAIN,
    ) -> tuple[Tensor, Tensor]:
        """The definition of `attend`: contexts, and weights (B, N, T, S)."""
        buckets = self.buckets(query.shape[-2], key.shape[-2], given)
        seen = visible(mask, causal, query.shape[-2], key.shape[-2], query.device)
        key, value = key[..., None, :, :] + self.keys[buckets], value[..., None, :, :] + self.values[buckets]
        weights = lookup(score.pairs(query[..., None, :], key), seen).to(value.dtype)  # of (B, N, T, S, K)
        return (weights[..., None] * value).sum(-2), weights
