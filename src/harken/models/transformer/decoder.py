"""The decoder of a Transformer: blocks that see what was written so far, and look into the memory.

Alignment: of all cross-attention weights (layer, head, target, source) one layer is read, the mean over its heads; by
default the last but one, which Garg et al. (2019) found the best. `alignment_shift` takes a word's row from the step in
which the decoder reads the word rather than predicts it (Chen et al., 2020); which of the two is better depends on the
training, so measure (`docs/alignment.md` has our figures).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from harken.models.base import Decoder, Memory, refuse_too_long
from harken.nn.transformer import stack as transformer_stack
from harken.nn.transformer.balance import Balance
from harken.nn.transformer.stack import Past


@dataclass
class TransformerState:
    """Keys and values of the source and of the tokens so far, for each layer."""

    memory: Past  # per layer: (B, N, S, K) twice
    mask: Tensor | None  # (B, S)
    owner: Tensor  # (B,) the source each row belongs to: rows of one source share their memory
    past: Past
    weights: bool = True  # whether steps return attention

    @property
    def position(self) -> int:
        """Tokens read so far."""
        return self.past[0][0].shape[2] if self.past else 0

    def select(self, rows: Tensor) -> TransformerState:
        """Reorder, repeat or drop rows; the memory is copied only where a row changes its source."""
        owner = self.owner[rows]
        past = [(key[rows], value[rows]) for key, value in self.past]
        if torch.equal(owner, self.owner):
            return replace(self, past=past)
        memory = [(key[rows], value[rows]) for key, value in self.memory]
        return replace(self, memory=memory, mask=None if self.mask is None else self.mask[rows], owner=owner, past=past)


class TransformerDecoder(Decoder):
    """Further arguments are those of `harken.nn.TransformerDecoder`."""

    def __init__(
        self,
        *,
        layers: int = 3,
        width: int = 256,
        heads: int = 4,
        feedforward: int = 1024,
        balance: float = 0.01,
        alignment_layer: int | None = None,
        alignment_heads: list[int] | None = None,
        alignment_shift: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self.embedding = self.memory_width = self.width = width
        self.stack = transformer_stack.TransformerDecoder(layers, width, heads, feedforward, **options)
        self.balance = balance if options.get("experts") else 0.0
        self.alignment_layer = max(0, layers - 2) if alignment_layer is None else alignment_layer % layers
        self.alignment_heads, self.alignment_shift = alignment_heads, alignment_shift

    def forward(self, embedded: Tensor, memory: Memory, balance: Balance | None = None) -> Tensor:
        """(B, T, E) -> (B, T, E)."""
        return self.stack(self._scaled(embedded), memory.values, memory.mask, balance)

    def start(self, memory: Memory) -> TransformerState:
        """Keys and values of every layer are made here, once."""
        owner = torch.arange(memory.values.shape[0], device=memory.values.device)
        return TransformerState(self.stack.remember(memory.values), memory.mask, owner, [])

    def step(self, embedded: Tensor, state: Any) -> tuple[Tensor, TransformerState, Tensor | None]:
        """One token a row, with the cache: nothing of the prefix is read again."""
        read = self.alignment_layer if state.weights else None
        values = self._scaled(embedded[:, None], state.position)
        values, past, weights = self.stack.step(values, state.past, state.memory, state.mask, read)
        attention = None if weights is None else self._heads(weights)[:, 0]  # (B, S)
        return values[:, 0], replace(state, past=past), attention

    def attention(self, embedded: Tensor, memory: Memory) -> Tensor:
        """Cross-attention weights (B, L, N, T, S) of every layer and head."""
        return self.stack.with_weights(self._scaled(embedded), memory.values, memory.mask)[1]

    def alignment(self, weights: Tensor) -> Tensor:
        """(B, L, N, T, S) -> (B, T, S): the mean over the alignment heads of the alignment layer."""
        return self._heads(weights[:, self.alignment_layer])

    def _scaled(self, embedded: Tensor, start: int = 0) -> Tensor:
        refuse_too_long(self.stack.positions, start + embedded.shape[1])
        return embedded * math.sqrt(self.width)

    def _heads(self, weights: Tensor) -> Tensor:
        """(B, N, T, S) -> (B, T, S)."""
        return (weights if self.alignment_heads is None else weights[:, self.alignment_heads]).mean(1)
