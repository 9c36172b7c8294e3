"""The load-balancing loss of all mixtures of experts in a forward pass (`experts.py`).

One object is passed through the blocks and each block with experts appends to it, so that no module keeps state.

>>> balance = Balance()
>>> balance.parts += [torch.tensor(1.0), torch.tensor(1.5)]
>>> balance.total().item()
2.5
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Balance:
    """Collects the balance of every layer with experts."""

    real: Tensor | None = None  # (B, T) True where a token counts; None: everywhere
    parts: list[Tensor] = field(default_factory=list)

    def total(self) -> Tensor:
        """The sum over the layers; 0 where there were none."""
        return torch.stack(self.parts).sum() if self.parts else torch.tensor(0.0)
