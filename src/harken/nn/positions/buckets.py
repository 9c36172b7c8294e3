"""Bucket positions: a learned bias for every head and range of distances.

e_ij = score(q_i, k_j) + b_bucket(j - i), with B buckets. Of the distances n = i - j to the past, the first B / 2 have a
bucket each; greater ones share buckets that widen logarithmically up to the largest distance C:

bucket(n) = B/2 + floor(log(n / (B/2)) / log(C / (B/2)) B/2)

Where a token sees both sides, later tokens have a half of the buckets. Raffel et al. (2020), where one table serves all
layers of a stack.

>>> layer = BucketPositions(heads=2, buckets=8, max_distance=16)
>>> layer.buckets_of(torch.tensor([0, -1, -3, -4, -7, -15, -99, 5])).tolist()  # the future counts as 0
[0, 1, 3, 4, 5, 7, 7, 0]
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from harken.nn.attention.head_scores import ScaledHeads
from harken.nn.positions.base import AttentionFunctions, AttentionPositions, distances


class BucketPositions(AttentionPositions):
    """One table (B, N), 0 at first.

    Args:
        heads: N.
        buckets: B, ranges of distances.
        max_distance: C, from which on all distances share the last bucket.
        two_sided: later tokens have a half of the buckets; without it they count as distance 0.
    """

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128, two_sided: bool = False) -> None:
        super().__init__()
        if buckets % 4 or max_distance <= buckets // 2:
            raise ValueError(
                f"{buckets} buckets up to distance {max_distance}: choose a multiple of 4 below twice of it"
            )
        self.max_distance, self.two_sided = max_distance, two_sided
        self.bias = nn.Parameter(torch.zeros(buckets, heads))

    def buckets_of(self, apart: Tensor) -> Tensor:
        """The bucket of every distance j - i."""
        buckets, first = len(self.bias), 0 * apart
        if self.two_sided:
            buckets //= 2
            first, apart = (apart > 0) * buckets, -apart.abs()
        past, exact = (-apart).clamp(min=0), buckets // 2
        ratio = (past.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        wide = exact + (ratio * (buckets - exact)).long()
        return first + torch.where(past < exact, past, wide.clamp(max=buckets - 1))

    def functions(
        self, score: ScaledHeads, targets: int, sources: int, given: Tensor | None = None
    ) -> AttentionFunctions:
        """The score and the bias (N, T, S), or (B, N, T, S) from given distances (B, T, S)."""
        apart = distances(targets, sources, self.bias.device) if given is None else given
        return AttentionFunctions(score, bias=lambda *_: self.bias[self.buckets_of(apart)].movedim(-1, -3))
