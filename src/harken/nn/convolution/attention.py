"""How a convolutional decoder reads the source: single-head dot-product attention, or dynamic unfolding.

d_i = (W_d h_i + b_d + g_i) sqrt(1/2)                 the state h_i with the target embedding g_i
a_ij = softmax_j(d_i . z_j)
c_i = sqrt(S) sum_j a_ij (z_j + e_j) sqrt(1/2)        the encoder's output z_j with the source embedding e_j

sqrt(S), over the S real tokens, keeps the variance of c_i where weights are uniform; every sum of two terms is
multiplied by sqrt(1/2) to keep its variance. Gehring et al. (2017), section 3.3.

`unfold` reads the memory at the target position, and 0 beyond the end of the source (dynamic unfolding; Kalchbrenner
et al., 2016, section 3.2).

>>> import torch
>>> unfold(torch.tensor([[[1.0], [2.0], [9.0]]]), torch.tensor([[True, True, False]]), 4)[0, :, 0].tolist()
[1.0, 2.0, 0.0, 0.0]
"""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor, nn

from harken.nn.attention.functional import attend, attend_with_weights
from harken.nn.convolution.convolution import hide

KeyValue = tuple[Tensor, Tensor]  # each (B, S, E)
HALF = math.sqrt(0.5)


def keys_values(memory: Tensor, embedded: Tensor | None = None) -> KeyValue:
    """Keys z (B, S, E), and values (z + e) sqrt(1/2) where the embeddings e (B, S, E) are given, else z."""
    return memory, memory if embedded is None else (memory + embedded) * HALF


class SourceAttention(nn.Module):
    """Attention of states (B, T, D) with embeddings (B, T, E) to a memory (B, S, E) -> (B, T, D)."""

    def __init__(self, width: int, embedding: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, embedding)
        self.output = nn.Linear(embedding, width)

    def forward(self, values: Tensor, embedded: Tensor, memory: KeyValue, mask: Tensor | None = None) -> Tensor:
        """(B, T, D), (B, T, E) -> (B, T, D); mask (B, S), True where there is a token."""
        query = self._query(values, embedded)
        return self._output(attend(query, *memory, None if mask is None else mask[:, None]), memory, mask)

    def with_weights(
        self, values: Tensor, embedded: Tensor, memory: KeyValue, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The same, and the weights (B, T, S)."""
        query = self._query(values, embedded)
        context, weights = attend_with_weights(query, *memory, None if mask is None else mask[:, None])
        return self._output(context, memory, mask), weights

    def step(
        self, values: Tensor, embedded: Tensor, memory: KeyValue, mask: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """One token of each hypothesis, (R, 1, D) and (R, 1, E) -> (R, 1, D), weights (R, 1, S) or None.

        The hypotheses of a source are side by side and share its memory (B, S, E).
        """
        sources = len(memory[0])
        values, embedded = (part.view(sources, -1, part.shape[-1]) for part in (values, embedded))  # (B, beam, ...)
        if not need_weights:
            return self(values, embedded, memory, mask).flatten(0, 1)[:, None], None
        found, weights = self.with_weights(values, embedded, memory, mask)
        return found.flatten(0, 1)[:, None], weights.flatten(0, 1)[:, None]

    def _query(self, values: Tensor, embedded: Tensor) -> Tensor:
        query = (self.query(values) + embedded) * HALF
        return query * math.sqrt(query.shape[-1])  # `attend` divides by it: the score is the unscaled dot product

    def _output(self, context: Tensor, memory: KeyValue, mask: Tensor | None) -> Tensor:
        if mask is None:
            return self.output(context * math.sqrt(memory[0].shape[1]))
        return self.output(context * mask.sum(1).to(context.dtype).sqrt()[:, None, None])


def unfold(memory: Tensor, mask: Tensor | None, length: int, start: int = 0) -> Tensor:
    """(B, S, M) -> (B, length, M): positions start, start + 1, ... of the memory, 0 where it has no token."""
    there = hide(memory, mask)[:, start : start + length]
    return F.pad(there, (0, 0, 0, length - there.shape[1]))
