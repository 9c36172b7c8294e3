"""A decoder-only translator: source, then target, in one sequence; no encoder, no cross-attention.

x_1 .. x_S BOS y_1 .. y_T     source positions see the whole source; a target position sees the source, itself and
                              earlier target positions: a prefix language model

The keys and values of the source are computed once and serve all target positions, in training as in steps. Sources are
right-aligned, so that every source ends where its target begins and distances do not depend on padding.
Liu et al. (2018); prefix attention: Raffel et al. (2020), section 3.2.

Attention (B, L, N, T, S) is the part of each layer's weights that falls on the source. Alignment is read from one layer
as in the encoder-decoder Transformer (`decoder.py`), each row normalised to sum to 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from harken.models.base import CAPACITY, DecoderState, refuse_too_long
from harken.models.encoder_decoder import TranslationModel
from harken.models.transformer.decoder import alignment_layer
from harken.nn.attention.cached import StepCache, self_attention_step
from harken.nn.transformer.balance import Balance
from harken.nn.transformer.block import EncoderBlock
from harken.nn.transformer.stack import EncoderStack, KVCache, cached_length

if TYPE_CHECKING:
    from harken.models.config import DecoderOnlyConfig


@dataclass
class Prefix:
    """Sources as they were read: keys and values of each layer, and where they stand."""

    kv_cache: KVCache  # per layer: (B, N, S, K) twice; with the targets read so far where there are any
    shift: Tensor | None  # (B,) how far each source was moved to the right; None: not at all
    size: int  # S

    def source_mask(self) -> Tensor | None:
        """(B, S), True where the right-aligned source has a token; None without padding."""
        if self.shift is None:
            return None
        return torch.arange(self.size, device=self.shift.device) >= self.shift[:, None]


@dataclass
class PrefixState(DecoderState):
    """Keys and values of the source and of the tokens so far in one cache, the source's first."""

    cache: StepCache
    shift: Tensor | None  # (R,) how far each source was moved to the right; None: not at all
    size: int  # S
    seen: Tensor | None  # (R, 1, 1, S + room), False on the padding of the source
    beam: int = 1
    need_weights: bool = False
    attention: Tensor | None = None

    def map_rows_(self, function: Callable[[Tensor], Tensor]) -> None:
        self.cache.select_(function(torch.arange(self.cache.rows, device=self.cache.values.device)))
        self.shift = None if self.shift is None else function(self.shift)
        self.seen = None if self.seen is None else function(self.seen)

    def map_sources_(self, function: Callable[[Tensor], Tensor]) -> None:
        """All tensors have a row for each hypothesis."""

    def reorder_(self, beam_index: Tensor) -> None:
        """See `DecoderState`; the slots of the source stay where they are."""
        self.cache.reorder_(beam_index, self.size)


