"""The decoder of a Transformer: blocks of causal self-attention, or an SSRU, and cross-attention to the memory.

Alignment: of all cross-attention weights (layer, head, target, source) the mean over the heads of one layer is read; by
default the last but one, which Garg et al. (2019) found the best. `alignment_shift` takes a word's row from the step in
which the decoder reads the word rather than predicts it (Chen et al., 2020); which of the two is better depends on the
training (`docs/how-to/alignment.md`).

>>> import torch
>>> from harken.models.transformer.config import TransformerDecoderConfig
>>> decoder = TransformerDecoder(TransformerDecoderConfig(layers=2, width=8, heads=2, feedforward=16)).eval()
>>> target, memory = torch.randn(2, 3, 8), Memory(torch.randn(2, 5, 8), None)
>>> hidden = decoder.step(target[:, 0], decoder.start(memory, max_length=3))
>>> torch.allclose(hidden, decoder(target, memory)[:, 0], atol=1e-5)
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from harken.models.base import CAPACITY, Decoder, DecoderState, Memory, refuse_too_long
from harken.nn.attention.kv_cache import KeyValue, KVCache
from harken.nn.recurrent.ssru import SSRUCache
from harken.nn.transformer import stack
from harken.nn.transformer.experts import Balance

if TYPE_CHECKING:
    from harken.models.transformer.config import TransformerMixerConfig


@dataclass
class TransformerState(DecoderState):
    """Keys and values of the source, stored once a source, and of the tokens so far."""

    cache: KVCache | SSRUCache  # keys and values of the tokens so far, or the states of recurrent units
    memory: list[KeyValue] = field(default_factory=list)  # of the cross-attention, per layer: (B, N, S, K) twice
    mask: Tensor | None = None  # (B, 1, 1, S), 0 or -inf, added to the scores of the source
    beam: int = 1
    need_weights: bool = False
    attention: Tensor | None = None

    @property
    def position(self) -> int:
        """Tokens read so far."""
        return self.cache.length

    def map_rows_(self, function: Callable[[Tensor], Tensor]) -> None:
        self.cache.select_(function(torch.arange(self.cache.rows, device=self.cache.values.device)))

    def map_sources_(self, function: Callable[[Tensor], Tensor]) -> None:
        self.memory = [(function(key), function(value)) for key, value in self.memory]
        self.mask = None if self.mask is None else function(self.mask)

    def load_(self, fresh: DecoderState) -> None:
        """See `DecoderState`."""
        assert isinstance(fresh, TransformerState)
        for pair, new in zip(self.memory, fresh.memory, strict=True):
            for part, values in zip(pair, new, strict=True):
                part.copy_(values)
        if self.mask is not None and fresh.mask is not None:
            self.mask.copy_(fresh.mask)
        self.cache.reset_()

    def reorder_(self, beam_index: Tensor) -> None:
        """See `DecoderState`; the source's keys and values stay where they are."""
        self.cache.reorder_(beam_index)


class TransformerDecoder(Decoder):
    """`harken.nn.DecoderStack` on scaled embeddings."""

    def __init__(self, config: TransformerMixerConfig) -> None:
        super().__init__()
        layers = config.decoder_depth
        self.embedding = self.memory_width = self.width = config.width
        self.mixer, self.output_bias = config.decoder_mixer, config.output_bias
        self.stack = stack.DecoderStack(layers, mixer=self.mixer, **config.stack_options)
        self.balance = config.balance if config.experts else 0.0
        self.is_static = not config.experts  # how many tokens go to an expert is not fixed
        self.alignment_layer = alignment_layer(config.alignment_layer, layers)
        self.alignment_heads, self.alignment_shift = config.alignment_heads, config.alignment_shift

    def forward(self, embedded: Tensor, memory: Memory, balance: Balance | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        return self.stack(self._scaled(embedded), memory.values, memory.mask, balance)

    def start(
        self, memory: Memory, beam: int = 1, max_length: int = CAPACITY, static: bool = False
    ) -> TransformerState:
        """The state before the first token, with keys and values of the memory for every layer.

        With `static` every shape and address is fixed from here on (`harken.nn.attention.kv_cache`).
        """
        memories = self.stack.precompute_cross_kv(memory.values)
        memories = [(key.contiguous(), value.contiguous()) for key, value in memories]
        like, mask = memories[0][0], None
        if memory.mask is not None:
            mask = torch.zeros(memory.mask.shape, dtype=like.dtype, device=like.device)
            mask = mask.masked_fill_(~memory.mask, -torch.inf)[:, None, None]
        if static:
            self._scaled(memory.values[:, :1], max_length - 1)  # no table of positions grows later
            self.stack.reserve_positions(max_length)
        capacity = max_length if static else min(max_length, CAPACITY)  # limits are far above what is written
        return TransformerState(self.stack.new_cache(len(like) * beam, capacity, like, static), memories, mask, beam)

    @torch.no_grad()
    def step(self, embedded: Tensor, state: Any) -> Tensor:
        """One token a row, with the cache: the prefix is not read again."""
        values = self._scaled(embedded[:, None], state.position)  # (R, 1, D)
        layer = self.alignment_layer if state.need_weights else None
        hidden, _, weights = self.stack.step(values, state.cache, state.memory, state.mask, layer)
        state.attention = None if weights is None else self._mean_of_heads(weights)[:, 0]  # (R, S)
        return hidden[:, 0]

    def attention(self, embedded: Tensor, memory: Memory) -> Tensor:
        """Cross-attention weights (B, L, N, T, S) of every layer and head."""
        return self.stack.with_weights(self._scaled(embedded), memory.values, memory.mask)[1]

    def alignment(self, weights: Tensor) -> Tensor:
        """(B, L, N, T, S) -> (B, T, S): the mean over the alignment heads of the alignment layer."""
        return self._mean_of_heads(weights[:, self.alignment_layer])

    def _scaled(self, embedded: Tensor, start: int = 0) -> Tensor:
        refuse_too_long(self.stack.positions, start + embedded.shape[1])
        return embedded * self.stack.embedding_scale

    def _mean_of_heads(self, weights: Tensor) -> Tensor:
        """(B, N, T, S) -> (B, T, S)."""
        return (weights if self.alignment_heads is None else weights[:, self.alignment_heads]).mean(1)


def alignment_layer(chosen: int | None, layers: int) -> int:
    """The layer whose attention is read as alignment: the one chosen, from 0, or the last but one.

    >>> alignment_layer(None, 6), alignment_layer(-1, 6), alignment_layer(None, 1)
    (4, 5, 0)
    """
    return max(0, layers - 2) if chosen is None else chosen % layers
