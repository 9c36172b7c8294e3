"""What experts have to say of a pass beside its values: how evenly they were used (`experts.py`).

One is handed down through the blocks of a pass and each of them adds to it, so that no module keeps anything.

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
    """Gathers the balance of every layer with experts."""

    real: Tensor | None = None  # (B, T) True where a token counts; None: everywhere
    parts: list[Tensor] = field(default_factory=list)

    def total(self) -> Tensor:
        """The sum over the layers; 0 where there were none."""
        return torch.stack(self.parts).sum() if self.parts else torch.tensor(0.0)
