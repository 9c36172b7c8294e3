"""Masked language modelling: pre-training of an encoder that predicts masked tokens from both sides.

    h = encoder(E[x with some tokens masked])
    p(x_t | the rest) = softmax(E LayerNorm(gelu(W h_t + b)) + c)          E is also the output layer

Devlin et al. (2019), "BERT". Other jobs start from its reader, embedding and encoder (`harken.models.pretrained`).

>>> from harken.models.reader import Reader
>>> from harken.models.build import build_encoder
>>> from harken.models.config import TransformerEncoderConfig
>>> encoder = build_encoder(TransformerEncoderConfig(layers=1, width=8, heads=2, feedforward=16))
>>> reader = Reader(TokenInput(50, 8), encoder)
>>> model = MaskedModel(reader)
>>> model(torch.tensor([[4, 2, 6]]), None, torch.tensor([[False, True, False]])).shape
torch.Size([1, 50])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.data.tokenizers.tokens import BOS, SPECIALS
from harken.models.reader import Reader, TokenInput
from harken.nn.transformer.block import EPSILON

FIRST_WORD = len(SPECIALS)
MASK = BOS  # which an encoder has no other use for


class Masked(NamedTuple):
    """A batch with some tokens masked."""

    ids: Tensor  # (B, T) the inputs
    chosen: Tensor  # (B, T) True at the tokens to predict


def mask_tokens(
    ids: Tensor,
    size: int,
    rate: float = 0.15,
    generator: torch.Generator | None = None,
    draws: Sequence[Tensor] | None = None,
    first_word: int = FIRST_WORD,
) -> Masked:
    """Choose a share of the words of ids (B, T): 80% become MASK, 10% a random word, 10% stay.

    `draws` are three random numbers in [0, 1) for every token, (B, T) each, in place of those of the generator: what is
    chosen, what becomes of it, and which random word. Ids below `first_word` are no words.

    >>> torch.manual_seed(1) and mask_tokens(torch.tensor([[7, 8, 9, 3, 0]]), 20, rate=1.0).chosen
    tensor([[ True,  True,  True, False, False]])
    """

    if draws is None:
        draws = [torch.rand(ids.shape, generator=generator, device=ids.device) for _ in range(3)]
    chosen = (draws[0] < rate) & (ids >= first_word)
    kind, other = draws[1], (draws[2] * (size - first_word)).long() + first_word
    changed = torch.where(kind < 0.8, MASK, torch.where(kind < 0.9, other, ids))
    return Masked(torch.where(chosen, changed, ids), chosen)


class MaskedModel(nn.Module):
    """A reader of tokens, and the head that predicts the masked ones."""

    def __init__(self, reader: Reader, norm_epsilon: float = EPSILON) -> None:
        super().__init__()
        if not isinstance(reader.inputs, TokenInput):
            raise ValueError("masked language modelling needs an input of tokens")
        self.reader = reader
        size, width = reader.inputs.table.weight.shape
        self.transform = nn.Linear(reader.width, width)
        self.norm = nn.LayerNorm(width, norm_epsilon)
        self.bias = nn.Parameter(torch.zeros(size))

    @property
    def table(self) -> Tensor:
        """E (V, D), shared by input and output."""
        matrix: Tensor = self.reader.inputs.table.weight  # type: ignore[union-attr,assignment]
        return matrix

    def forward(self, ids: Tensor, lengths: Tensor | None, chosen: Tensor) -> Tensor:
        """Logits (M, V) of the M chosen tokens, row after row."""
        values = self.reader(ids, lengths).values[chosen]  # (M, W)
        hidden = self.norm(F.gelu(self.transform(values)))
        return F.linear(hidden, self.table, self.bias)

    def loss(self, ids: Tensor, lengths: Tensor | None, masked: Masked) -> Tensor:
        """-log p of the original tokens, summed over the chosen ones."""
        logits = self(masked.ids, lengths, masked.chosen)
        return F.cross_entropy(logits.float(), ids[masked.chosen], reduction="sum")

    def dry_run(self, length: int, rate: float = 0.15) -> Tensor:
        """Logits of the masked share of `length` tokens (`harken.models.sizing`)."""
        ids = torch.ones(1, length, dtype=torch.long, device=self.bias.device)
        chosen = torch.arange(length, device=self.bias.device)[None] < max(1, round(rate * length))
        logits: Tensor = self(ids, None, chosen)
        return logits
