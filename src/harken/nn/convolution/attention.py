"""How each layer of a convolutional decoder looks at the source: one head, the dot score of E9.

d_i = (W_d h_i + b_d + g_i) sqrt(1/2)                the state h_i with the target word's embedding g_i
a_ij = softmax_j(d_i . z_j)
c_i = sqrt(S) sum_j a_ij (z_j + e_j) sqrt(1/2)        the encoder's output z_j with the source word's embedding e_j

Keys say what a word is in its sentence, values add which word it was. sqrt(S) keeps the size of c_i where weights are
even, over the S real words. Every sum of two is multiplied by sqrt(1/2), so that it varies as much as each of them.
Gehring et al. (2017), section 3.3.

`unfold` is the other way, without weights: read the source's representation at the position one writes at, and 0 once
the source is over (dynamic unfolding; Kalchbrenner et al., 2016, section 3.2).

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
    """What all layers look into: z (B, S, E), and (z + e) sqrt(1/2) if the embeddings e (B, S, E) are there too."""
    return memory, memory if embedded is None else (memory + embedded) * HALF


class SourceAttention(nn.Module):
    """States (B, T, D) look with embeddings (B, T, E) into a memory (B, S, E); what they find has width D."""

    def __init__(self, width: int, embedding: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, embedding)
        self.output = nn.Linear(embedding, width)

    def forward(self, values: Tensor, embedded: Tensor, memory: KeyValue, mask: Tensor | None = None) -> Tensor:
        """(B, T, D), (B, T, E) -> (B, T, D); mask (B, S), True where there is a word."""
        query = self._query(values, embedded)
        return self._output(attend(query, *memory, None if mask is None else mask[:, None]), memory, mask)

    def with_weights(
        self, values: Tensor, embedded: Tensor, memory: KeyValue, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The same by the definition, and the weights (B, T, S)."""
        query = self._query(values, embedded)
        context, weights = attend_with_weights(query, *memory, None if mask is None else mask[:, None])
        return self._output(context, memory, mask), weights

    def _query(self, values: Tensor, embedded: Tensor) -> Tensor:
        query = (self.query(values) + embedded) * HALF
        return query * math.sqrt(query.shape[-1])  # `attend` divides by it: the score is the plain dot

    def _output(self, context: Tensor, memory: KeyValue, mask: Tensor | None) -> Tensor:
        if mask is None:
            return self.output(context * math.sqrt(memory[0].shape[1]))
        return self.output(context * mask.sum(1).to(context.dtype).sqrt()[:, None, None])


def unfold(memory: Tensor, mask: Tensor | None, length: int, start: int = 0) -> Tensor:
    """(B, S, M) -> (B, length, M): positions start, start + 1, ... of the memory, 0 where it has no word."""
    there = hide(memory, mask)[:, start : start + length]
    return F.pad(there, (0, 0, 0, length - there.shape[1]))
