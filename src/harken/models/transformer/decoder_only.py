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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from harken.models.base import CAPACITY, refuse_too_long
from harken.models.encoder_decoder import TranslationModel
from harken.models.transformer.decoder import TransformerState, alignment_layer
from harken.nn.attention.kv_cache import KeyValue, KVCache
from harken.nn.transformer.experts import Balance
from harken.nn.transformer.stack import EncoderStack

if TYPE_CHECKING:
    from harken.models.config import DecoderOnlyConfig


class SourceKeysValues:
    """Keys and values of the sources with their gradients, for training, where a `KVCache` has none.

    The first pass stores those of each layer, the second attends to them and to its own.
    """

    mask: Tensor | None = None
    distances: Tensor | None = None

    def __init__(self) -> None:
        self.start = 0
        self.layers: list[Tensor] = []  # (2, B, N, S, K) each

    def write_(self, layer: int, key_value: Tensor) -> KeyValue:
        """As `KVCache.write_`."""
        if self.start:
            key_value = torch.cat((self.layers[layer], key_value), 3)
        else:
            self.layers.append(key_value)
        key, value = key_value.unbind(0)
        return key, value


@dataclass
class PrefixState(TransformerState):
    """Keys and values of the source and of the tokens so far in one cache, the source's first."""

    cache: KVCache
    shift: Tensor | None = None  # (R,) how far each source was moved to the right; None: not at all
    size: int = 0  # S
    visible: Tensor | None = None  # (R, 1, 1, S + capacity), False on the padding of the source

    def map_rows_(self, function: Callable[[Tensor], Tensor]) -> None:
        super().map_rows_(function)
        self.shift = None if self.shift is None else function(self.shift)
        self.visible = None if self.visible is None else function(self.visible)

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
        self.stack = EncoderStack(config.layers, causal=True, two_sided=True, **config.stack_options)
        self.alignment_layer = alignment_layer(config.alignment_layer, config.layers)
        self.alignment_heads, self.alignment_shift = config.alignment_heads, config.alignment_shift

    def read_source(
        self, source: Tensor, lengths: Tensor | None, cache: Any, balance: Balance | None = None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Read the sources (B, S) in both directions into a cache.

        Returns:
            How far each source is moved to the right (B,), and the mask (B, S), True where it then has a token; None
            without padding.
        """
        size, shift, mask = source.shape[1], None, None
        if lengths is not None:
            shift = size - lengths
            mask = torch.arange(size, device=source.device) >= shift[:, None]
            source = source.gather(1, _right_aligned(shift, size))
        if balance is not None:
            balance.real = mask
        values = self._embed(self.source_embedding(source), 0, shift)
        visible = None if mask is None else mask[:, None, None]
        self.stack.run_cached(values, cache, visible, causal=False, balance=balance)
        return shift, mask

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
        (rows, size), capacity = source.shape, min(max_length, CAPACITY)  # limits are far above what is written
        cache = self.stack.new_cache(rows, size + capacity, self.source_embedding.weight.detach())
        cache.advance_(size)
        with torch.no_grad():
            shift, mask = self.read_source(source, lengths, cache)
        visible = None if mask is None else F.pad(mask, (0, capacity), value=True)[:, None, None]
        state = PrefixState(cache, shift=shift, size=size, visible=visible)
        state.expand_(beam)
        return state

    def forward(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, distances: Tensor | None = None
    ) -> Tensor:
        """Hidden states (B, T, D) under teacher forcing."""
        return self._read_both(source, lengths, target)[0]

    def forward_with_balance(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, real: Tensor, distances: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The same, and the weighted balance of experts on sources and targets."""
        balances = Balance(), Balance(real)
        hidden, _ = self._read_both(source, lengths, target, balances=balances)
        return hidden, self.balance * (balances[0].total() + balances[1].total())

    @torch.no_grad()
    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """One token a row, with the cache: the prefix is not read again."""
        cache, mask = state.cache, None
        values = self._embed(self.target_embedding(tokens)[:, None], cache.length, state.shift)  # (R, 1, D)
        cache.advance_()
        if state.visible is not None:
            if state.visible.shape[-1] < cache.length:
                state.visible = F.pad(state.visible, (0, cache.length), value=True)
            mask = state.visible[..., : cache.length]
        layers = [self.alignment_layer] if state.need_weights else []
        hidden, weights = self.stack.run_cached(values, cache, mask, weights_layers=layers)
        state.attention = None
        if weights:
            state.attention = self._mean_of_heads(_left_aligned(weights[0][..., : state.size], state.shift))[:, 0]
        return self.logits(hidden[:, 0])

    def attention(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, distances: Tensor | None = None
    ) -> Tensor:
        """Weights (B, L, N, T, S) from target to source positions, of every layer and head."""
        layers = range(len(self.stack.blocks))
        return torch.stack(self._read_both(source, lengths, target, layers)[1], 1)

    def alignment(self, weights: Tensor) -> Tensor:
        """(B, L, N, T, S) -> (B, T, S): the mean over the alignment heads of the alignment layer, summing to 1."""
        return self._mean_of_heads(weights[:, self.alignment_layer])

    def _read_both(
        self,
        source: Tensor,
        lengths: Tensor | None,
        target: Tensor,
        weights_layers: Sequence[int] = (),
        balances: tuple[Balance | None, Balance | None] = (None, None),
    ) -> tuple[Tensor, list[Tensor]]:
        """Source (B, S), then target (B, T) -> hidden (B, T, D), and the weights (B, N, T, S) of some layers."""
        cache: Any = SourceKeysValues()
        shift, mask = self.read_source(source, lengths, cache, balances[0])
        cache.start, size = source.shape[1], source.shape[1]
        values = self._embed(self.target_embedding(target), size, shift)
        visible = None if mask is None else F.pad(mask, (0, target.shape[1]), value=True)[:, None, None]
        hidden, weights = self.stack.run_cached(values, cache, visible, True, weights_layers, balances[1])
        return hidden, [_left_aligned(of_layer[..., :size], shift) for of_layer in weights]

    def _embed(self, embedded: Tensor, start: int, shift: Tensor | None) -> Tensor:
        """(B, T, D): scaled, plus positions start - shift (B,) on, if they are of the added kind."""
        values, time = embedded * self.stack.embedding_scale, embedded.shape[1]
        if self.stack.positions is not None:
            refuse_too_long(self.stack.positions, start + time)
            table = self.stack.positions(start + time)
            positions = torch.arange(start, start + time, device=values.device)
            if shift is not None:
                positions = (positions - shift[:, None]).clamp(min=0)  # (B, T); padding stands before the first
            values = values + table[positions]
        return self.stack.dropout(self.stack.embedding_norm(values))

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
