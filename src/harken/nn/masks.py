"""Boolean masks: True where a position may be seen.

>>> length_mask(torch.tensor([1, 3]), 3).tolist()
[[True, False, False], [True, True, True]]
>>> causal_mask(2).tolist()
[[True, False], [True, True]]

Queries stand at the end of the keys, so one rule serves whole sequences and steps with a cache:

>>> causal_mask(1, 5).tolist(), causal_mask(2, 3).tolist()
([[True, True, True, True, True]], [[True, True, False], [True, True, True]])
"""

from __future__ import annotations

import torch
from torch import Tensor


def length_mask(lengths: Tensor, size: int) -> Tensor:
    """Lengths (B,) -> (B, size), True before the end of each row."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def causal_mask(targets: int, sources: int | None = None, device: torch.device | str | None = None) -> Tensor:
    """(T, S), square by default: True where key j is not in the future of query i, which is at position S - T + i."""
    sources = targets if sources is None else sources
    return torch.ones(targets, sources, dtype=torch.bool, device=device).tril(sources - targets)


def attention_mask(
    mask: Tensor | None, causal: bool, targets: int, sources: int, device: torch.device
) -> Tensor | None:
    """One mask (..., T, S) for padding and future; None where everything may be seen."""
    if not causal or targets == 1:  # the last position sees all
        return mask
    past = causal_mask(targets, sources, device)
    return past if mask is None else mask & past
