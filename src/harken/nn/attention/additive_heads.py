"""The additive score of E9 as heads of a Transformer: e_ij = v^T tanh(W1 k_j + W2 q_i), all three for each head.

No product of q and k gives it: every pair of positions needs K numbers of its own, B N T S K in all. They are made a
chunk at a time, and where a gradient is wanted a chunk is made again in the backward pass rather than kept, so that
memory grows with T S and not with T S K. Bahdanau et al. (2015).

>>> heads = AdditiveHeads(heads=1, width=1)
>>> for weight, value in zip(heads.parameters(), (2.0, 3.0, 10.0)):
...     _ = weight.data.fill_(value)
>>> query, key = heads.queries(torch.tensor([[[[0.5]]]])), heads.keys(torch.tensor([[[[-1.0], [-0.25]]]]))
>>> [round(score, 4) for score in heads.scores(query, key)[0, 0, 0].tolist()]  # 10 tanh(3 x 0.5 + 2 k)
[-4.6212, 7.6159]
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from harken.kernels.additive_attention.operator import additive_attention, serves
from harken.nn.attention.functional import lookup
from harken.nn.attention.head_scores import ScaledHeads
from harken.nn.masks import visible

CHUNK = 2**22  # numbers at once: 16 MB in float32


class AdditiveHeads(ScaledHeads):
    """v^T tanh(W1 k + W2 q)."""

    multiplies = False

    def __init__(self, heads: int, width: int) -> None:
        super().__init__(heads, width)
        self.key_weight = nn.Parameter(torch.empty(heads, width, width))  # W1
        self.query_weight = nn.Parameter(torch.empty(heads, width, width))  # W2
        self.energy = nn.Parameter(torch.randn(heads, width) * width**-0.5)  # v
        for weight in (*self.key_weight.data, *self.query_weight.data):
            nn.init.orthogonal_(weight)

    def queries(self, query: Tensor) -> Tensor:
        """W2 q."""
        return query @ self.query_weight.transpose(-1, -2)

    def keys(self, key: Tensor) -> Tensor:
        """W1 k."""
        return key @ self.key_weight.transpose(-1, -2)

    def pairs(self, query: Tensor, key: Tensor) -> Tensor:
        """(B, N, T, 1, K), (B, N, T or 1, S, K) -> (B, N, T, S), all K numbers of every pair at once."""
        return (torch.tanh(query + key) * self.energy[:, None, None]).sum(-1)

    def scores(self, query: Tensor, key: Tensor, table: Tensor | None = None, rows: Tensor | None = None) -> Tensor:
        """The same for all pairs, never more than a chunk at once (or one target position of one sentence)."""
        batch, heads, targets, width = query.shape
        each = max(1, heads * key.shape[-2] * width)  # numbers for one target position
        if batch * targets * each <= CHUNK:
            return self._chunk(query, key, table, rows)
        sentences = max(1, CHUNK // (targets * each))
        places = max(1, min(targets, CHUNK // (sentences * each)))
        rows = None if rows is None else rows.expand(batch, 1, targets, -1)
        again = torch.is_grad_enabled()
        found = []
        for first in range(0, batch, sentences):
            some, parts = slice(first, first + sentences), []
            for place in range(0, targets, places):
                here = slice(place, place + places)
                inputs = (query[some, :, here], key[some], table, None if rows is None else rows[some, :, here])
                if again:
                    parts.append(checkpoint(self._chunk, *inputs, use_reentrant=False, preserve_rng_state=False))
                else:
                    parts.append(self._chunk(*inputs))
            found.append(torch.cat(parts, 2))
        return torch.cat(found)

    def _chunk(self, query: Tensor, key: Tensor, table: Tensor | None, rows: Tensor | None) -> Tensor:
        inside = query[..., None, :] + key[..., None, :, :]  # (B, N, T, S, K)
        if table is not None and rows is not None:
            inside += table[rows]
        return (inside.tanh_() @ self.energy[:, None, :, None].to(inside.dtype))[..., 0]

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        dropout: float = 0.0,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Contexts (B, N, T, K); on a GPU by a kernel that holds no more than the scores."""
        if bias is None and serves(query, key, value):
            return additive_attention(query, key, self.energy, value, mask, causal, dropout=dropout)[0]
        weights = self._weights(query, key, mask, causal, bias).to(value.dtype)
        return (F.dropout(weights, dropout) if dropout else weights) @ value

    def attend_with_weights(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Contexts, and weights (B, N, T, S)."""
        weights = self._weights(query, key, mask, causal, bias).to(value.dtype)
        return weights @ value, weights

    def _weights(self, query: Tensor, key: Tensor, mask: Tensor | None, causal: bool, bias: Tensor | None) -> Tensor:
        scores = self.scores(query, key)
        seen = visible(mask, causal, query.shape[-2], key.shape[-2], query.device)
        return lookup(scores if bias is None else scores + bias, seen)
