"""Attention between sentences that lie one after another in one row of tokens.

Packing puts many sentences into a row of fixed length without padding between them. A query may see an interval of
keys: its own sentence (encoder), its sentence up to itself (causal), or the source of its sentence (cross-attention).

>>> spans = PackedMask.spans(torch.tensor([2, 1]), 4)  # sentences of 2 tokens and of 1; the fourth token is padding
>>> spans.dense(4).int().tolist()
[[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
>>> spans.causal().dense(4).int().tolist()
[[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from harken.kernels.packed_attention.operator import PACKED_ATTENTION
from harken.nn.attention.functional import attend_with_weights


class PackedMask(NamedTuple):
    """Which keys every query sees, and which queries see every key; int32, with empty intervals for padding."""

    positions: Tensor  # (T,) of the queries in their sentences, from 0
    first_key: Tensor  # (T,)
    end_key: Tensor  # (T,) one past the last
    first_query: Tensor  # (S,)
    end_query: Tensor  # (S,)

    @classmethod
    def spans(cls, lengths: Tensor, size: int) -> PackedMask:
        """Self-attention within sentences of these lengths, which fill a row of `size` tokens from its start."""
        ends = lengths.cumsum(0)
        starts, total = ends - lengths, int(lengths.sum())
        first, end = (torch.full((size,), size, dtype=torch.int32) for _ in range(2))
        first[:total], end[:total] = starts.repeat_interleave(lengths).int(), ends.repeat_interleave(lengths).int()
        positions = torch.zeros(size, dtype=torch.int32)
        positions[:total] = torch.arange(total, dtype=torch.int32) - first[:total]
        return cls(positions, first, end, first, end)

    def causal(self) -> PackedMask:
        """The same for queries that see no later keys."""
        index = torch.arange(len(self.first_key), dtype=torch.int32, device=self.first_key.device)
        return self._replace(
            end_key=torch.minimum(self.end_key, index + 1), first_query=self.first_query.maximum(index)
        )

    def dense(self, sources: int) -> Tensor:
        """(T, S), True where a query sees a key."""
        keys = torch.arange(sources, device=self.first_key.device)
        return (keys >= self.first_key[:, None]) & (keys < self.end_key[:, None])


class EqualRows(NamedTuple):
    """Causal self-attention within rows of equal length that lie one after another."""

    positions: Tensor  # (T,) of the queries in their rows, from 0
    rows: int


def packed_attend(projected: Tensor, memory: Tensor | None, mask: PackedMask | EqualRows) -> Tensor:
    """Projected (T, 3, N, K), or queries (T, 1, N, K) and memory (S, 2, N, K) -> contexts (T, N, K).

    A query that sees nothing gets a context of 0. On a GPU by kernels that never make a tensor of T x S.
    """
    if isinstance(mask, EqualRows):  # without gaps torch's kernels, made for long rows, read the same tensors
        parts = projected.unflatten(0, (mask.rows, -1)).permute(2, 0, 3, 1, 4)  # (3, B, N, T / B, K)
        query, key, value = parts.unbind(0)
        return F.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2).flatten(0, 1)
    if PACKED_ATTENTION.supports(projected.device, projected.dtype, projected.shape[-1]):
        return PACKED_ATTENTION.run(projected, memory, *mask[1:])
    return packed_attend_reference(projected, memory, mask)


def packed_attend_reference(projected: Tensor, memory: Tensor | None, mask: PackedMask) -> Tensor:
    """The same by `attend_with_weights` with a mask of T x S."""
    query, *rest = (part.transpose(0, 1) for part in projected.unbind(1))  # (N, T, K)
    key, value = rest if memory is None else (part.transpose(0, 1) for part in memory.unbind(1))
    context, _ = attend_with_weights(query, key, value, mask.dense(key.shape[1]))
    return context.transpose(0, 1)
