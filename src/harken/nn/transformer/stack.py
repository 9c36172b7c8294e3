"""Stacks of Transformer blocks.

EncoderStack                        encoder-only: every position sees all (Devlin et al., 2019)
EncoderStack(causal=True)           decoder-only: every position sees itself and earlier ones (Liu et al., 2018)
DecoderStack                        the same, with cross-attention to a memory (Vaswani et al., 2017)

`positions` names a kind of `harken.nn.positions.kinds`: "sinusoidal" and "learned" are added to the input; "relative",
"rotary", "alibi" and "buckets" act in self-attention. Further arguments are those of the blocks (`block.py`).

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

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from harken.kernels.residual_norm import RESIDUAL_NORM
from harken.nn.attention.kv_cache import KeyValue, KVCache
from harken.nn.attention.packed import EqualRows, PackedMask
from harken.nn.dropout import Dropout
from harken.nn.masks import length_mask
from harken.nn.positions.absolute import SinusoidalPositions
from harken.nn.positions.buckets import BucketPositions
from harken.nn.positions.kinds import added_positions, attention_positions
from harken.nn.recurrent.options import at_least
from harken.nn.recurrent.ssru import SSRUCache
from harken.nn.transformer.block import EPSILON, DecoderBlock, EncoderBlock, new_norm
from harken.nn.transformer.experts import Balance
from harken.nn.transformer.fused import DropoutSeed

CALLS = 3  # of dropout in a block at most
CAPACITY = 64  # tokens for which a cache is allocated at first
BlockCall = Callable[[int, Any, Any], tuple[Any, Tensor | None]]  # layer, block, values -> values, weights


class _Stack(nn.Module):
    """Positions, the norm of embeddings, blocks and the last norm.

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
        scale_embeddings: bool = True,
        embedding_norm: bool = False,
        buckets: int = 32,
        two_sided: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        at_least("layers", layers, 1)
        head_width = options.get("head_width") or width // heads
        if width % heads and not options.get("head_width"):
            raise ValueError(f"width {width} cannot be shared by {heads} heads: choose a multiple of {heads}")
        self.width = width
        shared = BucketPositions(heads, buckets, max_distance, two_sided) if positions == "buckets" else None
        self.embedding_scale = math.sqrt(width) if scale_embeddings else 1.0  # callers multiply embeddings by it
        self.positions = added_positions(positions, width, max_length)
        self.blocks = nn.ModuleList(
            block(
                width,
                heads,
                feedforward,
                positions=shared or attention_positions(positions, head_width, heads, max_distance),
                **options,
            )
            for _ in range(layers)
        )
        self.dropout = Dropout(options.get("dropout", 0.0))
        epsilon = options.get("norm_epsilon", EPSILON)
        norm_kind = options.get("norm_kind", "layer")
        self.embedding_norm = new_norm(norm_kind, width, epsilon) if embedding_norm else nn.Identity()
        self.norm = new_norm(norm_kind, width, epsilon) if options.get("norm", "pre") == "pre" else nn.Identity()
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2 and "embedding" not in name:
                nn.init.xavier_uniform_(parameter)

    def prepare_training(self, recompute: bool, sharded: bool) -> None:
        """Choose whether blocks are recomputed, and whether their weights are divided over ranks, which gather those of
        one block at a time: then a block does not apply the norm of the next one."""
        self.recompute, self.fuses_norms = recompute, not sharded

    def run(self, values: Tensor, call: BlockCall) -> tuple[Tensor, list[Tensor]]:
        """(B, T, D) through all blocks and the last norm -> (B, T, D), and the weights that `call` gave."""
        values, weights = self.run_blocks(values, call)
        return self.norm(values), weights

    def run_blocks(self, values: Any, call: BlockCall) -> tuple[Any, list[Tensor]]:
        """All blocks: whatever `call` takes from block to block, and the weights that it gave."""
        weights: list[Tensor] = []
        for layer, block in enumerate(self.blocks):
            values, of_layer = call(layer, block, values)
            weights += [] if of_layer is None else [of_layer]
        return values, weights

    def run_block(self, block: Callable[..., Any], *arguments: Any, preserve_rng_state: bool = True) -> Any:
        """The block's outputs."""
        if not (self.recompute and self.training and torch.is_grad_enabled()):
            return block(*arguments)
        return checkpoint(block, *arguments, use_reentrant=False, preserve_rng_state=preserve_rng_state)

    def packed(self, values: Tensor, seed: DropoutSeed, mask: PackedMask | EqualRows, *memory: Any) -> Tensor:
        """(T, D) -> (T, D) for packed sentences.

        Args:
            seed: of dropout.
            mask: what a token sees of its own sentence.
            memory: in a decoder the memory (S, D), and what a token sees of its source.
        """
        following = self.following_norms()

        def call(layer: int, block: Any, values_and_inputs: Any) -> tuple[Any, None]:
            arguments = *values_and_inputs, following[layer], seed.at(CALLS * layer), mask, *memory
            return self.run_block(block.packed, *arguments, preserve_rng_state=draws), None

        draws = self._draws(values := self.add_positions(values, mask.positions))
        (values, inputs), _ = self.run_blocks((values, None), call)
        output: Tensor = self.norm(values) if inputs is None else inputs
        return output

    def _draws(self, values: Tensor) -> bool:
        """Whether dropout in packed blocks has torch's generator, whose state no captured graph can keep.

        Else it has the seed, and a block that is computed again draws the same.
        """
        block: Any = self.blocks[0]
        has_seed = block.pre and self.fuses_norms and RESIDUAL_NORM.supports(values)
        return block.feedforward.dropout.p > 0 or (block.dropout.p > 0 and not has_seed)

    def new_cache(self, rows: int, max_length: int = CAPACITY, like: Tensor | None = None, static: bool = False) -> Any:
        """An empty `KVCache`, or `SSRUCache`, for so many rows; it grows beyond `max_length` tokens unless static."""
        block: Any = self.blocks[0]
        like = block.attention_norm.weight.detach() if like is None else like
        if block.mixer == "ssru":
            return SSRUCache(len(self.blocks), rows, self.width, like, static)
        attention = block.attention
        return KVCache(len(self.blocks), rows, attention.heads, attention.head_width, max_length, like, static)

    def reserve_positions(self, length: int) -> None:
        """Compute the tables of positions for so many tokens now, so that none grows later."""
        for module in self.modules():
            if isinstance(module, SinusoidalPositions):  # also the angles of rotary positions
                module(length)

    def add_positions(self, values: Tensor, start: int | Tensor = 0) -> Tensor:
        """The input of the first block: (B, T, D) plus positions from `start` on, if they are of the added kind;
        normalised with `embedding_norm`.

        Packed sentences (T, D) come with the positions of their tokens (T,), which a table must have.

        Raises:
            ValueError: longer than the positions that were learned.
        """
        if self.positions is not None:
            values = values + self.positions(values.shape[-2], start)
        dropped: Tensor = self.dropout(self.embedding_norm(values))
        return dropped

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
        max_distance: with relative positions and buckets, where distances are clipped.
        buckets, two_sided: with buckets, how many there are, and whether later tokens have some of them (by default
            where the stack is not causal).
        embedding_norm: whether embeddings and their positions are normalised before dropout.
    """

    def __init__(
        self, layers: int, width: int, heads: int, feedforward: int, *, causal: bool = False, **options: Any
    ) -> None:
        super().__init__(EncoderBlock, layers, width, heads, feedforward, **{"two_sided": not causal} | options)
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
        return self.run(
            self.add_positions(values),
            lambda layer, block, x: (self.run_block(block, x, mask, distances, self.causal, balance), None),
        )[0]

    def with_weights(
        self, values: Tensor, lengths: Tensor | None = None, distances: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The same, and the weights (B, L, N, T, T) of every layer and head."""
        mask = _padding_mask(lengths, values)
        values, weights = self.run(
            self.add_positions(values),
            lambda layer, block, x: block.with_weights(x, mask, distances, self.causal),
        )
        return values, torch.stack(weights, 1)

    def step(self, values: Tensor, kv_cache: KVCache | None = None) -> tuple[Tensor, KVCache]:
        """New tokens (B, t, D) after the cached ones -> outputs (B, t, D) and the cache, which is changed in place.

        Without a cache, an empty one is made.

        Raises:
            ValueError: the stack is not causal, so earlier outputs would change.
        """
        if not self.causal:
            raise ValueError("step reads from left to right, but this stack sees both sides: make it with causal=True")
        kv_cache = self.new_cache(len(values), max(CAPACITY, values.shape[1])) if kv_cache is None else kv_cache
        kv_cache.advance_(values.shape[1])
        return self.run_cached(self.add_positions(values, kv_cache.start), kv_cache)[0], kv_cache

    def run_cached(
        self,
        values: Tensor,
        cache: KVCache,
        mask: Tensor | None = None,
        causal: bool = True,
        weights_layers: Sequence[int] = (),
        balance: Balance | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """The current tokens (B, t, D) of the cache, with their positions -> (B, t, D), and the weights of some layers.

        Args:
            mask: (B, 1, 1, T), True where a token may be seen.
            causal: tokens do not see later ones.
            weights_layers: the layers whose weights (B, N, t, T) are returned.
            balance: what experts add to.
        """
        return self.run(
            values,
            lambda layer, block, x: block.step(x, cache, layer, mask, causal, layer in weights_layers, balance),
        )


class DecoderStack(_Stack):
    """Blocks of causal self-attention and cross-attention; arguments as `EncoderStack` and `DecoderBlock`.

    >>> stack = DecoderStack(layers=2, width=8, heads=2, feedforward=16, positions="rotary")
    >>> stack(torch.randn(1, 3, 8), memory=torch.randn(1, 5, 8)).shape
    torch.Size([1, 3, 8])
    """

    def __init__(self, layers: int, width: int, heads: int, feedforward: int, **options: Any) -> None:
        super().__init__(DecoderBlock, layers, width, heads, feedforward, **options)

    def precompute_cross_kv(self, memory: Tensor) -> list[KeyValue]:
        """(B, S, D) -> keys and values of the memory for every layer, computed once for each source."""
        return [block.cross.keys_values(memory) for block in self.blocks]  # type: ignore[union-attr,operator]

    def forward(
        self, values: Tensor, memory: Tensor, mask: Tensor | None = None, balance: Balance | None = None
    ) -> Tensor:
        """(B, T, D), memory (B, S, D), mask (B, S) True where there is a token -> (B, T, D)."""
        mask = None if mask is None else mask[:, None, None]
        return self.run(
            self.add_positions(values), lambda layer, block, x: (self.run_block(block, x, memory, mask, balance), None)
        )[0]

    def with_weights(self, values: Tensor, memory: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The same, and the weights (B, L, N, T, S) of the cross-attention."""
        mask = None if mask is None else mask[:, None, None]
        values, weights = self.run(
            self.add_positions(values),
            lambda layer, block, x: block.with_weights(x, block.cross.keys_values(memory), mask),
        )
        return values, torch.stack(weights, 1)

    def step(
        self,
        values: Tensor,
        kv_cache: KVCache | SSRUCache | None,
        cross_kv: list[KeyValue],
        mask: Tensor | None = None,
        weights_layer: int | None = None,
    ) -> tuple[Tensor, KVCache | SSRUCache, Tensor | None]:
        """New tokens (R, t, D) after the cached ones -> outputs (R, t, D), the cache, weights or None.

        Args:
            values: one new token or several, which do not see later ones; an SSRU takes one.
            kv_cache: of the earlier tokens, changed in place; None before the first.
            cross_kv: from `precompute_cross_kv`, of B sources that R / B rows share each.
            mask: (B, S), True where the memory has a token; or (B, 1, 1, S), 0 there and -inf elsewhere.
            weights_layer: the layer whose cross-attention weights (R, N, t, S) are returned.
        """
        mask = mask[:, None, None] if mask is not None and mask.dim() == 2 else mask
        cache = self.new_cache(len(values), max(CAPACITY, values.shape[1])) if kv_cache is None else kv_cache
        cache.advance_(values.shape[1])
        hidden, weights = self.run(
            self.add_positions(values, cache.start),
            lambda layer, block, x: block.step(x, cache, layer, cross_kv[layer], mask, layer == weights_layer),
        )
        return hidden, cache, weights[0] if weights else None


def _padding_mask(lengths: Tensor | None, values: Tensor) -> Tensor | None:
    """(B,) -> (B, 1, 1, T)."""
    return None if lengths is None else length_mask(lengths.to(values.device), values.shape[1])[:, None, None]