class DecoderOnly(TranslationModel):
    """A causal `harken.nn.EncoderStack` over source and target."""

    def __init__(self, config: DecoderOnlyConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        width = config.width
        self.build_vocabulary((source_size, target_size), (width, width), width, config.tied, bias=False)
        self.width, self.balance = width, config.balance
        self.balances = bool(config.experts) and config.balance > 0
        self.stack = EncoderStack(config.layers, causal=True, **config.stack_options)
        self.alignment_layer = alignment_layer(config.alignment_layer, config.layers)
        self.alignment_heads, self.alignment_shift = config.alignment_heads, config.alignment_shift

    def read_source(self, source: Tensor, lengths: Tensor | None, balance: Balance | None = None) -> Prefix:
        """Read the sources in both directions."""
        size = source.shape[1]
        shift = None if lengths is None else size - lengths
        prefix = Prefix([], shift, size)
        mask = prefix.source_mask()
        if shift is not None:
            source = source.gather(1, _right_aligned(shift, size))
        if balance is not None:
            balance.real = mask
        values = self._embed(self.source_embedding(source), 0, None if shift is None else -shift)
        return self._blocks(
            values, prefix, None if mask is None else mask[:, None, None], causal=False, balance=balance
        )[1]

    def start(
        self,
        source: Tensor,
        lengths: Tensor | None,
        distances: Tensor | None = None,
        *,
        beam: int = 1,
        max_length: int = CAPACITY,
    ) -> PrefixState:
        """The keys and values of the sources, in a cache with room for the targets; distances are not used."""
        prefix = self.read_source(source, lengths)
        key, max_length = prefix.kv_cache[0][0], min(max_length, CAPACITY)  # limits are far above what is written
        room = prefix.size + max_length
        cache = StepCache(len(prefix.kv_cache), len(key), key.shape[1], key.shape[3], room, key)
        cache.fill_(prefix.kv_cache)
        seen = prefix.source_mask()
        seen = None if seen is None else F.pad(seen, (0, max_length), value=True)[:, None, None]
        state = PrefixState(cache, prefix.shift, prefix.size, seen)
        state.expand_(beam)
        return state

    def forward(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, distances: Tensor | None = None
    ) -> Tensor:
        """Hidden states (B, T, D) under teacher forcing."""
        return self._read_on(target, self.read_source(source, lengths))[0]

    def forward_with_balance(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, real: Tensor, distances: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The same, and the weighted balance of experts on sources and targets."""
        prefix, rest = Balance(), Balance(real)
        hidden = self._read_on(target, self.read_source(source, lengths, prefix), balance=rest)[0]
        return hidden, self.balance * (prefix.total() + rest.total())

    @torch.no_grad()
    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """One token a row, with the cache: the prefix is not read again."""
        cache, offset = state.cache, None if state.shift is None else -state.shift
        values = self._embed(self.target_embedding(tokens)[:, None], cache.length, offset)[:, 0]  # (R, D)
        cache.advance_()
        if state.seen is not None and state.seen.shape[-1] < cache.length:
            state.seen = F.pad(state.seen, (0, cache.length), value=True)
        mask = None if state.seen is None else state.seen[..., : cache.length]
        state.attention = None
        for layer, block in enumerate(self.stack.blocks):
            assert isinstance(block, EncoderBlock)
            wanted = state.need_weights and layer == self.alignment_layer
            inputs = block.before(block.attention_norm, values)
            change, weights = self_attention_step(block.attention, inputs, cache, layer, mask, wanted)
            values = block.feed_forward(block.after(block.attention_norm, values, change))
            if weights is not None:
                found = _left_aligned(weights[:, :, None, : state.size], state.shift)
                state.attention = self._mean_of_heads(found)[:, 0]  # (R, S)
        return self.logits(self.stack.norm(values))

    def attention(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, distances: Tensor | None = None
    ) -> Tensor:
        """Weights (B, L, N, T, S) from target to source positions, of every layer and head."""
        every = list(range(len(self.stack.blocks)))
        return torch.stack(self._read_on(target, self.read_source(source, lengths), every)[2], 1)

    def alignment(self, weights: Tensor) -> Tensor:
        """(B, L, N, T, S) -> (B, T, S): the mean over the alignment heads of the alignment layer, summing to 1."""
        return self._mean_of_heads(weights[:, self.alignment_layer])

    def _read_on(
        self, target: Tensor, state: Prefix, layers: list[int] | None = None, balance: Balance | None = None
    ) -> tuple[Tensor, Prefix, list[Tensor]]:
        """Target (B, T) after the cached positions -> hidden (B, T, D), the cache with it, weights of these layers."""
        time, start = target.shape[1], cached_length(state.kv_cache)
        values = self._embed(self.target_embedding(target), start, None if state.shift is None else -state.shift)
        mask = state.source_mask()
        if mask is not None:  # (B, 1, 1, start + T): padding of the source, all of the target
            mask = F.pad(mask, (0, start + time - state.size), value=True)[:, None, None]
        values, state, weights = self._blocks(values, state, mask, causal=True, layers=layers, balance=balance)
        return self.stack.norm(values), state, weights

    def _blocks(
        self,
        values: Tensor,
        state: Prefix,
        mask: Tensor | None,
        causal: bool,
        layers: list[int] | None = None,
        balance: Balance | None = None,
    ) -> tuple[Tensor, Prefix, list[Tensor]]:
        """New positions (B, T, D) through all blocks -> (B, T, D), the cache with them, weights on the source."""
        kv_cache, found = [], []
        for layer, block in enumerate(self.stack.blocks):
            before = state.kv_cache[layer] if state.kv_cache else None
            step = block.step(values, before, mask, causal, layer in (layers or []), balance)  # type: ignore[operator]
            values, keys_values, weights = step
            kv_cache.append(keys_values)
            if weights is not None:
                found.append(_left_aligned(weights[..., : state.size], state.shift))
        return values, replace(state, kv_cache=kv_cache), found

    def _embed(self, embedded: Tensor, start: int, offset: Tensor | None) -> Tensor:
        """(B, T, D): scaled, plus positions start + offset (B,) on, if they are of the added kind."""
        values, time = embedded * math.sqrt(self.width), embedded.shape[1]
        if self.stack.positions is not None:
            refuse_too_long(self.stack.positions, start + time)
            table = self.stack.positions(start + time)
            positions = torch.arange(start, start + time, device=values.device)
            if offset is not None:
                positions = (positions + offset[:, None]).clamp(min=0)  # (B, T); padding stands before the first
            values = values + table[positions]
        return self.stack.dropout(values)

    def _mean_of_heads(self, weights: Tensor) -> Tensor:
        """(B, N, T, S) -> (B, T, S)."""
        mean = (weights if self.alignment_heads is None else weights[:, self.alignment_heads]).mean(1)
        return mean / mean.sum(-1, keepdim=True).clamp(min=torch.finfo(mean.dtype).tiny)


def _right_aligned(shift: Tensor, size: int) -> Tensor:
    """(B, S): the index in the source of each right-aligned position; padding moves to the front."""
    return (torch.arange(size, device=shift.device) - shift[:, None]) % size


def _left_aligned(weights: Tensor, shift: Tensor | None) -> Tensor:
    """(B, N, T, S) over the right-aligned source -> over the source as it came, 0 on its padding."""
    if shift is None:
        return weights
    positions = torch.arange(weights.shape[-1], device=shift.device) + shift[:, None]  # (B, S)
    inside = (positions < weights.shape[-1])[:, None, None]
    positions = positions.clamp(max=weights.shape[-1] - 1)[:, None, None].expand(weights.shape)
    return torch.where(inside, weights.gather(-1, positions), 0.0)
