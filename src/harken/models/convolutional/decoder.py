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
>>> hidden = decoder.step(target[:, 0], decoder.start(memory))
>>> torch.allclose(hidden, decoder(target, memory)[:, 0], atol=1e-5)
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from harken.models.base import CAPACITY, Decoder, DecoderState, Memory
from harken.models.convolutional.encoder import ConvolutionalInput
from harken.nn.convolution.attention import KeyValue, keys_values, unfold
from harken.nn.convolution.convolution import Convolution
from harken.nn.convolution.dilated import DilatedDecoderBlock, dilations
from harken.nn.convolution.gated import GatedDecoderBlock
from harken.nn.dropout import Dropout

if TYPE_CHECKING:
    from harken.models.convolutional.config import ConvolutionalStackConfig

BlockCall = Callable[[int, Any, Tensor], tuple[Tensor, Tensor | None]]  # layer, block, values -> values, weights


@dataclass
class ConvolutionalState(DecoderState):
    """The source, which all layers and hypotheses share, and the last inputs of each convolution."""

    memory: KeyValue  # keys and values (B, S, E)
    mask: Tensor | None  # (B, S)
    cache: list[Tensor]  # per layer (R, reach, D), the last inputs
    beam: int = 1
    position: int = 0
    need_weights: bool = False
    attention: Tensor | None = None

    def map_rows_(self, function: Callable[[Tensor], Tensor]) -> None:
        self.cache = [function(part) for part in self.cache]

    def map_sources_(self, function: Callable[[Tensor], Tensor]) -> None:
        keys, values = self.memory
        moved = function(keys)
        self.memory = (moved, moved if values is keys else function(values))
        self.mask = None if self.mask is None else function(self.mask)


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

    def start(self, memory: Memory, beam: int = 1, max_length: int = CAPACITY) -> ConvolutionalState:
        """The state before the first token; it does not grow with the target."""
        like, cache = memory.values, []
        for block in self.blocks:
            layer = block.convolution
            assert isinstance(layer, Convolution)
            cache.append(like.new_zeros(len(like) * beam, layer.reach, layer.product.in_features // layer.kernel))
        return ConvolutionalState(keys_values(memory.values, memory.embedded), memory.mask, cache, beam)

    def step(self, embedded: Tensor, state: Any) -> Tensor:
        """One token a row, with the last inputs of each layer."""

        def call(layer: int, block: Any, values: Tensor) -> tuple[Tensor, Tensor | None]:
            is_aligned = self.alignment_layer in (None, layer, layer - len(self.blocks))
            need_weights = state.need_weights and self.attends and is_aligned
            values, cache, weights = block.step(
                values, state.cache[layer], entered, state.memory, state.mask, need_weights
            )
            state.cache[layer].copy_(cache)
            return values, weights

        entered = self.input(embedded[:, None], state.position)  # (R, 1, E)
        hidden, weights = self._run(entered, state.memory, state.mask, call, state.position)
        state.attention = torch.stack(weights).mean(0)[:, 0] if weights else None  # (R, S)
        state.position += 1
        return hidden[:, 0]

    def forward(self, embedded: Tensor, memory: Memory) -> Tensor:
        """(B, T, E) -> (B, T, E)."""
        pairs, entered = keys_values(memory.values, memory.embedded), self.input(embedded)
        return self._run(
            entered, pairs, memory.mask, lambda _, block, values: (block(values, entered, pairs, memory.mask), None)
        )[0]

    def attention(self, embedded: Tensor, memory: Memory) -> Tensor | None:
        """Weights (B, L, 1, T, S) of every layer; None where the source is unfolded."""
        if not self.attends:
            return None
        pairs, entered = keys_values(memory.values, memory.embedded), self.input(embedded)
        _, weights = self._run(
            entered,
            pairs,
            memory.mask,
            lambda _, block, values: block.with_weights(values, entered, pairs, memory.mask),
        )
        return torch.stack(weights, 1)[:, :, None]

    def alignment(self, weights: Tensor) -> Tensor:
        """(B, L, 1, T, S) -> (B, T, S)."""
        return weights[:, :, 0].mean(1) if self.alignment_layer is None else weights[:, self.alignment_layer, 0]

    def _run(
        self, entered: Tensor, memory: KeyValue, mask: Tensor | None, call: BlockCall, start: int = 0
    ) -> tuple[Tensor, list[Tensor]]:
        """The input (R, T, E) from position `start` on through all blocks -> (R, T, E), and their attention weights."""
        values, weights = self.widen(entered), []
        if self.read is not None:
            unfolded = self.read(unfold(memory[0], mask, entered.shape[1], start))  # (B, T, D)
            values = values + unfolded.repeat_interleave(len(values) // len(unfolded), 0)
        for layer, block in enumerate(self.blocks):
            values, of_layer = call(layer, block, values)
            weights += [] if of_layer is None else [of_layer]
        return self.dropout(self.narrow(self.norm(values))), weights
