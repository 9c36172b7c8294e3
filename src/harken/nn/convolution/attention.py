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
from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from harken.nn.attention.functional import attend, attend_with_weights
from harken.nn.convolution.convolution import Convolution, hide

KeyValue = tuple[Tensor, Tensor]  # each (B, S, E)
HALF = math.sqrt(0.5)


def keys_values(memory: Tensor, embedded: Tensor | None = None) -> KeyValue:
    """Keys z (B, S, E), and values (z + e) sqrt(1/2) where the embeddings e (B, S, E) are given, else z."""
    return memory, memory if embedded is None else (memory + embedded) * HALF


class SourceAttention(nn.Module):
    """Attention of states (B, T, D) with embeddings (B, T, E) to a memory (B, S, E) -> (B, T, D).

    >>> import torch
    >>> layer, memory = SourceAttention(width=8, embedding=6), torch.randn(2, 5, 6)
    >>> layer(torch.randn(2, 3, 8), torch.randn(2, 3, 6), keys_values(memory)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, width: int, embedding: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, embedding)
        self.output = nn.Linear(embedding, width)

    def forward(self, values: Tensor, embedded: Tensor, memory: KeyValue, mask: Tensor | None = None) -> Tensor:
        """(R, T, D), (R, T, E) -> (R, T, D); the R / B rows of a source, such as hypotheses, are side by side.

        The mask (B, S) is True where there is a token.
        """
        return self.attend(values, embedded, memory, mask)[0]

    def with_weights(
        self, values: Tensor, embedded: Tensor, memory: KeyValue, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The same, and the weights (R, T, S)."""
        output, weights = self.attend(values, embedded, memory, mask, need_weights=True)
        assert weights is not None
        return output, weights

    def attend(
        self, values: Tensor, embedded: Tensor, memory: KeyValue, mask: Tensor | None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """As `with_weights`; the weights are None where they are not needed."""
        query = (self.query(values) + embedded) * HALF
        query = query * math.sqrt(query.shape[-1])  # `attend` divides by it: the score is the unscaled dot product
        query = query.view(len(memory[0]), -1, query.shape[-1])  # (B, R / B x T, E)
        visible, weights = None if mask is None else mask[:, None], None
        if need_weights:
            context, weights = attend_with_weights(query, *memory, visible)
            weights = weights.reshape(*values.shape[:2], -1)
        else:
            context = attend(query, *memory, visible)
        if mask is None:
            context = context * math.sqrt(memory[0].shape[1])
        else:
            context = context * mask.sum(1).to(context.dtype).sqrt()[:, None, None]
        return self.output(context.reshape(*values.shape[:2], -1)), weights


class AttendingBlock(nn.Module):
    """The calls of a decoder's block: what comes before its convolution, that, and then attention to the source."""

    convolution: Convolution
    _before: Callable[[Tensor], Tensor]
    # values, states of the convolution, embedded, memory, mask, need_weights -> values and weights
    _attend: Callable[..., tuple[Tensor, Tensor | None]]

    def forward(
        self,
        values: Tensor,
        embedded: Tensor | None = None,
        memory: KeyValue | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """(B, T, D), with attention also the target's embeddings (B, T, E), keys and values -> (B, T, D)."""
        return self._attend(values, self.convolution(self._before(values)), embedded, memory, mask, False)[0]

    def with_weights(
        self, values: Tensor, embedded: Tensor, memory: KeyValue, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The same, and the weights (B, T, S) where there is attention."""
        return self._attend(values, self.convolution(self._before(values)), embedded, memory, mask, True)

    def step(
        self,
        values: Tensor,
        cache: Tensor | None,
        embedded: Tensor | None = None,
        memory: KeyValue | None = None,
        mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """One new position (R, 1, D), the cache of the last (K - 1) d inputs in and out; weights (R, 1, S) or None."""
        states, cache = self.convolution.step(self._before(values), cache)
        values, weights = self._attend(values, states, embedded, memory, mask, need_weights)
        return values, cache, weights


def unfold(memory: Tensor, mask: Tensor | None, length: int, start: int = 0) -> Tensor:
    """(B, S, M) -> (B, length, M): positions start, start + 1, ... of the memory, 0 where it has no token."""
    there = hide(memory, mask)[:, start : start + length]
    return F.pad(there, (0, 0, 0, length - there.shape[1]))
