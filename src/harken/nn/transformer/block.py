"""The blocks of the Transformer: attention, then a feed-forward layer, each with residual connection and layer norm.

pre   x + f(norm(x))     trains without a careful warm-up (Xiong et al., 2020)
post  norm(x + f(x))     as in the paper

FFN(x) = W2 f(W1 x + b1) + b2, with f = ReLU, GELU (Hendrycks and Gimpel, 2016) or SiLU; SwiGLU has a gate instead,
W2 (SiLU(W1 x + b1) * (W3 x + b3)) + b2 (Shazeer, 2020). Vaswani et al. (2017). Norms are layer norms, or RMS norms
x / sqrt(mean(x^2) + epsilon) * gain (Zhang and Sennrich, 2019). With `experts`, a mixture of experts
takes the place of the feed-forward layer (`experts.py`). With `mixer="ssru"` a decoder block has a recurrent unit in
the place of self-attention (`harken.nn.recurrent.ssru`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from torch import Tensor, nn

from harken.nn.activations import ACTIVATIONS, inner_width
from harken.nn.attention.kv_cache import KeyValue, KVCache
from harken.nn.attention.multihead import CrossAttention, SelfAttention
from harken.nn.attention.packed import EqualRows, PackedMask
from harken.nn.dropout import Dropout
from harken.nn.positions.base import AttentionPositions
from harken.nn.recurrent.ssru import SSRU, SSRUCache
from harken.nn.transformer.experts import Balance, Experts
from harken.nn.transformer.fused import DropoutSeed, linear, product, residual_norm

EPSILON = 1e-5  # added to the variance in every norm

# The input of a sub-layer (B, T, D) -> its output (B, T, D), and attention weights where they were asked for.
Sublayer = Callable[[Tensor], tuple[Tensor, Tensor | None]]


class FeedForward(nn.Module):
    """Two linear maps with an activation between them, the same at every position; SwiGLU's first map is double.

    >>> import torch
    >>> FeedForward(width=8, inner=32, activation="swiglu")(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(
        self, width: int, inner: int, dropout: float = 0.0, activation: str = "relu", bias: bool = True
    ) -> None:
        super().__init__()
        self.expand = nn.Linear(width, inner_width(activation, inner), bias)
        self.contract = nn.Linear(inner, width, bias)
        self.dropout = Dropout(dropout)
        self.activation = ACTIVATIONS[activation]

    def forward(self, values: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        output: Tensor = self.contract(self.dropout(self.activation(self.expand(values))))
        return output

    def packed(self, values: Tensor) -> Tensor:
        """(T, D) -> the inputs (T, I) of `contract`."""
        if self.activation is ACTIVATIONS["relu"]:
            inner = linear(self.expand, values, relu=True)
        else:
            inner = self.activation(linear(self.expand, values))
        dropped: Tensor = self.dropout(inner)
        return dropped


def new_norm(kind: str, width: int, epsilon: float = EPSILON) -> nn.LayerNorm | nn.RMSNorm:
    """A norm of features: "layer" or "rms", which has no bias and subtracts no mean."""
    return nn.RMSNorm(width, epsilon) if kind == "rms" else nn.LayerNorm(width, epsilon)


def connect(
    values: Tensor, sublayer: Sublayer, norm: nn.Module, dropout: nn.Module, pre: bool
) -> tuple[Tensor, Tensor | None]:
    """A sub-layer with its residual connection, dropout and norm; its attention weights, if it gives them."""
    change, weights = sublayer(norm(values) if pre else values)
    values = values + dropout(change)
    return values if pre else norm(values), weights


class _Block(nn.Module):
    """Self-attention and a feed-forward layer or experts; residual connection, dropout and norm around each."""

    attends_to_memory: ClassVar = False
    cross: CrossAttention  # of blocks that attend to a memory
    cross_norm: nn.Module

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
        mixer: Literal["attention", "ssru"] = "attention",
        norm_epsilon: float = EPSILON,
        norm_kind: str = "layer",
        head_width: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.mixer = mixer
        if mixer == "ssru":
            self.recurrence = SSRU(width)
        else:
            self.attention = SelfAttention(width, heads, attention_dropout, positions, score, head_width, bias)
        self.feedforward: nn.Module = (
            Experts(width, feedforward, experts, experts_active, activation, feedforward_dropout)
            if experts
            else FeedForward(width, feedforward, feedforward_dropout, activation, bias)
        )
        self.attention_norm = new_norm(norm_kind, width, norm_epsilon)
        self.feedforward_norm = new_norm(norm_kind, width, norm_epsilon)
        self.dropout = Dropout(dropout)
        self.pre = norm == "pre"
        if self.attends_to_memory:
            self.cross = CrossAttention(width, heads, attention_dropout, score, head_width, bias)
            self.cross_norm = new_norm(norm_kind, width, norm_epsilon)

    def wire(
        self, values: Tensor, mix: Sublayer, cross: Sublayer | None = None, balance: Balance | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """All sub-layers: (B, T, D) -> (B, T, D), and the weights of the last attention, if it gives them.

        Args:
            mix: self-attention, or what takes its place.
            cross: attention to a memory.
            balance: what experts add to.
        """
        values, weights = connect(values, mix, self.attention_norm, self.dropout, self.pre)
        if cross is not None:
            values, weights = connect(values, cross, self.cross_norm, self.dropout, self.pre)
        values, _ = connect(
            values, lambda x: self._feed_forward(x, balance), self.feedforward_norm, self.dropout, self.pre
        )
        return values, weights

    def _feed_forward(self, values: Tensor, balance: Balance | None) -> tuple[Tensor, None]:
        """The last sub-layer; experts add to the balance."""
        if not isinstance(self.feedforward, Experts):
            return self.feedforward(values), None
        change, share = self.feedforward(values, None if balance is None else balance.real)
        if balance is not None:
            balance.parts.append(share)
        return change, None

    def packed(
        self,
        values: Tensor,
        inputs: Tensor | None,
        following: nn.Module | None,
        seed: DropoutSeed,
        mask: PackedMask | EqualRows,
        memory: Tensor | None = None,
        sources: PackedMask | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """`wire` for packed sentences (T, D), where a kernel joins a residual connection and the norm that follows.

        Args:
            inputs: the values after the first norm, where the block before has applied it.
            following: the norm of the block after this one, to be applied here.
            seed: of dropout.
            mask: of self-attention.
            memory, sources: (S, D) of the source sentences, and which of them a token sees.

        Returns:
            The values after the block, and the input of the next, if its norm is given.
        """
        feed_forward = self.feedforward
        assert isinstance(feed_forward, FeedForward)
        sublayers: list[tuple[nn.Module, Callable[[Tensor], Tensor], nn.Linear | None]]
        if self.mixer == "ssru":
            sublayers = [(self.attention_norm, lambda x: self.recurrence.packed(x, mask.positions), None)]
        else:
            attend_self = lambda x: self.attention.packed(x, mask, linear)  # noqa: E731
            sublayers = [(self.attention_norm, attend_self, self.attention.output)]
        if memory is not None and sources is not None:
            attend = lambda x: self.cross.packed(x, memory, sources, linear)  # noqa: E731
            sublayers.append((self.cross_norm, attend, self.cross.output))
        sublayers.append((self.feedforward_norm, feed_forward.packed, feed_forward.contract))
        next_norms = [*(norm for norm, _, _ in sublayers[1:]), following]
        for number, ((norm, sublayer, output), next_norm) in enumerate(zip(sublayers, next_norms, strict=True)):
            inputs = inputs if inputs is not None else norm(values) if self.pre else values
            change = sublayer(inputs)
            change, bias = (change, None) if output is None else (product(output, change), output.bias)
            if self.pre and isinstance(next_norm, nn.LayerNorm):  # the bias is added with the residual
                values, inputs = residual_norm(values, change, bias, next_norm, self.dropout, seed.at(number))
                continue
            values = values + self.dropout(change if bias is None else change + bias)
            values = values if self.pre else norm(values)
            inputs = None if self.pre else values
        return values, inputs


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
        return self.wire(values, lambda x: (self.attention(x, mask, causal, distances), None), balance=balance)[0]

    def with_weights(
        self, values: Tensor, mask: Tensor | None, distances: Tensor | None = None, causal: bool = False
    ) -> tuple[Tensor, Tensor]:
        """The same, and the weights (B, N, S, S)."""
        values, weights = self.wire(values, lambda x: self.attention.with_weights(x, mask, causal, distances))
        assert weights is not None
        return values, weights

    def step(
        self,
        values: Tensor,
        cache: KVCache,
        layer: int,
        mask: Tensor | None = None,
        causal: bool = True,
        need_weights: bool = False,
        balance: Balance | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """The current tokens (B, t, D) with the cache; arguments and results as `SelfAttention.step`."""
        return self.wire(
            values,
            lambda x: self.attention.step(x, cache, layer, mask, causal, need_weights=need_weights),
            balance=balance,
        )


class DecoderBlock(_Block):
    """Causal self-attention, cross-attention to the encoder, then feed-forward; arguments as `EncoderBlock`.

    Args:
        mixer: "attention", or "ssru" for a recurrent unit in the place of self-attention.

    >>> import torch
    >>> block, memory = DecoderBlock(width=8, heads=2, feedforward=16), torch.randn(2, 5, 8)
    >>> block(torch.randn(2, 3, 8), block.cross.keys_values(memory), mask=None).shape
    torch.Size([2, 3, 8])
    """

    attends_to_memory = True

    def forward(
        self, values: Tensor, memory: Tensor | KeyValue, mask: Tensor | None, balance: Balance | None = None
    ) -> Tensor:
        """(B, T, D) -> (B, T, D); memory (B, S, D) or from `cross.keys_values`, mask (B, 1, 1, S)."""
        keys_values = self.cross.keys_values(memory) if isinstance(memory, Tensor) else memory
        return self.wire(values, self._mix, lambda x: (self.cross(x, keys_values, mask), None), balance)[0]

    def with_weights(self, values: Tensor, memory: KeyValue, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The same, and the weights (B, N, T, S) of the cross-attention."""
        values, weights = self.wire(values, self._mix, lambda x: self.cross.with_weights(x, memory, mask))
        assert weights is not None
        return values, weights

    def step(
        self,
        values: Tensor,
        cache: KVCache | SSRUCache,
        layer: int,
        memory: KeyValue,
        mask: Tensor | None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The current tokens (R, t, D) with the cache -> (R, t, D), weights (R, N, t, S) over the memory or None.

        The R rows share the memories of B sources (`CrossAttention.forward`).
        """

        def mix(x: Tensor) -> tuple[Tensor, Tensor | None]:
            if isinstance(cache, SSRUCache):
                return cache.step(self.recurrence, x[:, 0], layer)[:, None], None
            return self.attention.step(x, cache, layer)

        def cross(x: Tensor) -> tuple[Tensor, Tensor | None]:
            return self.cross.with_weights(x, memory, mask) if need_weights else (self.cross(x, memory, mask), None)

        return self.wire(values, mix, cross)

    def _mix(self, values: Tensor) -> tuple[Tensor, None]:
        """The first sub-layer: causal self-attention, or the recurrent unit."""
        return self.recurrence(values) if self.mixer == "ssru" else self.attention(values, causal=True), None
