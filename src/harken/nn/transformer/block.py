"""The blocks of the Transformer: attention, then a feed-forward layer, each with residual and norm.

pre   x + f(norm(x))     trains without a careful warm-up
post  norm(x + f(x))     as the paper draws it

E13  m = W2 f(W1 x + b1) + b2, with f = ReLU or GELU (Hendrycks and Gimpel, 2016); SwiGLU has a gate in its place,
W2 (SiLU(W1 x + b1) * (W3 x + b3)) + b2 (Shazeer, 2020). Vaswani et al. (2017); pre-norm: Xiong et al. (2020).
With `experts`, several of them stand in the place of one, a few of which see each token (`experts.py`).
"""

from __future__ import annotations

from torch import Tensor, nn

from harken.nn.activations import ACTIVATIONS, inner_width
from harken.nn.attention.multihead import CrossAttention, KeyValue, SelfAttention
from harken.nn.dropout import Dropout
from harken.nn.positions.base import AttentionPositions
from harken.nn.transformer.balance import Balance
from harken.nn.transformer.experts import Experts


class FeedForward(nn.Module):
    """Two linear maps with an activation between them, the same at every position; SwiGLU's first map is double."""

    def __init__(self, width: int, inner: int, dropout: float = 0.0, activation: str = "relu") -> None:
        super().__init__()
        self.expand = nn.Linear(width, inner_width(activation, inner))
        self.contract = nn.Linear(inner, width)
        self.dropout = Dropout(dropout)
        self.activation = ACTIVATIONS[activation]

    def forward(self, values: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        return self.contract(self.dropout(self.activation(self.expand(values))))


class _Block(nn.Module):
    """A feed-forward layer, or experts in its place; residual connection, dropout and norm around each sub-layer."""

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
    ) -> None:
        super().__init__()
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
        return norm(values) if self.pre else values

    def after(self, norm: nn.Module, values: Tensor, change: Tensor) -> Tensor:
        values = values + self.dropout(change)
        return values if self.pre else norm(values)

    def finish(self, values: Tensor, balance: Balance | None = None) -> Tensor:
        """The last sub-layer: (B, T, D) -> (B, T, D); experts say how evenly they were used."""
        seen = self.before(self.feedforward_norm, values)
        if isinstance(self.feedforward, Experts):
            change, share = self.feedforward(seen, None if balance is None else balance.real)
            if balance is not None:
                balance.parts.append(share)
        else:
            change = self.feedforward(seen)
        return self.after(self.feedforward_norm, values, change)


class EncoderBlock(_Block):
    """Self-attention, then feed-forward; also the block of a decoder that has no encoder."""

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
        return self.finish(self.after(self.attention_norm, values, change), balance)

    def with_weights(
        self, values: Tensor, mask: Tensor | None, distances: Tensor | None = None, causal: bool = False
    ) -> tuple[Tensor, Tensor]:
        """The same, and the weights (B, N, S, S)."""
        seen = self.before(self.attention_norm, values)
        change, weights = self.attention.with_weights(seen, mask, causal, distances)
        return self.finish(self.after(self.attention_norm, values, change)), weights

    def step(
        self,
        values: Tensor,
        past: KeyValue | None,
        mask: Tensor | None = None,
        weights: bool = False,
        balance: Balance | None = None,
    ) -> tuple[Tensor, KeyValue, Tensor | None]:
        """New positions (B, T, D) after the cached ones, the cache in and out; see `SelfAttention.step`."""
        seen, found = self.before(self.attention_norm, values), None
        if weights:
            change, past, found = self.attention.step_with_weights(seen, past, mask)
        else:
            change, past = self.attention.step(seen, past, mask)
        return self.finish(self.after(self.attention_norm, values, change), balance), past, found


class DecoderBlock(_Block):
    """Masked self-attention, attention to the encoder, then feed-forward."""

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
    ) -> None:
        super().__init__(
            width,
            heads,
            feedforward,
            dropout,
            norm,
            attention_dropout,
            feedforward_dropout,
            activation,
            positions,
            score,
            experts,
            experts_active,
        )
        self.cross = CrossAttention(width, heads, attention_dropout, score)
        self.cross_norm = nn.LayerNorm(width)

    def forward(self, values: Tensor, memory: KeyValue, mask: Tensor | None, balance: Balance | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D); memory from `cross.keys_values`, mask (B, 1, 1, S)."""
        change = self.attention(self.before(self.attention_norm, values), causal=True)
        values = self.after(self.attention_norm, values, change)
        change = self.cross(self.before(self.cross_norm, values), memory, mask)
        return self.finish(self.after(self.cross_norm, values, change), balance)

    def with_weights(self, values: Tensor, memory: KeyValue, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The same, and the weights (B, N, T, S) of the attention to the encoder."""
        change = self.attention(self.before(self.attention_norm, values), causal=True)
        values = self.after(self.attention_norm, values, change)
        change, weights = self.cross.with_weights(self.before(self.cross_norm, values), memory, mask)
        return self.finish(self.after(self.cross_norm, values, change)), weights

    def step(
        self, values: Tensor, past: KeyValue | None, memory: KeyValue, mask: Tensor | None, weights: bool
    ) -> tuple[Tensor, KeyValue, Tensor | None]:
        """One new position (B, 1, D), the cache of the earlier ones in and out; weights (B, N, 1, S) if wanted."""
        change, past = self.attention.step(self.before(self.attention_norm, values), past)
        values = self.after(self.attention_norm, values, change)
        query, found = self.before(self.cross_norm, values), None
        if weights:
            change, found = self.cross.with_weights(query, memory, mask)
        else:
            change = self.cross(query, memory, mask)
        return self.finish(self.after(self.cross_norm, values, change)), past, found
