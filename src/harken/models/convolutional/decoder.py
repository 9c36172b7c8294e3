"""Convolutional decoders: causal convolutions in one of two styles.

g = embedding + position                    h = W g, then blocks                    the output layer sees W' h

convs2s  gated convolutions, and attention to the source in every block. Gehring et al. (2017)
bytenet  dilated convolutions; the memory at the target position is added to the input, h = W g + W_z z_t (dynamic
         unfolding), or every block attends to the source. Kalchbrenner et al. (2016)

A step needs only the last inputs of each convolution, so its cost does not grow with the length. Alignment is the mean
of all layers' attention, or one layer of it; there is none with dynamic unfolding.

>>> from harken.models.convolutional.config import ConvolutionalDecoderConfig
>>> decoder = ConvolutionalDecoder(ConvolutionalDecoderConfig(layers=2, width=8, embedding=6)).eval()
>>> target, memory = torch.randn(2, 3, 6), Memory(torch.randn(2, 5, 6), None)
>>> hidden, state, attention = decoder.step(target[:, 0], decoder.start(memory))
>>> torch.allclose(hidden, decoder(target, memory)[:, 0], atol=1e-5), attention.shape
(True, torch.Size([2, 5]))
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from harken.models.base import Decoder, Memory
from harken.models.convolutional.encoder import ConvolutionalInput
from harken.nn.convolution.attention import KeyValue, keys_values, unfold
from harken.nn.convolution.dilated import DilatedDecoderBlock, dilations
from harken.nn.convolution.gated import GatedDecoderBlock
from harken.nn.dropout import Dropout

if TYPE_CHECKING:
    from harken.models.convolutional.config import ConvolutionalStackConfig


@dataclass
class ConvolutionalState:
    """The source, which all layers share, and the last inputs of each convolution."""

    memory: KeyValue  # keys and values (B, S, E)
    mask: Tensor | None  # (B, S)
    owner: Tensor  # (B,) the source each row belongs to: rows of one source share their memory
    cache: list[Tensor]  # per layer (B, reach, D), the last inputs
    position: int = 0
    weights: bool = True  # whether steps return attention

    def select(self, rows: Tensor) -> ConvolutionalState:
        """Reorder, repeat or drop rows; the memory is copied only where a row changes its source."""
        owner = self.owner[rows]
        state = replace(self, cache=[part[rows] for part in self.cache])
        if torch.equal(owner, self.owner):
            return state
        keys, values = self.memory
        memory = (keys[rows], keys[rows] if values is keys else values[rows])
        return replace(state, memory=memory, mask=None if self.mask is None else self.mask[rows], owner=owner)


class ConvolutionalDecoder(Decoder):
    """ConvS2S or ByteNet, as `config.style` says."""

    output_bias = True

    def __init__(self, config: ConvolutionalStackConfig) -> None:
        super().__init__()
        width, embedding, kernel, dropout = config.width, config.embedding, config.kernel, config.dropout
        self.embedding = self.memory_width = self.width = embedding
        self.attends = config.attends
        self.input = ConvolutionalInput(config)
        self.widen, self.narrow = nn.Linear(embedding, width), nn.Linear(width, embedding)
        self.read = None if self.attends else nn.Linear(embedding, width)
        self.blocks = nn.ModuleList(
            GatedDecoderBlock(width, embedding, kernel, dropout)
            if config.style == "convs2s"
            else DilatedDecoderBlock(width, kernel, dilation, dropout, embedding if self.attends else None)
            for dilation in dilations(config.decoder_depth)
        )
        self.norm = nn.Identity() if config.style == "convs2s" else nn.Sequential(nn.LayerNorm(width), nn.ReLU())
        self.dropout = Dropout(dropout)
        self.alignment_layer, self.alignment_shift = config.alignment_layer, config.alignment_shift

    def start(self, memory: Memory) -> ConvolutionalState:
        """The state before the first token, with keys and values for all layers."""
        owner = torch.arange(memory.values.shape[0], device=memory.values.device)
        return ConvolutionalState(keys_values(memory.values, memory.embedded), memory.mask, owner, [])

    def step(self, embedded: Tensor, state: Any) -> tuple[Tensor, ConvolutionalState, Tensor | None]:
        """One token a row, with the last inputs of each layer."""
        entered = self.input(embedded[:, None], state.position)  # (B, 1, E)
        values, cache, found = self._enter(entered, state.memory, state.mask, state.position), [], []
        for layer, block in enumerate(self.blocks):
            before = state.cache[layer] if state.cache else None
            need_weights = (
                state.weights and self.attends and self.alignment_layer in (None, layer, layer - len(self.blocks))
            )
            inputs = (values, before, entered, state.memory, state.mask, need_weights)
            values, now, weights = block.step(*inputs)  # type: ignore[operator]
            cache.append(now)
            found += [] if weights is None else [weights[:, 0]]
        attention = torch.stack(found).mean(0) if found else None  # (B, S)
        return self._leave(values)[:, 0], replace(state, cache=cache, position=state.position + 1), attention

    def forward(self, embedded: Tensor, memory: Memory) -> Tensor:
        """(B, T, E) -> (B, T, E)."""
        pairs, entered = keys_values(memory.values, memory.embedded), self.input(embedded)
        values = self._enter(entered, pairs, memory.mask)
        for block in self.blocks:
            values = block(values, entered, pairs, memory.mask)
        return self._leave(values)

    def attention(self, embedded: Tensor, memory: Memory) -> Tensor | None:
        """Weights (B, L, 1, T, S) of every layer; None where the source is unfolded."""
        if not self.attends:
            return None
        pairs, entered, found = keys_values(memory.values, memory.embedded), self.input(embedded), []
        values = self._enter(entered, pairs, memory.mask)
        for block in self.blocks:
            values, weights = block.with_weights(values, entered, pairs, memory.mask)  # type: ignore[operator]
            found.append(weights)
        return torch.stack(found, 1)[:, :, None]

    def alignment(self, weights: Tensor) -> Tensor:
        """(B, L, 1, T, S) -> (B, T, S)."""
        return weights[:, :, 0].mean(1) if self.alignment_layer is None else weights[:, self.alignment_layer, 0]

    def _enter(self, entered: Tensor, memory: KeyValue, mask: Tensor | None, start: int = 0) -> Tensor:
        """The input of the first block, (B, T, E) -> (B, T, D)."""
        values = self.widen(entered)
        if self.read is None:
            return values
        return values + self.read(unfold(memory[0], mask, entered.shape[1], start))

    def _leave(self, values: Tensor) -> Tensor:
        """The input of the output layer, (B, T, D) -> (B, T, E)."""
        return self.dropout(self.narrow(self.norm(values)))
