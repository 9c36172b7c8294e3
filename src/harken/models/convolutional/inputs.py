"""What both sides of a convolutional network read: embeddings plus positions, each about as large as the other.

Embeddings are drawn with a deviation of E^(-1/2), near the 0.1 of Gehring et al. (2017). ConvS2S takes them as they
are, as its plain dot score would start saturated with larger ones; ByteNet, whose blocks add to them what went through
a norm, takes them sqrt(E) times as large.
"""

from __future__ import annotations

import math

from torch import Tensor, nn

from harken.models.base import refuse_too_long
from harken.nn.dropout import Dropout
from harken.nn.positions.absolute import LearnedPositions
from harken.nn.positions.kinds import added_positions


class ConvolutionalInput(nn.Module):
    """(B, T, E) -> (B, T, E)."""

    def __init__(self, style: str, embedding: int, dropout: float, positions: str, max_length: int) -> None:
        super().__init__()
        self.positions = added_positions(positions, embedding, max_length)
        self.position_scale = 1.0 if isinstance(self.positions, LearnedPositions) else embedding**-0.5
        self.scale = 1.0 if style == "convs2s" else math.sqrt(embedding)
        self.dropout = Dropout(dropout)

    def forward(self, embedded: Tensor, start: int = 0) -> Tensor:
        """(B, T, E), the first at position `start` -> (B, T, E).

        Raises:
            UserError: longer than the positions that were learned.
        """
        if self.positions is not None:
            refuse_too_long(self.positions, start + embedded.shape[1])
            embedded = embedded + self.positions(embedded.shape[1], start) * self.position_scale
        return self.dropout(embedded * self.scale)
