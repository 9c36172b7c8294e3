"""Residual blocks with dilated convolutions, the blocks of ByteNet.

u = W1 relu(norm(x))                                  D to D / 2
v = convolution(relu(norm(u)), dilation d)            causal in a decoder
y = x + W2 relu(norm(v))                              D / 2 to D

With d = 1, 2, 4, 8, 16 from block to block, five blocks with a kernel of 3 see 31 tokens to each side at a cost linear
in the length. A decoder gets the source unfolded into its input, or attends to it in every block: y <- y + c(norm(y))
(`attention.py`). Kalchbrenner et al. (2016), sections 3.2 to 3.6.

>>> blocks = [DilatedBlock(4, dilation=d) for d in dilations(7)]
>>> [block.convolution.dilation for block in blocks]
[1, 2, 4, 8, 16, 1, 2]
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harken.nn.convolution.attention import AttendingBlock, KeyValue, SourceAttention
from harken.nn.convolution.convolution import Convolution
from harken.nn.dropout import Dropout

ROUND = (1, 2, 4, 8, 16)


def dilations(layers: int) -> list[int]:
    """1, 2, 4, 8, 16, repeated."""
    return [ROUND[layer % len(ROUND)] for layer in range(layers)]


class DilatedBlock(nn.Module):
    """The encoder's block: (B, S, D) -> (B, S, D)."""

    def __init__(
        self, width: int, kernel: int = 3, dilation: int = 1, dropout: float = 0.0, causal: bool = False
    ) -> None:
        super().__init__()
        inner = max(1, width // 2)
        self.narrow, self.widen = nn.Linear(width, inner), nn.Linear(inner, width)
        self.convolution = Convolution(inner, inner, kernel, dilation, causal)
        self.narrow_norm, self.inner_norm, self.widen_norm = (nn.LayerNorm(size) for size in (width, inner, inner))
        self.dropout = Dropout(dropout)

    def forward(self, values: Tensor, mask: Tensor | None = None) -> Tensor:
        """The mask (B, S) is True where there is a token."""
        return self._after(values, self.convolution(self._before(values), mask))

    def _before(self, values: Tensor) -> Tensor:
        return torch.relu(self.inner_norm(self.narrow(torch.relu(self.narrow_norm(values)))))

    def _after(self, values: Tensor, states: Tensor) -> Tensor:
        change: Tensor = self.dropout(self.widen(torch.relu(self.widen_norm(states))))
        return values + change


class DilatedDecoderBlock(AttendingBlock, DilatedBlock):  # type: ignore[misc]  # another `forward`
    """The decoder's block: a causal convolution and, with `embedding`, attention to the source.

    >>> DilatedDecoderBlock(8, dilation=2)(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(
        self,
        width: int,
        kernel: int = 3,
        dilation: int = 1,
        dropout: float = 0.0,
        embedding: int | None = None,
    ) -> None:
        super().__init__(width, kernel, dilation, dropout, causal=True)
        self.attention = None if embedding is None else SourceAttention(width, embedding)
        self.attention_norm = nn.Identity() if embedding is None else nn.LayerNorm(width)

    def _attend(
        self,
        values: Tensor,
        states: Tensor,
        embedded: Tensor | None,
        memory: KeyValue | None,
        mask: Tensor | None,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """The residual connection around the convolution that gave `states`, then attention where there is any."""
        values = self._after(values, states)
        if self.attention is None or embedded is None or memory is None:
            return values, None
        context, weights = self.attention.attend(self.attention_norm(values), embedded, memory, mask, need_weights)
        return values + self.dropout(context), weights
