"""Rotary positions: queries and keys are rotated by an angle proportional to their position.

q_i -> R(i) q_i, k_j -> R(j) k_j, so that q . k becomes q^T R(j - i) k: only the distance remains. R(i) rotates each
pair of features (2k, 2k + 1) by i / 10000^(2k/K), the angles of sinusoidal positions. Su et al. (2021).

>>> rotated = RotaryPositions(2).rotate(torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]]), 0)  # positions 0 and 1
>>> [[round(value, 4) for value in row] for row in rotated[0, 0].tolist()]  # the second by one radian
[[1.0, 0.0], [0.5403, 0.8415]]
"""

from __future__ import annotations

import torch
from torch import Tensor

from harken.nn.positions.absolute import SinusoidalPositions
from harken.nn.positions.base import AttentionPositions


class RotaryPositions(AttentionPositions):
    """No parameters; heads must have an even width."""

    rotates_qk = True

    def __init__(self, head_width: int) -> None:
        super().__init__()
        if head_width % 2:
            raise ValueError(
                f"rotary positions rotate pairs of features, so heads need an even width, not {head_width}"
            )
        self.angles = SinusoidalPositions(head_width)

    def rotate(self, values: Tensor, start: int | Tensor) -> Tensor:
        """(B, N, T, K) -> (B, N, T, K), the first at position `start`."""
        sine, cosine = self.angles(values.shape[-2], start).unflatten(-1, (-1, 2)).unbind(-1)  # (T, K / 2) each
        first, second = values.unflatten(-1, (-1, 2)).unbind(-1)
        rotated = torch.stack((first * cosine - second * sine, first * sine + second * cosine), -1)
        return rotated.flatten(-2).to(values.dtype)

    def apply_rotary(self, query: Tensor, key: Tensor, start: int | Tensor) -> tuple[Tensor, Tensor]:
        """Both by their positions; cached keys keep their rotation."""
        return self.rotate(query, start), self.rotate(key, start)
