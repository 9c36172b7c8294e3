"""Stacks of Transformer blocks.

EncoderStack                        encoder-only: every position sees all (Devlin et al., 2019)
EncoderStack(causal=True)           decoder-only: every position sees itself and earlier ones (Liu et al., 2018)
DecoderStack                        the same, with cross-attention to a memory (Vaswani et al., 2017)

`positions` names a kind of `harken.nn.positions.kinds`: "sinusoidal" and "learned" are added to the input; "relative",
"rotary" and "alibi" act in self-attention. Further arguments are those of the blocks (`block.py`).

>>> stack = EncoderStack(layers=2, width=8, heads=2, feedforward=16, positions="rotary", causal=True).eval()
>>> values, kv_cache = torch.randn(1, 3, 8), None
>>> with torch.no_grad():
...     whole = stack(values)
...     for position in range(3):
...         last, kv_cache = stack.step(values[:, position : position + 1], kv_cache)
>>> torch.allclose(last[:, 0], whole[:, -1], atol=1e-5)  # cached = uncached
True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from harken.nn.attention.multihead import KeyValue
from harken.nn.attention.packed import PackedMask
from harken.nn.dropout import Dropout
from harken.nn.masks import length_mask
from harken.nn.positions.kinds import added_positions, attention_positions
from harken.nn.recurrent.options import at_least
from harken.nn.transformer.balance import Balance
from harken.nn.transformer.block import DecoderBlock, EncoderBlock
from harken.nn.transformer.fused import Draws

CALLS = 3  # of dropout in a block at most
KVCache = list[KeyValue]  # keys and values of every layer, each (B, N, P, K)


def cached_length(kv_cache: KVCache | None) -> int:
    """P, the positions in a cache."""
    return kv_cache[0][0].shape[2] if kv_cache else 0


class _Stack(nn.Module):
    """Positions, blocks and the last norm.

    With `recompute`, blocks keep their inputs alone in training and are computed again in the backward pass.
    """

    recompute = False
    fuses_norms = True  # of packed sentences: a block applies the norm of the next one; not where weights are divided

    def __init__(
        self,
        block: type[EncoderBlock] | type[DecoderBlock],
        layers: int,
        width: int,
        heads: int,
        feedforward: int,
        positions: str = "none",
        max_length: int = 512,
        max_distance: int = 16,
        **options: Any,
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

    def run_block(self, block: Callable[..., Any], *arguments: Any, preserve_rng_state: bool = True) -> Any:
        """The block's outputs."""
        if not (self.recompute and self.training and torch.is_grad_enabled()):
            return block(*arguments)
        return checkpoint(block, *arguments, use_reentrant=False, preserve_rng_state=preserve_rng_state)

    def add_positions(self, values: Tensor, start: int | Tensor = 0) -> Tensor:
        """The input of the first block: (B, T, D) plus positions from `start` on, if they are of the added kind.

        Packed sentences (T, D) come with the positions of their tokens (T,), which a table must have.

        Raises:
            ValueError: longer than the positions that were learned.
        """
        if self.positions is not None:
            values = values + self.positions(values.shape[-2], start)
        return self.dropout(values)

    def following_norms(self) -> list[nn.Module | None]:
        """For every block the norm that is applied to its output, if norms come first; None: by the block after it."""
        if not self.fuses_norms:
            return [None] * len(self.blocks)
        return [*(block.attention_norm for block in self.blocks[1:]), self.norm]  # type: ignore[list-item]


