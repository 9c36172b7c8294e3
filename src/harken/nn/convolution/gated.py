"""Gated convolutions with residuals, the blocks of ConvS2S.

[a; b] = W x_{t-k/2 .. t+k/2} + b                    in a decoder x_{t-k+1 .. t}
h_t = a * sigmoid(b)                                 the gated linear unit
h_t <- (h_t + c_t) sqrt(1/2)                         in a decoder: attention to the source (`attention.py`)
y_t = (x_t + h_t) sqrt(1/2)

Gehring et al. (2017), sections 3.2 and 3.3. Without their weight normalisation.

>>> import torch
>>> block = GatedBlock(4, kernel=3)
>>> block(torch.randn(2, 5, 4)).shape
torch.Size([2, 5, 4])
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from harken.nn.convolution.attention import HALF, AttendingBlock, KeyValue, SourceAttention
from harken.nn.convolution.convolution import Convolution
from harken.nn.dropout import Dropout


class GatedBlock(nn.Module):
    """The encoder's block: (B, S, D) -> (B, S, D)."""

    def __init__(self, width: int, kernel: int = 3, dropout: float = 0.0, causal: bool = False) -> None:
        super().__init__()
        self.convolution = Convolution(width, 2 * width, kernel, causal=causal)
        self.convolution.initialize(1 - dropout, gated=True)
        self.dropout = Dropout(dropout)

    def forward(self, values: Tensor, mask: Tensor | None = None) -> Tensor:
        """The mask (B, S) is True where there is a token."""
        return (values + F.glu(self.convolution(self._before(values), mask))) * HALF

    def _before(self, values: Tensor) -> Tensor:
        dropped: Tensor = self.dropout(values)
        return dropped


class GatedDecoderBlock(AttendingBlock, GatedBlock):  # type: ignore[misc]  # another `forward`
    """The decoder's block: a causal convolution and attention to the source.

    >>> import torch
    >>> block, memory = GatedDecoderBlock(8, embedding=6), torch.randn(2, 5, 6)
    >>> block(torch.randn(2, 3, 8), torch.randn(2, 3, 6), (memory, memory)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, width: int, embedding: int, kernel: int = 3, dropout: float = 0.0) -> None:
        super().__init__(width, kernel, dropout, causal=True)
        self.attention = SourceAttention(width, embedding)

    def _attend(
        self,
        values: Tensor,
        states: Tensor,
        embedded: Tensor,
        memory: KeyValue,
        mask: Tensor | None,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """The gate, attention and the residual connection around the convolution that gave `states` (B, T, 2 D)."""
        states = F.glu(states)
        context, weights = self.attention.attend(states, embedded, memory, mask, need_weights)
        return (values + (states + context) * HALF) * HALF, weights
