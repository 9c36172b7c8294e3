"""A batch of a job that gives one answer for each sequence, as `inspection.measures.running` runs a network on it.

>>> network = torch.nn.Linear(3, 5)
>>> logits, labels, last = LabelBatch((torch.zeros(2, 3),), torch.tensor([4, 0])).predictions(network)
>>> logits.shape, labels.shape, last.tolist()
(torch.Size([2, 1, 5]), torch.Size([2, 1]), [0, 0])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class LabelBatch:
    """Sequences, each with the label (B,) it should get, or with shares of labels (B, V)."""

    inputs: Sequence[Any]  # what the network is called with; the logits (B, V) are what it returns, or its first part
    labels: Tensor
    direct: bool = False  # whether the answer looks at every step, and not at the last one alone

    def predictions(self, network: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (B, 1, V), the labels (B, 1), and the place of each row's only answer (B,): 0."""
        output = network(*self.inputs)
        logits = output if isinstance(output, Tensor) else output[0]
        return logits[:, None], self.labels[:, None], torch.zeros(len(logits), dtype=torch.long, device=logits.device)
