"""The decoder of a Transformer: blocks of causal self-attention and cross-attention to the memory.

Alignment: of all cross-attention weights (layer, head, target, source) the mean over the heads of one layer is read; by
default the last but one, which Garg et al. (2019) found the best. `alignment_shift` takes a word's row from the step in
which the decoder reads the word rather than predicts it (Chen et al., 2020); which of the two is better depends on the
training (`docs/alignment.md` has measurements).

>>> import torch
>>> from harken.models.transformer.config import TransformerDecoderConfig
>>> decoder = TransformerDecoder(TransformerDecoderConfig(layers=2, width=8, heads=2, feedforward=16)).eval()
>>> target, memory = torch.randn(2, 3, 8), Memory(torch.randn(2, 5, 8), None)
>>> hidden, state, attention = decoder.step(target[:, 0], decoder.start(memory))
>>> torch.allclose(hidden, decoder(target, memory)[:, 0], atol=1e-5), attention.shape
(True, torch.Size([2, 5]))
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from harken.models.base import Decoder, Memory, refuse_too_long
from harken.nn.transformer import stack
from harken.nn.transformer.balance import Balance
from harken.nn.transformer.stack import KVCache, cached_length

if TYPE_CHECKING:
    from harken.models.transformer.config import TransformerStackConfig


@dataclass
class TransformerState:
    """Keys and values of the source and of the tokens so far, for each layer."""

    memory: KVCache  # of the cross-attention, per layer: (B, N, S, K) twice
    mask: Tensor | None  # (B, S)
    owner: Tensor  # (B,) the source each row belongs to: rows of one source share their memory
    kv_cache: KVCache
    weights: bool = True  # whether steps return attention

    @property
    def position(self) -> int:
        """Tokens read so far."""
        return cached_length(self.kv_cache)

    def select(self, rows: Tensor) -> TransformerState:
        """Reorder, repeat or drop rows; the source's keys and values are copied only where a row changes its source."""
        owner = self.owner[rows]
        kv_cache = [(key[rows], value[rows]) for key, value in self.kv_cache]
        if torch.equal(owner, self.owner):
            return replace(self, kv_cache=kv_cache)
        memory = [(key[rows], value[rows]) for key, value in self.memory]
        mask = None if self.mask is None else self.mask[rows]
        return replace(self, memory=memory, mask=mask, owner=owner, kv_cache=kv_cache)


class TransformerDecoder(Decoder):
    """`harken.nn.DecoderStack` on scaled embeddings."""

    def __init__(self, config: TransformerStackConfig) -> None:
        super().__init__()
        layers = config.decoder_depth
        self.embedding = self.memory_width = self.width = config.width
        self.stack = stack.DecoderStack(layers, **config.stack_options)
        self.balance = config.balance if config.experts else 0.0
        self.alignment_layer = alignment_layer(config.alignment_layer, layers)
        self.alignment_heads, self.alignment_shift = config.alignment_heads, config.alignment_shift

    def forward(self, embedded: Tensor, memory: Memory, balance: Balance | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        return self.stack(self._scaled(embedded), memory.values, memory.mask, balance)

    def start(self, memory: Memory) -> TransformerState:
        """The state before the first token, with keys and values of the memory for every layer."""
        owner = torch.arange(memory.values.shape[0], device=memory.values.device)
        return TransformerState(self.stack.precompute_cross_kv(memory.values), memory.mask, owner, [])

    def step(self, embedded: Tensor, state: Any) -> tuple[Tensor, TransformerState, Tensor | None]:
        """One token a row, with the cache: the prefix is not read again."""
        weights_layer = self.alignment_layer if state.weights else None
        values = self._scaled(embedded[:, None], state.position)
        values, kv_cache, weights = self.stack.step(values, state.kv_cache, state.memory, state.mask, weights_layer)
        attention = None if weights is None else self._mean_of_heads(weights)[:, 0]  # (B, S)
        return values[:, 0], replace(state, kv_cache=kv_cache), attention

    def attention(self, embedded: Tensor, memory: Memory) -> Tensor:
        """Cross-attention weights (B, L, N, T, S) of every layer and head."""
        return self.stack.with_weights(self._scaled(embedded), memory.values, memory.mask)[1]

    def alignment(self, weights: Tensor) -> Tensor:
        """(B, L, N, T, S) -> (B, T, S): the mean over the alignment heads of the alignment layer."""
        return self._mean_of_heads(weights[:, self.alignment_layer])

    def _scaled(self, embedded: Tensor, start: int = 0) -> Tensor:
        refuse_too_long(self.stack.positions, start + embedded.shape[1])
        return embedded * math.sqrt(self.width)

    def _mean_of_heads(self, weights: Tensor) -> Tensor:
        """(B, N, T, S) -> (B, T, S)."""
        return (weights if self.alignment_heads is None else weights[:, self.alignment_heads]).mean(1)


def alignment_layer(chosen: int | None, layers: int) -> int:
    """The layer whose attention is read as alignment: the one chosen, from 0, or the last but one.

    >>> alignment_layer(None, 6), alignment_layer(-1, 6), alignment_layer(None, 1)
    (4, 5, 0)
    """
    return max(0, layers - 2) if chosen is None else chosen % layers
