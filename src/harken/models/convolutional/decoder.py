"""The decoder of a convolutional network, in one of two styles; both see what was written so far and no further.

g = embedding + position                    h = W g, then blocks                    the output layer sees W' h

convs2s  gated convolutions, and attention to the source in every block. Gehring et al. (2017)
bytenet  dilated convolutions; the source's representation at the position that is written comes in with the embedding,
         h = W g + W_z z_t (dynamic unfolding), or is found by attention in every block. Kalchbrenner et al. (2016)

A step needs the last inputs of each convolution and nothing else of the past, so its cost does not grow with length.
Alignment is the mean of all layers' attention, or one layer of it; there is none with dynamic unfolding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from harken.models.base import Decoder, Memory
from harken.models.convolutional.inputs import ConvolutionalInput
from harken.nn.convolution.attention import KeyValue, keys_values, unfold
from harken.nn.convolution.dilated import DilatedDecoderBlock, dilations
from harken.nn.convolution.gated import GatedDecoderBlock
from harken.nn.dropout import Dropout


@dataclass
class ConvolutionalState:
    """The source, which all layers share, and the last inputs of each layer."""

    memory: KeyValue  # keys and values (B, S, E)
    mask: Tensor | None  # (B, S)
    owner: Tensor  # (B,) the source each row belongs to: rows of one source share their memory
    past: list[Tensor]  # per layer (B, reach, D)
    position: int = 0
    weights: bool = True  # whether steps return attention

    def select(self, rows: Tensor) -> ConvolutionalState:
        """Reorder, repeat or drop rows; the memory is copied only where a row changes its source."""
        owner = self.owner[rows]
        state = replace(self, past=[part[rows] for part in self.past])
        if torch.equal(owner, self.owner):
            return state
        keys, values = self.memory
        memory = (keys[rows], keys[rows] if values is keys else values[rows])
        return replace(state, memory=memory, mask=None if self.mask is None else self.mask[rows], owner=owner)


class ConvolutionalDecoder(Decoder):
    """See the module's text; keyword arguments are those of `ConvolutionalConfig`."""

    output_bias = True

    def __init__(
        self,
        *,
        style: str = "convs2s",
        layers: int = 4,
        width: int = 256,
        embedding: int = 256,
        kernel: int = 3,
        attention: str = "style",
        dropout: float = 0.1,
        positions: str = "learned",
        max_length: int = 512,
        alignment_layer: int | None = None,
        alignment_shift: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = self.memory_width = self.width = embedding
        self.attends = attention == "dot" or (attention == "style" and style == "convs2s")
        if style == "convs2s" and not self.attends:
            raise ValueError('the convs2s style looks at the source by attention; set attention = "dot"')
        self.input = ConvolutionalInput(style, embedding, dropout, positions, max_length)
        self.widen, self.narrow = nn.Linear(embedding, width), nn.Linear(width, embedding)
        self.read = None if self.attends else nn.Linear(embedding, width)
        looks = embedding if self.attends else None
        self.blocks = nn.ModuleList(
            GatedDecoderBlock(width, embedding, kernel, dropout)
            if style == "convs2s"
            else DilatedDecoderBlock(width, kernel, dilation, dropout, looks)
            for dilation in dilations(layers)
        )
        self.norm = nn.Identity() if style == "convs2s" else nn.Sequential(nn.LayerNorm(width), nn.ReLU())
        self.dropout = Dropout(dropout)
        self.alignment_layer, self.alignment_shift = alignment_layer, alignment_shift

    def start(self, memory: Memory) -> ConvolutionalState:
        """Keys and values are made here, once for all layers."""
        owner = torch.arange(memory.values.shape[0], device=memory.values.device)
        return ConvolutionalState(keys_values(memory.values, memory.embedded), memory.mask, owner, [])

    def step(self, embedded: Tensor, state: Any) -> tuple[Tensor, ConvolutionalState, Tensor | None]:
        """One token a row, with the last inputs of each layer."""
        written = self.input(embedded[:, None], state.position)  # (B, 1, E)
        values, past, found = self._enter(written, state.memory, state.mask, state.position), [], []
        for layer, block in enumerate(self.blocks):
            before = state.past[layer] if state.past else None
            wanted = state.weights and self.attends and self.alignment_layer in (None, layer, layer - len(self.blocks))
            inputs = (values, before, written, state.memory, state.mask, wanted)
            values, now, weights = block.step(*inputs)  # type: ignore[operator]
            past.append(now)
            found += [] if weights is None else [weights[:, 0]]
        attention = torch.stack(found).mean(0) if found else None  # (B, S)
        return self._leave(values)[:, 0], replace(state, past=past, position=state.position + 1), attention

    def forward(self, embedded: Tensor, memory: Memory) -> Tensor:
        """(B, T, E) -> (B, T, E)."""
        pairs, written = keys_values(memory.values, memory.embedded), self.input(embedded)
        values = self._enter(written, pairs, memory.mask)
        for block in self.blocks:
            values = block(values, written, pairs, memory.mask)
        return self._leave(values)

    def attention(self, embedded: Tensor, memory: Memory) -> Tensor | None:
        """Weights (B, L, 1, T, S) of every layer; None where the source is unfolded."""
        if not self.attends:
            return None
        pairs, written, found = keys_values(memory.values, memory.embedded), self.input(embedded), []
        values = self._enter(written, pairs, memory.mask)
        for block in self.blocks:
            values, weights = block.with_weights(values, written, pairs, memory.mask)  # type: ignore[operator]
            found.append(weights)
        return torch.stack(found, 1)[:, :, None]

    def alignment(self, weights: Tensor) -> Tensor:
        """(B, L, 1, T, S) -> (B, T, S)."""
        return weights[:, :, 0].mean(1) if self.alignment_layer is None else weights[:, self.alignment_layer, 0]

    def _enter(self, written: Tensor, memory: KeyValue, mask: Tensor | None, start: int = 0) -> Tensor:
        """What the first block gets, (B, T, E) -> (B, T, D)."""
        values = self.widen(written)
        if self.read is None:
            return values
        return values + self.read(unfold(memory[0], mask, written.shape[1], start))

    def _leave(self, values: Tensor) -> Tensor:
        """What the output layer gets, (B, T, D) -> (B, T, E)."""
        return self.dropout(self.narrow(self.norm(values)))