class EncoderStack(_Stack):
    """Blocks of self-attention; further arguments are those of `EncoderBlock`.

    Args:
        layers, width, heads, feedforward: L, D, N and the inner width of the feed-forward layers.
        causal: whether positions see no later ones.
        positions: a kind of positions.
        max_length: with learned positions, how many there are.
        max_distance: with relative positions, where distances are clipped.
    """

    def __init__(
        self, layers: int, width: int, heads: int, feedforward: int, *, causal: bool = False, **options: Any
    ) -> None:
        super().__init__(EncoderBlock, layers, width, heads, feedforward, **options)
        self.causal = causal

    def forward(
        self,
        values: Tensor,
        lengths: Tensor | None = None,
        distances: Tensor | None = None,
        balance: Balance | None = None,
    ) -> Tensor:
        """(B, T, D) -> (B, T, D); positions from `lengths` (B,) on are masked."""
        mask = _padding_mask(lengths, values)
        values = self.add_positions(values)
        for block in self.blocks:
            values = self.run_block(block, values, mask, distances, self.causal, balance)
        return self.norm(values)

    def packed(self, values: Tensor, mask: PackedMask, draws: Draws) -> Tensor:
        """(T, D) -> (T, D) for packed sentences."""
        values, inputs = self.add_positions(values, mask.positions), None
        for layer, (block, following) in enumerate(zip(self.blocks, self.following_norms(), strict=True)):
            arguments = values, inputs, mask, following, draws.at(CALLS * layer)
            values, inputs = self.run_block(block.packed, *arguments, preserve_rng_state=False)  # type: ignore[arg-type]
        return self.norm(values) if inputs is None else inputs

    def with_weights(
        self, values: Tensor, lengths: Tensor | None = None, distances: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The same, and the weights (B, L, N, T, T) of every layer and head."""
        mask, found = _padding_mask(lengths, values), []
        values = self.add_positions(values)
        for block in self.blocks:
            values, weights = block.with_weights(values, mask, distances, self.causal)  # type: ignore[operator]
            found.append(weights)
        return self.norm(values), torch.stack(found, 1)

    def step(self, values: Tensor, kv_cache: KVCache | None = None) -> tuple[Tensor, KVCache]:
        """New positions (B, T, D) after the cached ones -> outputs (B, T, D) and the cache with them.

        Raises:
            ValueError: the stack is not causal, so earlier outputs would change.
        """
        if not self.causal:
            raise ValueError("step reads from left to right, but this stack sees both sides: make it with causal=True")
        values, after = self.add_positions(values, cached_length(kv_cache)), []
        for layer, block in enumerate(self.blocks):
            values, keys_values, _ = block.step(values, kv_cache[layer] if kv_cache else None)  # type: ignore[operator]
            after.append(keys_values)
        return self.norm(values), after


class DecoderStack(_Stack):
    """Blocks of causal self-attention and cross-attention; arguments as `EncoderStack` and `DecoderBlock`.

    >>> stack = DecoderStack(layers=2, width=8, heads=2, feedforward=16, positions="rotary")
    >>> stack(torch.randn(1, 3, 8), memory=torch.randn(1, 5, 8)).shape
    torch.Size([1, 3, 8])
    """

    def __init__(self, layers: int, width: int, heads: int, feedforward: int, **options: Any) -> None:
        super().__init__(DecoderBlock, layers, width, heads, feedforward, **options)

    def precompute_cross_kv(self, memory: Tensor) -> KVCache:
        """(B, S, D) -> keys and values of the memory for every layer, computed once for each source."""
        return [block.cross.keys_values(memory) for block in self.blocks]  # type: ignore[union-attr,operator]

    def forward(
        self, values: Tensor, memory: Tensor, mask: Tensor | None = None, balance: Balance | None = None
    ) -> Tensor:
        """(B, T, D), memory (B, S, D), mask (B, S) True where there is a token -> (B, T, D)."""
        mask = None if mask is None else mask[:, None, None]
        values = self.add_positions(values)
        for block in self.blocks:
            values = self.run_block(block, values, memory, mask, balance)
        return self.norm(values)

    def packed(self, values: Tensor, memory: Tensor, past: PackedMask, sources: PackedMask, draws: Draws) -> Tensor:
        """(T, D), memory (S, D) -> (T, D) for packed sentences: what a token sees of its own, and of its source."""
        values, inputs = self.add_positions(values, past.positions), None
        for layer, (block, following) in enumerate(zip(self.blocks, self.following_norms(), strict=True)):
            arguments = values, inputs, memory, past, sources, following, draws.at(CALLS * layer)
            values, inputs = self.run_block(block.packed, *arguments, preserve_rng_state=False)  # type: ignore[arg-type]
        return self.norm(values) if inputs is None else inputs

    def with_weights(self, values: Tensor, memory: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The same, and the weights (B, L, N, T, S) of the cross-attention."""
        mask, found = None if mask is None else mask[:, None, None], []
        values = self.add_positions(values)
        for block in self.blocks:
            keys_values = block.cross.keys_values(memory)  # type: ignore[union-attr,operator]
            values, weights = block.with_weights(values, keys_values, mask)  # type: ignore[operator]
            found.append(weights)
        return self.norm(values), torch.stack(found, 1)

    def step(
        self,
        values: Tensor,
        kv_cache: KVCache | None,
        cross_kv: KVCache,
        mask: Tensor | None = None,
        weights_layer: int | None = None,
    ) -> tuple[Tensor, KVCache, Tensor | None]:
        """New positions (B, T, D) after the cached ones -> outputs (B, T, D), the cache with them, weights or None.

        Args:
            values: one new position or several, which do not see later ones.
            kv_cache: of the earlier positions; None before the first.
            cross_kv: from `precompute_cross_kv`.
            mask: (B, S), True where the memory has a token.
            weights_layer: the layer whose cross-attention weights (B, N, T, S) are returned.
        """
        mask = None if mask is None else mask[:, None, None]
        values, after, found = self.add_positions(values, cached_length(kv_cache)), [], None
        for layer, block in enumerate(self.blocks):
            before, wanted = kv_cache[layer] if kv_cache else None, layer == weights_layer
            values, keys_values, weights = block.step(values, before, cross_kv[layer], mask, wanted)  # type: ignore[operator]
            after.append(keys_values)
            found = weights if wanted else found
        return self.norm(values), after, found


def _padding_mask(lengths: Tensor | None, values: Tensor) -> Tensor | None:
    """(B,) -> (B, 1, 1, T)."""
    return None if lengths is None else length_mask(lengths.to(values.device), values.shape[1])[:, None, None]
