"""What every encoder is: embeddings of the sources in, a memory out."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from harken.models.memory import Memory


class Encoder(nn.Module, ABC):
    """Reads sources."""

    embedding: int  # E, the width of the embeddings it reads
    balance: float = 0.0  # weight in the loss of its experts' balance; above 0, forward takes `balance=` (nn.balance)
    width: int  # W, the width of the memory it makes

    @abstractmethod
    def forward(self, embedded: Tensor, lengths: Tensor | None, distances: Tensor | None = None) -> Memory:
        """Raw embeddings (B, S, E) -> memory; scaling, positions and dropout are the encoder's.

        Args:
            embedded: rows of the embedding matrix, as they are.
            lengths: (B,) words of each source; None says that there is no padding.
            distances: (B, S, S) in place of j - i, for relative positions that are given with the data.
        """
