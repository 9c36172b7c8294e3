"""The Transformer encoder-decoder (S27) from the blocks of `harken.nn.transformer`.

source -> embedding + positions -> N encoder blocks -> memory
target -> embedding + positions -> N decoder blocks, each looking into the memory -> hidden states

Alignment: of all cross-attention weights (layer, head, target, source) one layer is read, the mean over its heads; by
default the last but one, which Garg et al. (2019) found the best. `alignment_shift` takes a word's row from the step in
which the decoder reads the word rather than predicts it (Chen et al., 2020); which of the two is better depends on the
training, so measure (`docs/alignment.md` has our figures).

Positions (S24) are added to the embeddings (sinusoidal, learned) or live in the self-attention of both sides (rotary,
ALiBi, relative); attention between the sides knows of none.

Vaswani et al. (2017).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from harken.errors import UserError
from harken.models.encoder_decoder import EncoderDecoder
from harken.models.positions import added_positions, attention_positions
from harken.nn.dropout import Dropout
from harken.nn.heads import KeyValue
from harken.nn.masks import length_mask
from harken.nn.transformer import DecoderBlock, EncoderBlock


@dataclass
class TransformerState:
    """Keys and values of the source and of the tokens so far, for each layer."""

    memory: list[KeyValue]  # per layer: (B, N, S, K) twice
    mask: Tensor | None  # (B, 1, 1, S)
    owner: Tensor  # (B,) the source each row belongs to: rows of one source share their memory
    past: list[KeyValue] = field(default_factory=list)
    position: int = 0
    weights: bool = True  # whether steps return attention

    def select(self, rows: Tensor) -> TransformerState:
        """Reorder, repeat or drop rows; the memory is copied only where a row changes its source."""
        owner = self.owner[rows]
        past = [(key[rows], value[rows]) for key, value in self.past]
        if torch.equal(owner, self.owner):
            return replace(self, past=past)
        memory = [(key[rows], value[rows]) for key, value in self.memory]
        return replace(self, memory=memory, mask=None if self.mask is None else self.mask[rows], owner=owner, past=past)


class Transformer(EncoderDecoder):
    """See the module's text; keyword arguments are those of `TransformerConfig`."""

    def __init__(
        self,
        source_size: int,
        target_size: int,
        layers: int = 3,
        encoder_layers: int | None = None,
        decoder_layers: int | None = None,
        width: int = 256,
        heads: int = 4,
        feedforward: int = 1024,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        feedforward_dropout: float = 0.0,
        norm: str = "pre",
        activation: str = "relu",
        attention: str = "scaled",
        positions: str = "sinusoidal",
        max_length: int = 512,
        max_distance: int = 16,
        tied: str = "all",
        alignment_layer: int | None = None,
        alignment_heads: list[int] | None = None,
        alignment_shift: bool = False,
    ) -> None:
        super().__init__()
        self.width = width
        self.build_embeddings(source_size, target_size, width, width, tied)
        self.output_bias = None
        self.positions = added_positions(positions, width, max_length)
        self.dropout = Dropout(dropout)
        block: dict[str, Any] = {
            "dropout": dropout,
            "norm": norm,
            "attention_dropout": attention_dropout,
            "feedforward_dropout": feedforward_dropout,
            "activation": activation,
            "score": attention,
        }
        inside = partial(attention_positions, positions, width // heads, heads, max_distance)  # one for each block
        self.encoder = nn.ModuleList(
            EncoderBlock(width, heads, feedforward, **block, positions=inside())
            for _ in range(encoder_layers or layers)
        )
        self.decoder = nn.ModuleList(
            DecoderBlock(width, heads, feedforward, **block, positions=inside())
            for _ in range(decoder_layers or layers)
        )
        self.encoder_norm = nn.LayerNorm(width) if norm == "pre" else nn.Identity()
        self.decoder_norm = nn.LayerNorm(width) if norm == "pre" else nn.Identity()
        self.alignment_layer = max(0, len(self.decoder) - 2) if alignment_layer is None else alignment_layer
        self.alignment_heads = alignment_heads
        self.alignment_shift = alignment_shift
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2 and "embedding" not in name and "output_weight" not in name:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def embed(self, embedding: nn.Embedding, tokens: Tensor, start: int = 0) -> Tensor:
        """(B, T) -> (B, T, D): scaled embedding plus position, if positions are of the kind that is added.

        Raises:
            UserError: longer than the positions that were learned.
        """
        values = embedding(tokens) * math.sqrt(self.width)
        if self.positions is not None:
            try:
                values = values + self.positions(tokens.shape[1], start)
            except ValueError as problem:
                raise UserError(f"{problem}; shorten the text, or train with a larger model.max_length") from problem
        return self.dropout(values)

    def encode(self, source: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """(B, S) -> memory (B, S, D) and mask (B, 1, 1, S)."""
        mask = None if lengths is None else length_mask(lengths, source.shape[1])[:, None, None]
        values = self.embed(self.source_embedding, source)
        for block in self.encoder:
            values = block(values, mask)
        return self.encoder_norm(values), mask

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """Hidden states (B, T, D) under teacher forcing."""
        memory, mask = self.encode(source, lengths)
        values = self.embed(self.target_embedding, target)
        for block in self._blocks():
            values = block(values, block.cross.keys_values(memory), mask)
        return self.decoder_norm(values)

    def start(self, source: Tensor, lengths: Tensor | None) -> TransformerState:
        """Read the sources once; keys and values of every decoder layer are made here."""
        memory, mask = self.encode(source, lengths)
        owner = torch.arange(source.shape[0], device=source.device)
        return TransformerState([block.cross.keys_values(memory) for block in self._blocks()], mask, owner)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, TransformerState, Tensor | None]:
        """One token a row, with the cache: nothing of the prefix is read again."""
        values = self.embed(self.target_embedding, tokens[:, None], state.position)  # (B, 1, D)
        past, attention = [], None
        read = self.alignment_layer % len(self.decoder)
        for layer, block in enumerate(self._blocks()):
            before = state.past[layer] if state.past else None
            wanted = state.weights and layer == read
            values, now, weights = block.step(values, before, state.memory[layer], state.mask, wanted)
            past.append(now)
            if weights is not None:
                attention = self._heads(weights)[:, 0]  # (B, S)
        logits = self.logits(self.decoder_norm(values[:, 0]))
        return logits, replace(state, past=past, position=state.position + 1), attention

    def attention(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """Cross-attention weights (B, L, N, T, S) of every layer and head."""
        memory, mask = self.encode(source, lengths)
        values = self.embed(self.target_embedding, target)
        found = []
        for block in self._blocks():
            values, weights = block.with_weights(values, block.cross.keys_values(memory), mask)
            found.append(weights)
        return torch.stack(found, 1)

    def alignment(self, weights: Tensor) -> Tensor:
        """(B, L, N, T, S) -> (B, T, S): the mean over the alignment heads of the alignment layer."""
        return self._heads(weights[:, self.alignment_layer])

    def _blocks(self) -> list[DecoderBlock]:
        """The decoder's layers, bottom first."""
        return [block for block in self.decoder if isinstance(block, DecoderBlock)]

    def _heads(self, weights: Tensor) -> Tensor:
        """(B, N, T, S) -> (B, T, S)."""
        return (weights if self.alignment_heads is None else weights[:, self.alignment_heads]).mean(1)
