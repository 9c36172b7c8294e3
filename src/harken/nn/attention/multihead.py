"""Multi-head attention: softmax(Q K^T / sqrt(K)) V in each of N heads, concatenated, times W^O.

`SelfAttention` takes queries, keys and values from one sequence, `CrossAttention` queries from the decoder, keys and
values from the encoder's memory. Vaswani et al. (2017). `score` names how queries and keys are compared
(`head_scores.py`); `positions` tells self-attention the order of its sequence (`harken.nn.positions`).

>>> layer = SelfAttention(width=8, heads=2)
>>> layer(torch.randn(1, 3, 8), causal=True).shape
torch.Size([1, 3, 8])
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from harken.nn.attention.functional import attend, attend_with_weights
from harken.nn.attention.head_scores import ScaledHeads, head_score
from harken.nn.attention.kv_cache import KeyValue, KVCache
from harken.nn.attention.packed import EqualRows, PackedMask, packed_attend
from harken.nn.positions.base import AttentionPositions

Linear = Callable[[nn.Linear, Tensor], Tensor]  # applies a layer (`harken.nn.transformer.fused.linear`)


def check_dimensions(values: Tensor) -> None:
    """Refuse inputs that are not (B, T, D)."""
    if values.dim() != 3:
        raise ValueError(f"attention takes inputs (B, T, D), but these have {values.dim()} dimensions")


def split_heads(values: Tensor, heads: int) -> Tensor:
    """(B, T, N K) -> (B, N, T, K)."""
    batch, time, width = values.shape
    return values.view(batch, time, heads, width // heads).transpose(1, 2)


def join_heads(values: Tensor) -> Tensor:
    """(B, N, T, K) -> (B, T, N K)."""
    batch, heads, time, width = values.shape
    return values.transpose(1, 2).reshape(batch, time, heads * width)


class SelfAttention(nn.Module):
    """Attention of a sequence to itself.

    Args:
        width, heads: D and N.
        dropout: of the weights.
        positions: how self-attention knows the order.
        score: how queries and keys are compared.
        head_width: K; by default D / N.
        bias: whether the linear maps have one.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: float = 0.0,
        positions: AttentionPositions | None = None,
        score: str = "scaled",
        head_width: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.heads, self.dropout, self.head_width = heads, dropout, head_width or width // heads
        inner = heads * self.head_width
        self.query_key_value = nn.Linear(width, 3 * inner, bias)
        self.output = nn.Linear(inner, width, bias)
        self.positions = positions or AttentionPositions()
        self.score = head_score(score, heads, self.head_width)
        if self.positions.rotates_qk and not self.score.is_dot_product:
            raise ValueError(
                f"rotary positions rotate queries and keys that are multiplied with each other, but the {score} score "
                "adds them; choose relative or ALiBi positions, or another score"
            )

    def project(self, values: Tensor, start: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """(B, T, D), the first at position `start` -> queries, keys, values (B, N, T, K)."""
        check_dimensions(values)
        query, key, value = (split_heads(part, self.heads) for part in self.query_key_value(values).chunk(3, -1))
        return *self.positions.apply_rotary(self.score.queries(query), self.score.keys(key), start), value

    def forward(
        self, values: Tensor, mask: Tensor | None = None, causal: bool = False, distances: Tensor | None = None
    ) -> Tensor:
        """(B, T, D) -> (B, T, D); mask (B, 1, 1, T), True = visible; distances (B, T, T) in place of j - i."""
        self._check_distances(distances)
        return self._attend(*self.project(values), mask, causal, distances)[0]

    def with_weights(
        self, values: Tensor, mask: Tensor | None, causal: bool, distances: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The same without dropout, and the weights (B, N, T, T)."""
        self._check_distances(distances)
        output, weights = self._attend(*self.project(values), mask, causal, distances, need_weights=True)
        assert weights is not None
        return output, weights

    def step(
        self,
        values: Tensor,
        cache: KVCache,
        layer: int,
        mask: Tensor | None = None,
        causal: bool = True,
        distances: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The current tokens (B, t, D) attend to all T tokens of the cache -> (B, t, D), weights (B, N, t, T) or None.

        Args:
            values: the tokens whose slots `cache.advance_` has opened.
            cache: whose keys and values are read, and to which those of the current tokens are added.
            layer: of the cache.
            mask: (B, 1, t or 1, T), True = visible.
            causal: tokens do not see later ones.
            distances: (B, t, T) from the current tokens to all.
            need_weights: also return the weights.
        """
        self._check_distances(distances)
        check_dimensions(values)
        batch, time, _ = values.shape
        split = self.query_key_value(values).view(batch, time, 3, self.heads, self.head_width)
        split = split.permute(2, 0, 3, 1, 4)  # (3, B, N, t, K)
        query, key_value = split[0], split[1:]
        if type(self.score) is not ScaledHeads or self.positions.rotates_qk:
            query, key = self.score.queries(query), self.score.keys(key_value[0])
            query, key = self.positions.apply_rotary(query, key, cache.start)
            key_value = torch.stack((key, key_value[1]))
        key, value = cache.write_(layer, key_value)
        if cache.mask is not None:
            mask, distances = cache.mask if mask is None else mask & cache.mask, cache.distances
        return self._attend(query, key, value, mask, causal, distances, need_weights)

    def packed(self, values: Tensor, mask: PackedMask | EqualRows, linear: Linear) -> Tensor:
        """(T, D) -> contexts (T, D) of packed sentences, before `output`; the score must be a dot product."""
        projected = linear(self.query_key_value, values).view(len(values), 3, self.heads, -1)  # (T, 3, N, K)
        if self.positions.rotates_qk or type(self.score) is not ScaledHeads:
            query, key, value = (part.transpose(0, 1)[None] for part in projected.unbind(1))  # (1, N, T, K)
            query, key = self.score.queries(query), self.score.keys(key)
            query, key = self.positions.apply_rotary(query, key, mask.positions)
            projected = torch.stack((query, key, value), 1)[0].permute(2, 0, 1, 3).to(projected.dtype).contiguous()
        return packed_attend(projected, None, mask).flatten(1)

    def _check_distances(self, distances: Tensor | None) -> None:
        if distances is not None and not self.positions.uses_distances:
            kind = type(self.positions).__name__
            raise ValueError(f"distances were given, but {kind} does not use them; build with RelativePositions")

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        causal: bool,
        distances: Tensor | None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        score, bias, value_bias = self.positions.functions(self.score, query.shape[-2], key.shape[-2], distances)
        weights = None
        if need_weights:
            context, weights = attend_with_weights(
                query, key, value, mask, causal, score=score, bias=bias, value_bias=value_bias
            )
        else:
            dropout = self.dropout if self.training else 0.0
            context = attend(
                query, key, value, mask, causal, dropout=dropout, score=score, bias=bias, value_bias=value_bias
            )
        return self.output(join_heads(context)), weights


class CrossAttention(nn.Module):
    """Attention of the decoder to the encoder's memory; arguments as `SelfAttention`.

    >>> layer, memory = CrossAttention(width=8, heads=2), torch.randn(1, 5, 8)
    >>> layer(torch.randn(1, 3, 8), layer.keys_values(memory)).shape
    torch.Size([1, 3, 8])
    """

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: float = 0.0,
        score: str = "scaled",
        head_width: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.heads, self.dropout, self.head_width = heads, dropout, head_width or width // heads
        inner = heads * self.head_width
        self.query = nn.Linear(width, inner, bias)
        self.key_value = nn.Linear(width, 2 * inner, bias)
        self.output = nn.Linear(inner, width, bias)
        self.score = head_score(score, heads, self.head_width)

    def keys_values(self, memory: Tensor) -> KeyValue:
        """(B, S, D) -> keys and values (B, N, S, K), computed once for each source."""
        check_dimensions(memory)
        key, value = self.key_value(memory).chunk(2, -1)
        return self.score.keys(split_heads(key, self.heads)), split_heads(value, self.heads)

    def forward(self, values: Tensor, memory: KeyValue, mask: Tensor | None = None) -> Tensor:
        """(R, T, D) -> (R, T, D); the R / B rows of a source, such as the hypotheses of a beam, are side by side.

        The mask (B, 1, 1, S) is True where visible, or 0 there and -inf elsewhere.
        """
        return self._attend(values, memory, mask, need_weights=False)[0]

    def with_weights(self, values: Tensor, memory: KeyValue, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The same without dropout, and the weights (R, N, T, S)."""
        output, weights = self._attend(values, memory, mask, need_weights=True)
        assert weights is not None
        return output, weights

    def _attend(
        self, values: Tensor, memory: KeyValue, mask: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        check_dimensions(values)
        time, (sources, heads, _, size) = values.shape[1], memory[0].shape
        query = self.query(values).view(sources, -1, heads, size).transpose(1, 2)  # (B, N, R / B x T, K)
        query, weights = self.score.queries(query), None
        if mask is not None and mask.is_floating_point() and (need_weights or not self.score.is_dot_product):
            mask = mask == 0
        if need_weights:
            context, weights = attend_with_weights(query, *memory, mask, score=self.score)
            weights = weights.unflatten(2, (-1, time)).transpose(1, 2).flatten(0, 1)
        else:
            dropout = self.dropout if self.training else 0.0
            context = attend(query, *memory, mask, dropout=dropout, score=self.score)
        return self.output(context.transpose(1, 2).reshape(*values.shape[:2], -1)), weights

    def packed(self, values: Tensor, memory: Tensor, mask: PackedMask, linear: Linear) -> Tensor:
        """(T, D), memory (S, D) -> contexts (T, D) of packed sentences, before `output`; a dot-product score."""
        query = linear(self.query, values).view(len(values), 1, self.heads, -1)
        key_value = linear(self.key_value, memory).view(len(memory), 2, self.heads, -1)
        if type(self.score) is not ScaledHeads:
            key, value = (part.transpose(0, 1)[None] for part in key_value.unbind(1))  # (1, N, S, K)
            queries = self.score.queries(query[:, 0].transpose(0, 1)[None])
            query = queries[0].transpose(0, 1)[:, None].to(query.dtype).contiguous()
            key_value = (
                torch.stack((self.score.keys(key), value), 1)[0].permute(2, 0, 1, 3).to(query.dtype).contiguous()
            )
        return packed_attend(query, key_value, mask).flatten(1)
