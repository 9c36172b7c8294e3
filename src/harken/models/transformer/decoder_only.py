"""A translator that is one stack: source, then target, in one sequence; no encoder, no cross-attention.

x_1 .. x_S BOS y_1 .. y_T     the source sees itself in both directions, a target position all of the source, itself
                              and what came before it: a language model of the target with the source as its prefix

So the source is read once, and what every layer kept of it serves all target positions, in training as in steps. Rows
are moved to the right, so that every source ends where its target begins and distances know nothing of padding.
Liu et al. (2018); prefixes seen in both directions: Raffel et al. (2020), section 3.2.

Attention (B, L, N, T, S) is the part of each layer's weights that falls on the source. Alignment is read from one layer
as in the Transformer (`transformer_decoder.py`), each row scaled to sum to 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from harken.models.base import refuse_too_long
from harken.models.encoder_decoder import TranslationModel
from harken.nn.masks import causal_mask
from harken.nn.transformer.balance import Balance
from harken.nn.transformer.stack import Past, TransformerEncoder


@dataclass
class PrefixState:
    """Keys and values of the source and of the tokens so far, for each layer."""

    past: Past  # per layer: (B, N, S + tokens so far, K) twice
    shift: Tensor | None  # (B,) how far each source was moved to the right; None: not at all
    size: int  # S
    weights: bool = True  # whether steps return attention

    def visible(self) -> Tensor | None:
        """(B, S), True where the moved source has a word."""
        if self.shift is None:
            return None
        return torch.arange(self.size, device=self.shift.device) >= self.shift[:, None]

    def select(self, rows: Tensor) -> PrefixState:
        """Reorder, repeat or drop rows."""
        past = [(key[rows], value[rows]) for key, value in self.past]
        return replace(self, past=past, shift=None if self.shift is None else self.shift[rows])


class DecoderOnly(TranslationModel):
    """Keyword arguments are those of `DecoderOnlyConfig`."""

    def __init__(
        self,
        source_size: int,
        target_size: int,
        layers: int = 6,
        width: int = 256,
        heads: int = 4,
        feedforward: int = 1024,
        attention: str = "scaled",
        positions: str = "sinusoidal",
        balance: float = 0.01,
        tied: str = "all",
        alignment_layer: int | None = None,
        alignment_heads: list[int] | None = None,
        alignment_shift: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self.build_vocabulary((source_size, target_size), (width, width), width, tied, bias=False)
        self.width, self.balance = width, balance
        self.balances = bool(options.get("experts")) and balance > 0
        self.stack = TransformerEncoder(
            layers, width, heads, feedforward, causal=True, score=attention, positions=positions, **options
        )
        self.alignment_layer = max(0, layers - 2) if alignment_layer is None else alignment_layer % layers
        self.alignment_heads, self.alignment_shift = alignment_heads, alignment_shift

    def start(
        self,
        source: Tensor,
        lengths: Tensor | None,
        distances: Tensor | None = None,
        balance: Balance | None = None,
    ) -> PrefixState:
        """Read the sources, in both directions; it has no use for distances."""
        size = source.shape[1]
        shift = None if lengths is None else size - lengths
        state = PrefixState([], shift, size)
        visible = state.visible()
        if shift is not None:
            source = source.gather(1, _moved(shift, size))
        if balance is not None:
            balance.real = visible
        values = self._embed(self.source_embedding(source), 0, None if shift is None else -shift)
        past, mask = [], None if visible is None else visible[:, None, None]
        for block in self.stack.blocks:
            values, keys_values, _ = block.step(values, None, mask, balance=balance)  # type: ignore[operator]
            past.append(keys_values)
        return replace(state, past=past)

    def forward(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, distances: Tensor | None = None
    ) -> Tensor:
        """Hidden states (B, T, D) under teacher forcing."""
        return self._read_on(target, self.start(source, lengths))[0]

    def forward_with_balance(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, real: Tensor, distances: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The same, and how unevenly experts were used, on sources and on targets."""
        prefix, rest = Balance(), Balance(real)
        hidden = self._read_on(target, self.start(source, lengths, balance=prefix), balance=rest)[0]
        return hidden, self.balance * (prefix.total() + rest.total())

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, PrefixState, Tensor | None]:
        """One token a row; nothing is read again."""
        read = [self.alignment_layer] if state.weights else []
        hidden, state, weights = self._read_on(tokens[:, None], state, read)
        attention = self._heads(weights[0])[:, 0] if weights else None  # (B, S)
        return self.logits(hidden[:, 0]), state, attention

    def attention(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, distances: Tensor | None = None
    ) -> Tensor:
        """Weights (B, L, N, T, S) from target to source positions, of every layer and head."""
        every = list(range(len(self.stack.blocks)))
        return torch.stack(self._read_on(target, self.start(source, lengths), every)[2], 1)

    def alignment(self, weights: Tensor) -> Tensor:
        """(B, L, N, T, S) -> (B, T, S): the mean over the alignment heads of the alignment layer, summing to 1."""
        return self._heads(weights[:, self.alignment_layer])

    def _read_on(
        self, target: Tensor, state: PrefixState, read: list[int] | None = None, balance: Balance | None = None
    ) -> tuple[Tensor, PrefixState, list[Tensor]]:
        """Target (B, T) after what the state has seen -> hidden (B, T, D), the next state, weights of layers `read`."""
        time, start = target.shape[1], state.past[0][0].shape[2]
        values = self._embed(self.target_embedding(target), start, None if state.shift is None else -state.shift)
        mask, past, found = self._mask(state, start, time), [], []
        for layer, block in enumerate(self.stack.blocks):
            wanted = layer in (read or [])
            step = block.step(values, state.past[layer], mask, wanted, balance)  # type: ignore[operator]
            values, keys_values, weights = step
            past.append(keys_values)
            if wanted:
                found.append(_moved_back(weights[..., : state.size], state.shift))
        return self.stack.norm(values), replace(state, past=past), found

    def _mask(self, state: PrefixState, start: int, time: int) -> Tensor | None:
        """(B, 1, T, start + T): the real source, and of the target itself and what came before."""
        visible = state.visible()
        if visible is None and time == 1:
            return None
        past = causal_mask(start + time, device=state.past[0][0].device)[None, start:]  # (1, T, start + T)
        if visible is not None:
            past = past.repeat(len(visible), 1, 1)
            past[:, :, : state.size] &= visible[:, None]
        return past[:, None]

    def _embed(self, embedded: Tensor, start: int, offset: Tensor | None) -> Tensor:
        """(B, T, D): scaled, plus positions start + offset (B,) on, if they are of the kind that is added."""
        values, time = embedded * math.sqrt(self.width), embedded.shape[1]
        if self.stack.positions is not None:
            refuse_too_long(self.stack.positions, start + time)
            table, places = self.stack.positions(start + time), torch.arange(start, start + time, device=values.device)
            if offset is not None:
                places = (places + offset[:, None]).clamp(min=0)  # (B, T); padding stands before the first
            values = values + table[places]
        return self.stack.dropout(values)

    def _heads(self, weights: Tensor) -> Tensor:
        """(B, N, T, S) -> (B, T, S)."""
        mean = (weights if self.alignment_heads is None else weights[:, self.alignment_heads]).mean(1)
        return mean / mean.sum(-1, keepdim=True).clamp(min=torch.finfo(mean.dtype).tiny)


def _moved(shift: Tensor, size: int) -> Tensor:
    """(B, S): where each place of the moved source comes from; its padding is what was at the end."""
    return (torch.arange(size, device=shift.device) - shift[:, None]) % size


def _moved_back(weights: Tensor, shift: Tensor | None) -> Tensor:
    """(B, N, T, S) over the moved source -> over the source as it came, 0 on its padding."""
    if shift is None:
        return weights
    places = torch.arange(weights.shape[-1], device=shift.device) + shift[:, None]  # (B, S)
    inside = (places < weights.shape[-1])[:, None, None]
    places = places.clamp(max=weights.shape[-1] - 1)[:, None, None].expand(weights.shape)
    return torch.where(inside, weights.gather(-1, places), 0.0)
