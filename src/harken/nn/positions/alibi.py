"""Attention with linear biases (ALiBi): the score falls with the distance.

e_ij = q_i . k_j / sqrt(K) - m |i - j|, with a slope m for each head: 2^(-8/N), 2^(-16/N), ..., 2^-8. Where N is no
power of two, the slopes of the next lower power come first, then every other slope of the next higher. The paper has
causal attention; an encoder here applies the same bias to both sides. Press et al. (2022).

>>> slopes(8)[:3].tolist(), slopes(3).tolist()
([0.5, 0.25, 0.125], [0.0625, 0.00390625, 0.25])
"""

from __future__ import annotations

import torch
from torch import Tensor

from harken.nn.attention.head_scores import ScaledHeads
from harken.nn.positions.base import AttentionFunctions, AttentionPositions, distances


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

    def bias(self, targets: int, sources: int, given: Tensor | None = None) -> Tensor:
        """(N, T, S), or (B, N, T, S) from given distances (B, T, S): -m |i - j|."""
        apart = distances(targets, sources, self.slopes.device) if given is None else given[:, None]
        return -self.slopes[:, None, None] * apart.abs()

    def functions(
        self, score: ScaledHeads, targets: int, sources: int, given: Tensor | None = None
    ) -> AttentionFunctions:
        """The score and the bias, which fused attention takes as a mask that is added."""
        return AttentionFunctions(score, bias=lambda *_: self.bias(targets, sources, given))
