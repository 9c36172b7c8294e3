"""Multi-head attention: softmax(Q K^T / sqrt(K)) V in each of N heads, concatenated, times W^O.

`SelfAttention` has queries, keys and values from one source, `CrossAttention` looks from the decoder into
the encoder's memory. Both take the fast path unless weights are asked for. Vaswani et al. (2017).

`score` says how queries and keys are compared (E9, `head_scores.py`), `positions` how a sequence that looks at itself
knows its order (S24, `attention_positions.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harken.nn.attention.additive_heads import AdditiveHeads
from harken.nn.attention.head_scores import CosineHeads, DotHeads, MultiplicativeHeads, ScaledHeads
from harken.nn.positions.base import AttentionPositions

KeyValue = tuple[Tensor, Tensor]  # each (B, N, S, K)
HEAD_SCORES: dict[str, type[ScaledHeads]] = {
    "scaled": ScaledHeads,
    "dot": DotHeads,
    "cosine": CosineHeads,
    "multiplicative": MultiplicativeHeads,
    "additive": AdditiveHeads,
}


def head_score(name: str, heads: int, width: int) -> ScaledHeads:
    """The score of this name for so many heads of this width."""
    if name not in HEAD_SCORES:
        raise ValueError(f"heads have no score called {name!r}; choose one of {', '.join(HEAD_SCORES)}")
    return HEAD_SCORES[name](heads, width)


def split_heads(values: Tensor, heads: int) -> Tensor:
    """(B, T, D) -> (B, N, T, K)."""
    batch, time, width = values.shape
    return values.view(batch, time, heads, width // heads).transpose(1, 2)


def join_heads(values: Tensor) -> Tensor:
    """(B, N, T, K) -> (B, T, D)."""
    batch, heads, time, width = values.shape
    return values.transpose(1, 2).reshape(batch, time, heads * width)


class SelfAttention(nn.Module):
    """A sequence looks at itself."""

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: float = 0.0,
        positions: AttentionPositions | None = None,
        score: str = "scaled",
    ) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.positions = positions or AttentionPositions()
        self.score = head_score(score, heads, width // heads)
        if self.positions.turns and not self.score.multiplies:
            raise ValueError(
                f"rotary positions turn queries and keys that are multiplied with each other, but the {score} score "
                "adds them; choose relative or ALiBi positions, or another score"
            )

    def project(self, values: Tensor, start: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """(B, T, D), the first at position `start` -> queries, keys, values (B, N, T, K)."""
        query, key, value = (split_heads(part, self.heads) for part in self.query_key_value(values).chunk(3, -1))
        return *self.positions.turn(self.score.queries(query), self.score.keys(key), start), value

    def forward(
        self, values: Tensor, mask: Tensor | None = None, causal: bool = False, distances: Tensor | None = None
    ) -> Tensor:
        """(B, T, D) -> (B, T, D); mask (B, 1, 1, T), True = visible; distances (B, T, T) in place of j - i."""
        self._check(distances)
        dropout = self.dropout if self.training else 0.0
        context = self.positions.attend(*self.project(values), mask, causal, dropout, distances, self.score)
        return self.output(join_heads(context))

    def with_weights(
        self, values: Tensor, mask: Tensor | None, causal: bool, distances: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The same by the definition, and the weights (B, N, T, T)."""
        self._check(distances)
        parts = self.project(values)
        context, weights = self.positions.attend_with_weights(*parts, mask, causal, distances, self.score)
        return self.output(join_heads(context)), weights

    def step(
        self, values: Tensor, past: KeyValue | None, mask: Tensor | None = None, distances: Tensor | None = None
    ) -> tuple[Tensor, KeyValue]:
        """New positions (B, T, D) that see the cached past and each other, or what a mask (B, 1, T, P + T) allows.

        Distances (B, T, P + T) are from the new positions to all.
        """
        query, key, value = self._append(values, past)
        dropout = self.dropout if self.training else 0.0
        context = self.positions.attend(query, key, value, mask, False, dropout, distances, self.score)
        return self.output(join_heads(context)), (key, value)

    def step_with_weights(
        self, values: Tensor, past: KeyValue | None, mask: Tensor | None = None, distances: Tensor | None = None
    ) -> tuple[Tensor, KeyValue, Tensor]:
        """The same by the definition, and the weights (B, N, T, P + T)."""
        query, key, value = self._append(values, past)
        context, weights = self.positions.attend_with_weights(query, key, value, mask, False, distances, self.score)
        return self.output(join_heads(context)), (key, value), weights

    def _check(self, distances: Tensor | None) -> None:
        if distances is not None and not self.positions.measures:
            kind = type(self.positions).__name__
            raise ValueError(f"distances were given, but {kind} does not use them; build with RelativePositions")

    def _append(self, values: Tensor, past: KeyValue | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, N, T, K) of the new positions, keys and values (B, N, P + T, K) of all."""
        query, key, value = self.project(values, 0 if past is None else past[0].shape[2])
        if past is None:
            return query, key, value
        return query, torch.cat((past[0], key), 2), torch.cat((past[1], value), 2)


class CrossAttention(nn.Module):
    """The decoder looks at the encoder's memory."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0, score: str = "scaled") -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)
        self.score = head_score(score, heads, width // heads)

    def keys_values(self, memory: Tensor) -> KeyValue:
        """(B, S, D) -> keys and values (B, N, S, K), made once for each source."""
        key, value = self.key_value(memory).chunk(2, -1)
        return self.score.keys(split_heads(key, self.heads)), split_heads(value, self.heads)

    def forward(self, values: Tensor, memory: KeyValue, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D); mask (B, 1, 1, S), True = visible."""
        query = self.score.queries(split_heads(self.query(values), self.heads))
        dropout = self.dropout if self.training else 0.0
        return self.output(join_heads(self.score.attend(query, *memory, mask, dropout=dropout)))

    def with_weights(self, values: Tensor, memory: KeyValue, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The same by the definition, and the weights (B, N, T, S)."""
        query = self.score.queries(split_heads(self.query(values), self.heads))
        context, weights = self.score.attend_with_weights(query, *memory, mask)
        return self.output(join_heads(context)), weights
