"""Words with what a frozen model of language says of them where they stand: the input of any encoder.

    v_t = gamma sum_j s_j norm(h_{j,t})            h: layers of an ELMo or a language model, s and gamma learned here
    e_t = W [E[w_t]; dropout(v_t)] + b             beside the word's own vector, brought to the width of the encoder

The layers come with the batch, since what made them is not trained. Peters et al. (2018).

>>> from harken.models.reader import TokenInput
>>> inputs = ContextInput(TokenInput(9, 8), 8, layers=3, context=6)
>>> inputs(InContext(torch.tensor([[4, 5]]), torch.randn(1, 2, 3, 6))).shape
torch.Size([1, 2, 8])
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.nn.dropout import Dropout
from harken.nn.layer_mix import LayerMix

DROPOUT = 0.3


@dataclass(frozen=True)
class InContext:
    """A batch with its layers."""

    values: Any  # what the words' own input takes
    layers: Tensor  # (B, T, L, C), zeros behind a row's end

    @property
    def shape(self) -> torch.Size:
        """(B, T)."""
        return self.layers.shape[:2]

    def to(self, device: torch.device | str) -> InContext:
        """The batch on another device."""
        return replace(self, values=self.values.to(device), layers=self.layers.to(device, non_blocking=True))


class ContextInput(nn.Module):
    """`InContext` -> (B, T, E)."""

    def __init__(self, words: nn.Module, width: int, *, layers: int, context: int, dropout: float = DROPOUT) -> None:
        super().__init__()
        self.words, self.mix, self.dropout = words, LayerMix(layers), Dropout(dropout)
        self.project = nn.Linear(width + context, width)
        self.scale = width**0.5  # embeddings are made small by this, and encoders multiply by it

    def forward(self, batch: InContext) -> Tensor:
        """Words and context side by side, mapped to the width of a word."""
        layers = batch.layers.float().movedim(2, 0)  # (L, B, T, C)
        mixed = self.mix(F.layer_norm(layers, layers.shape[-1:]))
        both = torch.cat([self.words(batch.values) * self.scale, self.dropout(mixed)], -1)
        projected: Tensor = self.project(both) / self.scale
        return projected


def values_alone(batch: Any) -> Any:
    """What the words' own input takes, with or without a context beside it."""
    return batch.values if isinstance(batch, InContext) else batch


def words_alone(inputs: nn.Module) -> nn.Module:
    """The input of the words themselves, with or without a context beside it."""
    return inputs.words if isinstance(inputs, ContextInput) else inputs
