"""Attention with linear biases, ALiBi: the further away, the less is seen.

score_ij = q_i . k_j / sqrt(K) - m |i - j|, with a slope m for each head: 2^(-8/N), 2^(-16/N), ..., 2^-8. Where N is no
power of two, the slopes of the next lower one come first, then every other one of the next higher. The paper looks
back only; an encoder here sees both sides by the same rule. Press et al. (2022).

>>> slopes(8)[:3].tolist(), slopes(3).tolist()
([0.5, 0.25, 0.125], [0.0625, 0.00390625, 0.25])
"""

from __future__ import annotations

import torch
from torch import Tensor

from harken.nn.attention.head_scores import PLAIN, ScaledHeads
from harken.nn.positions.base import AttentionPositions, distances


def slopes(heads: int) -> Tensor:
    """(N,) slopes, the steepest first within each power of two."""
    power = 1 << (heads.bit_length() - 1)  # the largest power of two that is not above `heads`
    exponents = [-8 * (head + 1) / power for head in range(power)]
    exponents += [-8 * (head + 1) / (2 * power) for head in range(0, 2 * (heads - power), 2)]
    return 2 ** torch.tensor(exponents)


class AlibiPositions(AttentionPositions):
    """No parameters; nothing is saved."""

    slopes: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", slopes(heads), persistent=False)

    def bias(self, targets: int, sources: int) -> Tensor:
        """(N, T, S): -m |i - j|."""
        return -self.slopes[:, None, None] * distances(targets, sources, self.slopes.device).abs()

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
        """Contexts (B, N, T, K), the bias handed to torch's fused attention as a mask."""
        return score.attend(query, key, value, mask, causal, dropout, self.bias(query.shape[-2], key.shape[-2]))

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
        """The definition of `attend`."""
        return score.attend_with_weights(query, key, value, mask, causal, self.bias(query.shape[-2], key.shape[-2]))
