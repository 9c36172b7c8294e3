"""A soft window that slides over a text while something longer is written from it (S15, an attention of E8's kind).

(α̂, β̂, Δ̂)_t = W h_t + b              three numbers for each of K Gaussians
κ_t = κ_{t-1} + exp(Δ̂_t)              the window only moves on
φ(t, u) = Σ_k α_k exp(-β_k (κ_k - u - ½)²)
w_t = Σ_u φ(t, u) c_u                  what is seen of the characters c

Character u reaches from u to u + 1, and its middle is where it weighs most; at first the window moves 1 / `pace` of a
character a step. The weights are no probabilities: they may add up to more or less than 1. Padding is not seen.
Graves (2013), equations 46 to 51.

>>> window = GaussianWindow(4, gaussians=2, pace=8)
>>> window.project.weight.data.zero_().shape
torch.Size([6, 4])
>>> look = window(torch.zeros(1, 4), window.start(1), torch.ones(1, 3, 5), torch.ones(1, 3))
>>> look.position.tolist(), int(look.weights.argmax())
([[0.125, 0.125]], 0)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

SHARPNESS = 2.0  # β at first: a deviation of half a character


class Look(NamedTuple):
    """What one step sees."""

    seen: Tensor  # w (B, E)
    position: Tensor  # κ (B, K)
    weights: Tensor  # φ (B, U)


class GaussianWindow(nn.Module):
    """Looks at characters (B, U, E) through K Gaussians, moved by a hidden state (B, H)."""

    def __init__(self, hidden: int, gaussians: int, pace: float = 16.0) -> None:
        super().__init__()
        if gaussians < 1 or pace <= 0:
            raise ValueError(f"a window needs at least one Gaussian and a pace above 0, not {gaussians} and {pace}")
        self.gaussians = gaussians
        self.project = nn.Linear(hidden, 3 * gaussians)
        first = torch.tensor([-math.log(gaussians), math.log(SHARPNESS), -math.log(pace)])
        with torch.no_grad():
            self.project.weight.mul_(0.1)  # so that the first steps are even
            self.project.bias.copy_(first.repeat_interleave(gaussians))

    def start(self, rows: int) -> Tensor:
        """κ before the first step, (B, K): where the text begins."""
        return self.project.weight.new_zeros(rows, self.gaussians)

    def forward(self, hidden: Tensor, position: Tensor, characters: Tensor, mask: Tensor) -> Look:
        """One step: h (B, H), κ (B, K), characters (B, U, E), mask (B, U) of 1 and 0."""
        weight, sharpness, step = self.project(hidden).exp().chunk(3, -1)  # (B, K) each
        position = position + step
        middles = torch.arange(characters.shape[1], device=hidden.device) + 0.5  # (U,)
        bumps = torch.exp(-sharpness[:, :, None] * (position[:, :, None] - middles).square())  # (B, K, U)
        weights = torch.bmm(weight[:, None], bumps)[:, 0] * mask  # (B, U)
        seen = torch.bmm(weights[:, None], characters)[:, 0]  # (B, E)
        return Look(seen, position, weights)
