"""Blocks in a row: the stacks that a Transformer is made of, to be used alone or together.

TransformerEncoder                  encoder-only: every position sees all
TransformerEncoder(causal=True)     decoder-only: every position sees itself and what came before
TransformerDecoder                  the same, and a memory to look into

`positions` is a word of S24: "sinusoidal" and "learned" are added to the input; "relative", "rotary" and "alibi" live
in self-attention. What a stack hands to its blocks, `experts` for one, is told in `harken.nn.transformer.block`.
Vaswani et al. (2017); decoder-only: Liu et al. (2018); encoder-only: Devlin et al. (2019).

>>> stack = TransformerEncoder(layers=2, width=8, heads=2, feedforward=16, positions="rotary", causal=True).eval()
>>> values, past = torch.randn(1, 3, 8), None
>>> with torch.no_grad():
...     whole = stack(values)
...     for place in range(3):
...         last, past = stack.step(values[:, place : place + 1], past)
>>> torch.allclose(last[:, 0], whole[:, -1], atol=1e-5)  # one position at a time gives what the whole gives
True
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from harken.nn.attention.multihead import KeyValue
from harken.nn.dropout import Dropout
from harken.nn.masks import causal_mask, length_mask
from harken.nn.positions.kinds import added_positions, attention_positions
from harken.nn.recurrent.options import at_least
from harken.nn.transformer.balance import Balance
from harken.nn.transformer.block import DecoderBlock, EncoderBlock

Past = list[KeyValue]  # keys and values of every layer, each (B, N, P, K)


class _Stack(nn.Module):
    """Positions, blocks and the last norm."""

    def __init__(
        self,
        block: type[EncoderBlock] | type[DecoderBlock],
        layers: int,
        width: int,
        heads: int,
        feedforward: int,
        positions: str,
        max_length: int,
        max_distance: int,
        options: dict[str, Any],
    ) -> None:
        super().__init__()
        at_least("layers", layers, 1)
        if width % heads:
            raise ValueError(f"width {width} cannot be shared by {heads} heads: choose a multiple of {heads}")
        self.width = width
        self.positions = added_positions(positions, width, max_length)
        self.blocks = nn.ModuleList(
            block(
                width,
                heads,
                feedforward,
                positions=attention_positions(positions, width // heads, heads, max_distance),
                **options,
            )
            for _ in range(layers)
        )
        self.dropout = Dropout(options.get("dropout", 0.0))
        self.norm = nn.LayerNorm(width) if options.get("norm", "pre") == "pre" else nn.Identity()
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2 and "embedding" not in name:
                nn.init.xavier_uniform_(parameter)

    def place(self, values: Tensor, start: int = 0) -> Tensor:
        """What the first block reads: (B, T, D) plus positions from `start` on, if they are of the kind that is added.

        Raises:
            ValueError: longer than the positions that were learned.
        """
        if self.positions is not None:
            values = values + self.positions(values.shape[1], start)
        return self.dropout(values)


class TransformerEncoder(_Stack):
    """A sequence that looks at itself; further arguments are those of `EncoderBlock`."""

    def __init__(
        self,
        layers: int,
        width: int,
        heads: int,
        feedforward: int,
        *,
        causal: bool = False,
        positions: str = "none",
        max_length: int = 512,
        max_distance: int = 16,
        **block: Any,
    ) -> None:
        super().__init__(EncoderBlock, layers, width, heads, feedforward, positions, max_length, max_distance, block)
        self.causal = causal

    def forward(
        self,
        values: Tensor,
        lengths: Tensor | None = None,
        distances: Tensor | None = None,
        balance: Balance | None = None,
    ) -> Tensor:
        """(B, T, D) -> (B, T, D); what lies behind `lengths` (B,) is seen by nobody."""
        mask = _visible(lengths, values)
        values = self.place(values)
        for block in self.blocks:
            values = block(values, mask, distances, self.causal, balance)
        return self.norm(values)

    def with_weights(
        self, values: Tensor, lengths: Tensor | None = None, distances: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The same, and the weights (B, L, N, T, T) of every layer and head."""
        mask, found = _visible(lengths, values), []
        values = self.place(values)
        for block in self.blocks:
            values, weights = block.with_weights(values, mask, distances, self.causal)  # type: ignore[operator]
            found.append(weights)
        return self.norm(values), torch.stack(found, 1)

    def step(self, values: Tensor, past: Past | None = None) -> tuple[Tensor, Past]:
        """Read on: new positions (B, T, D) that see the cached past, themselves and what comes before them.

        Raises:
            ValueError: the stack is not causal, so what was read before would have to be read again.
        """
        if not self.causal:
            raise ValueError("step reads from left to right, but this stack sees both sides: make it with causal=True")
        time, start = values.shape[1], past[0][0].shape[2] if past else 0
        mask = causal_mask(start + time, device=values.device)[None, None, start:] if time > 1 else None
        values, now = self.place(values, start), []
        for layer, block in enumerate(self.blocks):
            before = past[layer] if past else None
            values, keys_values, _ = block.step(values, before, mask)  # type: ignore[operator]
            now.append(keys_values)
        return self.norm(values), now


