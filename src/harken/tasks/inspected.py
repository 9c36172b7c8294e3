"""Batches of predictors as `harken.inspection.measures.running` runs a network on them.

>>> network = torch.nn.Linear(3, 5)
>>> logits, labels, last = label_batch((torch.zeros(2, 3),), torch.tensor([4, 0])).predictions(network)
>>> logits.shape, labels.shape, last.tolist()
(torch.Size([2, 1, 5]), torch.Size([2, 1]), [0, 0])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harken.inspection.pictures.tables import ShadeTable
from harken.models.reader import Reader
from harken.models.transformer.encoder import TransformerEncoder


@dataclass(frozen=True)
class InspectedBatch:
    """Sequences with the labels that their steps should get."""

    inputs: Sequence[Any]  # what `logits` is called with after the network
    labels: Tensor  # (B, T), or (B, T, V) where they are shares
    last: Tensor  # (B,) the last step of each row that has a label
    logits: Callable[..., Tensor]  # of a network and the inputs: (B, T, V)
    direct: bool = False  # whether the answer depends on every step directly, and not through the last one alone

    def predictions(self, network: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (B, T, V), the labels, and the last steps."""
        return self.logits(network, *self.inputs), self.labels, self.last


def label_batch(inputs: Sequence[Any], labels: Tensor, direct: bool = False) -> InspectedBatch:
    """Sequences with one label (B,) each, or with shares of labels (B, V); a network gives logits (B, V), or first."""

    def logits(network: Any, *values: Any) -> Tensor:
        output = network(*values)
        scores: Tensor = output if isinstance(output, Tensor) else output[0]
        return scores[:, None]

    return InspectedBatch(inputs, labels[:, None], labels.new_zeros(len(labels), dtype=torch.long), logits, direct)


@torch.no_grad()
def attention_panels(reader: Reader, values: Any, words: Sequence[str]) -> list[ShadeTable]:
    """The attention of each word of a batch of one in a Transformer, by layer the mean of the heads; else nothing."""
    if not isinstance(reader.encoder, TransformerEncoder):
        return []
    weights = reader.encoder.attention(reader.inputs(values))[0].mean(1).float().cpu().numpy()  # (L, T, T)
    title = "Layer {}: where each word (down) looks (across), the mean of the heads"
    return [
        ShadeTable(words, words, layer, title.format(number), across="word", down="word")
        for number, layer in enumerate(weights, start=1)
    ]
