"""Relative positions: a learned vector for each distance, on keys and on values.

e_ij = q_i . (k_j + a^K_d) / sqrt(K)      z_i = sum_j softmax(e)_ij (v_j + a^V_d)      d = clip(j - i, -C, C)

Shaw et al. (2018), equations 3 to 5; the vectors are shared by the heads of a layer. Distances may also be given, such
as those in a dependency tree (`dependency.py`).

No vector is made for each pair: every query is multiplied with the 2C + 1 key vectors once, and the weights are summed
by distance before they are multiplied with the value vectors.

>>> layer = RelativePositions(4, clip=2)
>>> layer.buckets(1, 4)[0].tolist()  # a distance of three counts as two
[0, 0, 1, 2]
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harken.nn.attention.head_scores import ScaledHeads
from harken.nn.positions.base import AttentionFunctions, AttentionPositions, distances


class RelativePositions(AttentionPositions):
    """Two tables (2C + 1, K)."""

    uses_distances = True

    def __init__(self, head_width: int, clip: int = 16) -> None:
        super().__init__()
        self.clip = clip
        self.keys = nn.Parameter(torch.empty(2 * clip + 1, head_width))  # a^K
        self.values = nn.Parameter(torch.empty(2 * clip + 1, head_width))  # a^V
        nn.init.xavier_uniform_(self.keys)
        nn.init.xavier_uniform_(self.values)

    def buckets(self, targets: int, sources: int, given: Tensor | None = None) -> Tensor:
        """(T, S), or (B, 1, T, S) from given distances (B, T, S): the row of the tables for each pair."""
        apart = distances(targets, sources, self.keys.device) if given is None else given[:, None]
        return apart.clamp(-self.clip, self.clip) + self.clip

    def functions(
        self, score: ScaledHeads, targets: int, sources: int, given: Tensor | None = None
    ) -> AttentionFunctions:
        """score(q, k + a^K), and sum_j w_ij a^V."""
        rows = self.buckets(targets, sources, given)
        return AttentionFunctions(
            score=lambda query, key: score(query, key, self.keys, rows),
            value_bias=lambda weights: self.weighted_values(weights, rows),
        )

    def weighted_values(self, weights: Tensor, rows: Tensor) -> Tensor:
        """Weights (B, N, T, S) and the row of each pair -> sum_j w_ij a^V_row, (B, N, T, K)."""
        exact = torch.promote_types(weights.dtype, torch.float32)  # sums of many small weights stall in bfloat16
        by_distance = torch.zeros(*weights.shape[:-1], len(self.values), dtype=exact, device=weights.device)
        by_distance = by_distance.scatter_add(-1, rows.expand(weights.shape), weights.to(exact))  # (B, N, T, 2C + 1)
        return by_distance.to(weights.dtype) @ self.values.to(weights.dtype)