class TransformerDecoder(_Stack):
    """Reads from left to right and looks into a memory; further arguments are those of `DecoderBlock`."""

    def __init__(
        self,
        layers: int,
        width: int,
        heads: int,
        feedforward: int,
        *,
        positions: str = "none",
        max_length: int = 512,
        max_distance: int = 16,
        **block: Any,
    ) -> None:
        super().__init__(DecoderBlock, layers, width, heads, feedforward, positions, max_length, max_distance, block)

    def remember(self, memory: Tensor) -> Past:
        """(B, S, D) -> keys and values for every layer, made once for each source."""
        return [block.cross.keys_values(memory) for block in self.blocks]  # type: ignore[union-attr,operator]

    def forward(
        self, values: Tensor, memory: Tensor, mask: Tensor | None = None, balance: Balance | None = None
    ) -> Tensor:
        """(B, T, D), memory (B, S, D), mask (B, S) True where there is a word -> (B, T, D)."""
        mask = None if mask is None else mask[:, None, None]
        values = self.place(values)
        for block in self.blocks:
            values = block(values, block.cross.keys_values(memory), mask, balance)  # type: ignore[union-attr,operator]
        return self.norm(values)

    def with_weights(self, values: Tensor, memory: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The same, and the weights (B, L, N, T, S) of the attention to the memory."""
        mask, found = None if mask is None else mask[:, None, None], []
        values = self.place(values)
        for block in self.blocks:
            keys_values = block.cross.keys_values(memory)  # type: ignore[union-attr,operator]
            values, weights = block.with_weights(values, keys_values, mask)  # type: ignore[operator]
            found.append(weights)
        return self.norm(values), torch.stack(found, 1)

    def step(
        self, values: Tensor, past: Past | None, memory: Past, mask: Tensor | None = None, read: int | None = None
    ) -> tuple[Tensor, Past, Tensor | None]:
        """One new position (B, 1, D) with what `remember` made; weights (B, N, 1, S) of layer `read` if asked for."""
        mask = None if mask is None else mask[:, None, None]
        values, now, found = self.place(values, past[0][0].shape[2] if past else 0), [], None
        for layer, block in enumerate(self.blocks):
            before, wanted = past[layer] if past else None, layer == read
            values, keys_values, weights = block.step(values, before, memory[layer], mask, wanted)  # type: ignore[operator]
            now.append(keys_values)
            found = weights if wanted else found
        return self.norm(values), now, found


def _visible(lengths: Tensor | None, values: Tensor) -> Tensor | None:
    """(B,) -> (B, 1, 1, T)."""
    return None if lengths is None else length_mask(lengths.to(values.device), values.shape[1])[:, None, None]
