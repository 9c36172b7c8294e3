"""Training in the small, for experiments: AdamW with clipped gradients, a short warm-up and a straight way down.

The schedule is that of `harken.training.schedules` in its "linear" form, so that a network here is trained as a recipe
would train it; what is left out is all that a run of hours needs (validation, checkpoints, averages, processes).

>>> model = nn.Linear(1, 1)
>>> losses = learn(model, lambda step: (model(torch.ones(1, 1)) - 3).square().mean(), steps=200, rate=0.1)
>>> losses[-1] < 0.01 < losses[0]
True
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from harken.training.optimizers import clip_by_global_norm
from harken.training.schedules import factor


def learn(
    model: nn.Module, loss: Callable[[int], Tensor], steps: int, rate: float, warmup: int = 50, clip: float = 1.0
) -> list[float]:
    """So many updates on `loss(step)`, the mean over a batch made for that step; returns the losses."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0)
    losses = []
    for step in range(1, steps + 1):
        value = loss(step)
        optimizer.zero_grad()
        value.backward()
        clip_by_global_norm(model.parameters(), clip)
        for group in optimizer.param_groups:
            group["lr"] = rate * factor("linear", step, step / steps, min(warmup, steps // 4), 1.0)
        optimizer.step()
        losses.append(value.item())
    return losses


def parameters(model: nn.Module) -> int:
    """How many numbers are learned."""
    return sum(parameter.numel() for parameter in model.parameters())
