"""Inputs of any kind, embedded and read by any encoder: ids of words or characters, or frames of real numbers.

ids (B, T)        e_t = E[x_t]
frames (B, T, C)  e_t = W (x_t - mean) / deviation                 sensor values, spectra, pen movements
pieces            e_p = E[x_p], and of each word the memory of its first piece is read (Devlin et al., 2019)
in context        v_t = gamma sum_j s_j norm(h_{j,t})              h: frozen layers of an ELMo or a language model, with
                  e_t = W [E[w_t]; dropout(v_t)] + b               learned s and gamma (Peters et al., 2018)

Encoders multiply their inputs by sqrt(E), as they do with embeddings that are tied to an output layer; so every kind of
input is divided by it. The frozen layers come with the batch.

>>> from harken.models.recurrent.config import RecurrentEncoderConfig
>>> from harken.models.recurrent.encoder import RecurrentEncoder
>>> reader = Reader(FrameInput(3, 8), RecurrentEncoder(RecurrentEncoderConfig(embedding=8, width=4)))
>>> memory = reader(torch.randn(2, 5, 3), torch.tensor([5, 2]))
>>> memory.values.shape, memory.mask.sum().item()
(torch.Size([2, 5, 4]), 7)
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

from harken.models.base import Encoder, Memory, token_embedding
from harken.nn.dropout import Dropout
from harken.nn.layer_mix import LayerMix
from harken.nn.masks import length_mask

DROPOUT = 0.3


class TokenInput(nn.Module):
    """Ids (B, T) -> embeddings (B, T, E)."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.table = token_embedding(size, width)

    def forward(self, ids: Tensor) -> Tensor:
        """The rows of the ids."""
        embedded: Tensor = self.table(ids)
        return embedded

    def dummy(self, length: int) -> Tensor:
        """A batch of one sequence of `length` tokens, for `harken.models.sizing`."""
        return torch.ones(1, length, dtype=torch.long, device=self.table.weight.device)


@dataclass(frozen=True)
class PieceBatch:
    """Sentences as pieces of words."""

    ids: Tensor  # (B, P)
    counts: Tensor  # (B,) pieces of each row
    first: Tensor  # (B, T) the place of the first piece of every word

    def to(self, device: torch.device | str) -> PieceBatch:
        """The batch on another device."""
        return PieceBatch(*(part.to(device, non_blocking=True) for part in (self.ids, self.counts, self.first)))


class PieceInput(TokenInput):
    """`PieceBatch` -> embeddings (B, P, E)."""

    def forward(self, batch: PieceBatch) -> Tensor:  # type: ignore[override]
        """The rows of the pieces."""
        return super().forward(batch.ids)

    def dummy(self, length: int) -> PieceBatch:  # type: ignore[override]
        """A batch of one sentence of `length` words of one piece each."""
        ids = super().dummy(length)
        return PieceBatch(ids, ids.sum(1), torch.arange(length, device=ids.device)[None])


class FrameInput(nn.Module):
    """Frames (B, T, C) -> (B, T, E), each channel standardised by the training data."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        # Parameters without a gradient, so that they are saved with the weights.
        self.mean = nn.Parameter(torch.zeros(channels), requires_grad=False)
        self.deviation = nn.Parameter(torch.ones(channels), requires_grad=False)
        self.project = nn.Linear(channels, width)
        self.scale = width**-0.5

    def fit(self, frames: Tensor) -> None:
        """Mean and deviation of all training frames (N, C); a constant channel is not scaled."""
        with torch.no_grad():
            self.mean.copy_(frames.double().mean(0))
            deviation = frames.double().std(0, correction=0)
            self.deviation.copy_(torch.where(deviation > 1e-12, deviation, 1.0))

    def forward(self, frames: Tensor) -> Tensor:
        """Normalised and projected."""
        projected: Tensor = self.project((frames - self.mean) / self.deviation)
        return projected * self.scale

    def dummy(self, length: int) -> Tensor:
        """A batch of one sequence of `length` frames, for `harken.models.sizing`."""
        return self.mean.new_zeros(1, length, len(self.mean))


@dataclass(frozen=True)
class InContext:
    """A batch with the frozen layers of a model over the same words."""

    values: Any  # the batch for the input of the words themselves
    layers: Tensor  # (B, T, L, C), zeros at padding

    @property
    def shape(self) -> torch.Size:
        """(B, T)."""
        return self.layers.shape[:2]

    def to(self, device: torch.device | str) -> InContext:
        """The batch on another device."""
        return replace(self, values=self.values.to(device), layers=self.layers.to(device, non_blocking=True))


class ContextInput(nn.Module):
    """`InContext` -> (B, T, E)."""

    def __init__(self, words: nn.Module, width: int, *, layers: int, context: int) -> None:
        super().__init__()
        self.words, self.mix, self.dropout = words, LayerMix(layers), Dropout(DROPOUT)
        self.project = nn.Linear(width + context, width)
        self.scale = width**0.5  # inputs are divided by it, and encoders multiply by it

    def forward(self, batch: InContext) -> Tensor:
        """Words and context concatenated, projected to the width of a word."""
        layers = batch.layers.float().movedim(2, 0)  # (L, B, T, C)
        mixed = self.mix(F.layer_norm(layers, layers.shape[-1:]))
        both = torch.cat([self.words(batch.values) * self.scale, self.dropout(mixed)], -1)
        projected: Tensor = self.project(both) / self.scale
        return projected

    def dummy(self, length: int) -> InContext:
        """A batch of one sequence of `length` words, for `harken.models.sizing`."""
        layers, context = len(self.mix.weights), self.project.in_features - self.project.out_features
        layers_of = self.project.weight.new_zeros(1, length, layers, context)
        return InContext(self.words.dummy(length), layers_of)  # type: ignore[operator]


def values_alone(batch: Any) -> Any:
    """The batch of the words themselves, with or without a context."""
    return batch.values if isinstance(batch, InContext) else batch


def words_alone(inputs: nn.Module) -> nn.Module:
    """The input module of the words themselves, with or without a context."""
    return inputs.words if isinstance(inputs, ContextInput) else inputs


class Reader(nn.Module):
    """An input module, which gives (B, T, E), and an encoder."""

    def __init__(self, inputs: nn.Module, encoder: Encoder) -> None:
        super().__init__()
        self.inputs, self.encoder = inputs, encoder

    @property
    def width(self) -> int:
        """W, the width of the memory."""
        return self.encoder.width

    def forward(self, values: Any, lengths: Tensor | None) -> Memory:
        """A batch for `inputs` and its lengths (B,) (None: no padding) -> memory (B, T, W)."""
        memory: Memory = self.encoder(self.inputs(values), lengths)
        return memory


class PieceReader(Reader):
    """A reader of pieces that gives the words: the memory (B, T, W) of the first piece of each."""

    def forward(self, values: PieceBatch, lengths: Tensor | None) -> Memory:
        """A batch of pieces and the words (B,) of its rows (None: no padding) -> memory (B, T, W)."""
        memory = self.encoder(self.inputs(values), values.counts).values  # (B, P, W)
        words = memory.gather(1, values.first[:, :, None].expand(-1, -1, memory.shape[2]))
        return Memory(words, None if lengths is None else length_mask(lengths, words.shape[1]))
