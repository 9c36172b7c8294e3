"""How positions enter self-attention: by rotating queries and keys, or by functions that attention calls.

A kind of positions overrides `apply_rotary`, which changes queries and keys before they are compared and cached, or
`functions`, which gives attention its score, bias and value bias (`harken.nn.attention.functional`). Queries stand at
the end of the keys: of T queries and S keys, query i is at position S - T + i. So one rule serves whole sequences
(T = S) and steps with a cache (T < S).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from harken.nn.attention.functional import BiasFunction, ScoreFunction, ValueBiasFunction
from harken.nn.attention.head_scores import ScaledHeads


def distances(targets: int, sources: int, device: torch.device | str | None = None) -> Tensor:
    """(T, S) distances j - i from query to key, negative for the past.

    >>> distances(2, 3).tolist()
    [[-1, 0, 1], [-2, -1, 0]]
    """
    keys = torch.arange(sources, device=device)
    return keys - keys[sources - targets :, None]


class AttentionFunctions(NamedTuple):
    """The score, the bias and the value bias of one attention, by its positions."""

    score: ScoreFunction
    bias: BiasFunction | None = None
    value_bias: ValueBiasFunction | None = None


class AttentionPositions(nn.Module):
    """Attention without positions: the base class of those with.

    A kind of your own overrides `functions`: here a score loses 1 for every step of distance.

    >>> class Near(AttentionPositions):
    ...     def functions(self, score, targets, sources, given=None):
    ...         gap = distances(targets, sources).abs()
    ...         return AttentionFunctions(score, bias=lambda query, key: -gap.to(query))
    >>> from harken.nn import SelfAttention
    >>> SelfAttention(8, 2, positions=Near())(torch.randn(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    """

    uses_distances = False  # whether distances may be given in place of j - i
    rotates_qk = False  # whether `apply_rotary` changes anything; only dot-product scores allow that

    def apply_rotary(self, query: Tensor, key: Tensor, start: int | Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys (B, N, T, K), the first at position `start` (an integer, or a tensor (1,))."""
        return query, key

    def functions(
        self, score: ScaledHeads, targets: int, sources: int, given: Tensor | None = None
    ) -> AttentionFunctions:
        """The functions for T queries and S keys; `given` distances (B, T, S) count in place of j - i."""
        return AttentionFunctions(score)
