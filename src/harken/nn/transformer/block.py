"""The blocks of the Transformer: attention, then a feed-forward layer, each with residual connection and layer norm.

pre   x + f(norm(x))     trains without a careful warm-up (Xiong et al., 2020)
post  norm(x + f(x))     as in the paper

FFN(x) = W2 f(W1 x + b1) + b2, with f = ReLU or GELU (Hendrycks and Gimpel, 2016); SwiGLU has a gate instead,
W2 (SiLU(W1 x + b1) * (W3 x + b3)) + b2 (Shazeer, 2020). Vaswani et al. (2017). With `experts`, a mixture of experts
takes the place of the feed-forward layer (`experts.py`). With `mixer="ssru"` a decoder block has a recurrent unit in
the place of self-attention (`harken.nn.recurrent.ssru`).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from harken.nn.activations import ACTIVATIONS, inner_width
from harken.nn.attention.multihead import CrossAttention, KeyValue, SelfAttention
from harken.nn.attention.packed import PackedMask
from harken.nn.dropout import Dropout
from harken.nn.positions.base import AttentionPositions
from harken.nn.recurrent.ssru import SSRU
from harken.nn.transformer.balance import Balance
from harken.nn.transformer.experts import Experts
from harken.nn.transformer.fused import Draws, linear, residual_norm


class FeedForward(nn.Module):
    """Two linear maps with an activation between them, the same at every position; SwiGLU's first map is double.

    >>> import torch
    >>> FeedForward(width=8, inner=32, activation="swiglu")(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, width: int, inner: int, dropout: float = 0.0, activation: str = "relu") -> None:
        super().__init__()
        self.expand = nn.Linear(width, inner_width(activation, inner))
        self.contract = nn.Linear(inner, width)
        self.dropout = Dropout(dropout)
        self.activation = ACTIVATIONS[activation]

    def forward(self, values: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        return self.contract(self.dropout(self.activation(self.expand(values))))

    def packed(self, values: Tensor) -> Tensor:
        """(T, D) -> (T, D), without the bias of `contract`."""
        if self.activation is ACTIVATIONS["relu"]:
            inner = linear(self.expand, values, relu=True)
        else:
            inner = self.activation(linear(self.expand, values))
        return F.linear(self.dropout(inner), self.contract.weight)


class _Block(nn.Module):
    """Self-attention and a feed-forward layer or experts; residual connection, dropout and norm around each."""

    # With FSDP, the weights of a block are gathered while one of these runs.
    sharded_methods: ClassVar = ("forward", "step", "packed")

    def __init__(
        self,
        width: int,
        heads: int,
        feedforward: int,
        dropout: float = 0.0,
        norm: str = "pre",
        attention_dropout: float = 0.0,
        feedforward_dropout: float = 0.0,
        activation: str = "relu",
        positions: AttentionPositions | None = None,
        score: str = "scaled",
        experts: int = 0,
        experts_active: int = 2,
        mixer: str = "attention",
    ) -> None:
        super().__init__()
        self.mixer = mixer
        if mixer == "ssru":
            self.recurrence = SSRU(width)
        else:
            self.attention = SelfAttention(width, heads, attention_dropout, positions, score)
        self.feedforward: nn.Module = (
            Experts(width, feedforward, experts, experts_active, activation, feedforward_dropout)
            if experts
            else FeedForward(width, feedforward, feedforward_dropout, activation)
        )
        self.attention_norm, self.feedforward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = Dropout(dropout)
        self.pre = norm == "pre"

    def before(self, norm: nn.Module, values: Tensor) -> Tensor:
        """The input of a sub-layer."""
        return norm(values) if self.pre else values

    def after(self, norm: nn.Module, values: Tensor, change: Tensor) -> Tensor:
        """The residual connection around a sub-layer whose output is `change`."""
        values = values + self.dropout(change)
        return values if self.pre else norm(values)

    def connect(
        self, values: Tensor, change: Tensor, bias: Tensor, own: nn.Module, following: nn.Module | None, draws: Draws
    ) -> tuple[Tensor, Tensor | None]:
        """The residual connection around a sub-layer of packed sentences whose output is change + bias.

        Returns:
            The values after it, and the input of the next sub-layer, whose norm is `following`; None where that is
            applied later.
        """
        if self.pre and isinstance(following, nn.LayerNorm):
            return residual_norm(values, change, bias, following, self.dropout, draws)
        values = values + self.dropout(change + bias)
        if self.pre:
            return values, None
        values = own(values)
        return values, values

    def packed_attention(
        self, values: Tensor, inputs: Tensor | None, mask: PackedMask, following: nn.Module, draws: Draws
    ) -> tuple[Tensor, Tensor]:
        """The first sub-layer for packed sentences; `inputs` are the values after its norm, if that was applied."""
        inputs = self.before(self.attention_norm, values) if inputs is None else inputs
        output = self.attention.output
        change = F.linear(self.attention.packed(inputs, mask, linear), output.weight)
        return self.connect(values, change, output.bias, self.attention_norm, following, draws)  # type: ignore[return-value]

    def packed_feed_forward(
        self, values: Tensor, inputs: Tensor, following: nn.Module | None, draws: Draws
    ) -> tuple[Tensor, Tensor | None]:
        """The last sub-layer for packed sentences; results as `connect`."""
        assert isinstance(self.feedforward, FeedForward)
        change, bias = self.feedforward.packed(inputs), self.feedforward.contract.bias
        return self.connect(values, change, bias, self.feedforward_norm, following, draws)

    def feed_forward(self, values: Tensor, balance: Balance | None = None) -> Tensor:
        """The last sub-layer: (B, T, D) -> (B, T, D); experts add to the balance."""
        inputs = self.before(self.feedforward_norm, values)
        if isinstance(self.feedforward, Experts):
            change, share = self.feedforward(inputs, None if balance is None else balance.real)
            if balance is not None:
                balance.parts.append(share)
        else:
            change = self.feedforward(inputs)
        return self.after(self.feedforward_norm, values, change)


class EncoderBlock(_Block):
    """Self-attention, then feed-forward; also the block of a decoder without an encoder.

    >>> import torch
    >>> EncoderBlock(width=8, heads=2, feedforward=16)(torch.randn(2, 5, 8), mask=None, causal=True).shape
    torch.Size([2, 5, 8])
    """

    def forward(
        self,
        values: Tensor,
        mask: Tensor | None,
        distances: Tensor | None = None,
        causal: bool = False,
        balance: Balance | None = None,
    ) -> Tensor:
        """(B, S, D) -> (B, S, D); mask (B, 1, 1, S); distances (B, S, S) for relative positions that are given."""
        change = self.attention(self.before(self.attention_norm, values), mask, causal, distances)
        return self.feed_forward(self.after(self.attention_norm, values, change), balance)

    def packed(
        self, values: Tensor, inputs: Tensor | None, mask: PackedMask, following: nn.Module | None, draws: Draws
    ) -> tuple[Tensor, Tensor | None]:
        """(S, D) -> (S, D) for packed sentences; `inputs` are the values after the first norm, `following` the next.

        Returns:
            The values after the block, and the input of the next, if its norm is given.
        """
        values, inputs = self.packed_attention(values, inputs, mask, self.feedforward_norm, draws)
        return self.packed_feed_forward(values, inputs, following, draws.at(1))

    def with_weights(
        self, values: Tensor, mask: Tensor | None, distances: Tensor | None = None, causal: bool = False
    ) -> tuple[Tensor, Tensor]:
        """The same, and the weights (B, N, S, S)."""
        inputs = self.before(self.attention_norm, values)
        change, weights = self.attention.with_weights(inputs, mask, causal, distances)
        return self.feed_forward(self.after(self.attention_norm, values, change)), weights

    def step(
        self,
        values: Tensor,
        kv_cache: KeyValue | None,
        mask: Tensor | None = None,
        causal: bool = True,
        need_weights: bool = False,
        balance: Balance | None = None,
    ) -> tuple[Tensor, KeyValue, Tensor | None]:
        """New positions (B, T, D) after the cached ones; outputs, cache and weights as `SelfAttention.step`."""
        inputs = self.before(self.attention_norm, values)
        step = self.attention.step(inputs, kv_cache, mask, causal=causal, need_weights=need_weights)
        change, kv_cache, weights = step
        return self.feed_forward(self.after(self.attention_norm, values, change), balance), kv_cache, weights


class DecoderBlock(_Block):
    """Causal self-attention, cross-attention to the encoder, then feed-forward; arguments as `EncoderBlock`.

    Args:
        mixer: "attention", or "ssru" for a recurrent unit in the place of self-attention.

    >>> import torch
    >>> block, memory = DecoderBlock(width=8, heads=2, feedforward=16), torch.randn(2, 5, 8)
    >>> block(torch.randn(2, 3, 8), block.cross.keys_values(memory), mask=None).shape
    torch.Size([2, 3, 8])
    """

    def __init__(
        self,
        width: int,
        heads: int,
        feedforward: int,
        *,
        attention_dropout: float = 0.0,
        score: str = "scaled",
        mixer: Literal["attention", "ssru"] = "attention",
        **options: Any,
    ) -> None:
        options |= {"attention_dropout": attention_dropout, "score": score, "mixer": mixer}
        super().__init__(width, heads, feedforward, **options)
        self.cross = CrossAttention(width, heads, attention_dropout, score)
        self.cross_norm = nn.LayerNorm(width)

    def forward(
        self, values: Tensor, memory: Tensor | KeyValue, mask: Tensor | None, balance: Balance | None = None
    ) -> Tensor:
        """(B, T, D) -> (B, T, D); memory (B, S, D) or from `cross.keys_values`, mask (B, 1, 1, S)."""
        memory = self.cross.keys_values(memory) if isinstance(memory, Tensor) else memory
        values = self._mix(values)
        return self._cross_and_feed_forward(values, memory, mask, balance=balance)[0]

    def packed(
        self,
        values: Tensor,
        inputs: Tensor | None,
        memory: Tensor,
        past: PackedMask,
        sources: PackedMask,
        following: nn.Module | None,
        draws: Draws,
    ) -> tuple[Tensor, Tensor | None]:
        """As `EncoderBlock.packed`, with a memory (S, D)."""
        values, inputs = self.packed_attention(values, inputs, past, self.cross_norm, draws)
        output = self.cross.output
        change = F.linear(self.cross.packed(inputs, memory, sources, linear), output.weight)
        values, inputs = self.connect(values, change, output.bias, self.cross_norm, self.feedforward_norm, draws.at(1))
        assert inputs is not None
        return self.packed_feed_forward(values, inputs, following, draws.at(2))

    def with_weights(self, values: Tensor, memory: KeyValue, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The same, and the weights (B, N, T, S) of the cross-attention."""
        values, weights = self._cross_and_feed_forward(self._mix(values), memory, mask, need_weights=True)
        assert weights is not None
        return values, weights

    def step(
        self,
        values: Tensor,
        kv_cache: KeyValue | None,
        memory: KeyValue,
        mask: Tensor | None,
        need_weights: bool = False,
    ) -> tuple[Tensor, KeyValue, Tensor | None]:
        """New positions (B, T, D) after the cached ones -> outputs, the cache with them, weights (B, N, T, S) or None.

        The weights are those of the cross-attention; several new positions do not see later ones.

        Raises:
            ValueError: the block has no self-attention; `harken.nn.recurrent.ssru.SSRUCache` is the state of its unit.
        """
        if self.mixer == "ssru":
            raise ValueError('a block with mixer="ssru" has no keys and values; step it with SSRUCache')
        change, kv_cache, _ = self.attention.step(self.before(self.attention_norm, values), kv_cache)
        values = self.after(self.attention_norm, values, change)
        values, weights = self._cross_and_feed_forward(values, memory, mask, need_weights)
        return values, kv_cache, weights

    def _mix(self, values: Tensor) -> Tensor:
        """The first sub-layer: causal self-attention, or the recurrent unit."""
        inputs = self.before(self.attention_norm, values)
        change = self.recurrence(inputs) if self.mixer == "ssru" else self.attention(inputs, causal=True)
        return self.after(self.attention_norm, values, change)

    def _cross_and_feed_forward(
        self,
        values: Tensor,
        memory: KeyValue,
        mask: Tensor | None,
        need_weights: bool = False,
        balance: Balance | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        query, weights = self.before(self.cross_norm, values), None
        if need_weights:
            change, weights = self.cross.with_weights(query, memory, mask)
        else:
            change = self.cross(query, memory, mask)
        return self.feed_forward(self.after(self.cross_norm, values, change), balance), weights
