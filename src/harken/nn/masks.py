"""Which positions may be looked at: True is real or allowed, False is hidden.

>>> length_mask(torch.tensor([1, 3]), 3).tolist()
[[True, False, False], [True, True, True]]
>>> causal_mask(2).tolist()
[[True, False], [True, True]]
"""

from __future__ import annotations

import torch
from torch import Tensor


def length_mask(lengths: Tensor, size: int) -> Tensor:
    """(B,) lengths -> (B, size), True where a row still has tokens."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def causal_mask(rows: int, columns: int | None = None, device: torch.device | str | None = None) -> Tensor:
    """(rows, columns), square where not said otherwise: True where column j is not in the future of row i."""
    return torch.ones(rows, columns or rows, dtype=torch.bool, device=device).tril()


def visible(mask: Tensor | None, causal: bool, rows: int, columns: int, device: torch.device) -> Tensor | None:
    """One mask (..., rows, columns) for padding and future; None where all may be seen."""
    if not causal:
        return mask
    past = causal_mask(rows, columns, device)
    return past if mask is None else mask & past
