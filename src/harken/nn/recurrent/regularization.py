"""Two regularisers inside the recurrence: recurrent (variational) dropout and zoneout.

recurrent dropout    U (m * h): one mask m for all steps of a sequence, on h as the gates see it.
                     Gal and Ghahramani (2016). In training alone; scaled, so the mean stays.
zoneout              h = s * h_old + (1 - s) * h_new, and so for C: each unit skips a step with probability p.
                     Krueger et al. (2017). In training s is drawn for every step; after it s is its mean p, so nothing
                     is left to chance.

>>> stay = Noise(None, (0.25,))
>>> stay.zone(0, 0, torch.tensor([[4.0]]), torch.tensor([[0.0]])).item()  # one quarter of the old state stays
1.0
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Noise:
    """What one direction of one layer drew for a pass."""

    keep: Tensor | None  # (B, R): recurrent dropout
    stay: tuple[Tensor | float, ...]  # for each part of the state: (T, B, H) where it stays as it was, or a mean

    def zone(self, part: int, time: int, old: Tensor, new: Tensor) -> Tensor:
        """Part of the state (B, H) after zoneout; rows may be fewer than were drawn: the first are meant."""
        if not self.stay:
            return new
        stay = self.stay[part]
        if isinstance(stay, float):
            return torch.lerp(new, old, stay)
        return torch.where(stay[time, : new.shape[0]], old, new)

    def mask(self, rows: int) -> Tensor | None:
        """Recurrent dropout's mask of the first rows."""
        return None if self.keep is None else self.keep[:rows]

    def sorted(self, order: Tensor | None) -> Noise:
        """The rows in another order."""
        if order is None:
            return self
        keep = None if self.keep is None else self.keep[order]
        return Noise(keep, tuple(part if isinstance(part, float) else part[:, order] for part in self.stay))


def draw_noise(
    recurrent_dropout: float,
    zoneout: float,
    training: bool,
    time: int,
    batch: int,
    sizes: tuple[int, ...],
    like: Tensor,
) -> Noise:
    """Masks for a state whose parts have `sizes`, h first."""
    keep = None
    if training and recurrent_dropout:
        keep = torch.empty(batch, sizes[0], device=like.device, dtype=like.dtype).bernoulli_(1 - recurrent_dropout)
        keep = keep.div_(1 - recurrent_dropout)
    if not zoneout:
        return Noise(keep, ())
    if not training:
        return Noise(keep, tuple(zoneout for _ in sizes))
    drawn = (_draw(torch.Size((time, batch, size)), zoneout, like.device) for size in sizes)
    return Noise(keep, tuple(drawn))


def _draw(shape: torch.Size, chance: float, device: torch.device) -> Tensor:
    """True with probability `chance`; on a CPU four values share one 64-bit draw, so it is a multiple of 1/65536."""
    if device.type != "cpu":
        return torch.rand(shape, device=device) < chance
    count = shape.numel()
    draws = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    return (draws.view(torch.int16)[:count] < round(chance * 2**16) - 2**15).view(shape)
