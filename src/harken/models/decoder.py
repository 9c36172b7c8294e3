"""What every decoder is: a memory in, and then token after token what the output layer sees.

`step` moves on by one token, `forward` reads a whole target at once under teacher forcing; both give the same numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol, Self

from torch import Tensor, nn

from harken.models.memory import Memory


class State(Protocol):
    """What a decoder carries from step to step, one row for each hypothesis."""

    def select(self, rows: Tensor) -> Self:
        """Reorder, repeat or drop rows."""


class Decoder(nn.Module, ABC):
    """Writes targets."""

    embedding: int  # E, the width of the embeddings it reads
    memory_width: int  # W, the width of the memory it looks into
    width: int  # O, the width of what it hands to the output layer
    balance: float = 0.0  # weight in the loss of its experts' balance; above 0, forward takes `balance=` (nn.balance)
    output_bias: bool = False  # whether the output layer above it has a bias
    alignment_shift: bool = False  # alignment of a word stands where the decoder reads it, one step after predicting it

    @abstractmethod
    def start(self, memory: Memory) -> State:
        """The state before the first token."""

    @abstractmethod
    def step(self, embedded: Tensor, state: Any) -> tuple[Tensor, Any, Tensor | None]:
        """Raw embeddings of one token a row (B, E) -> hidden (B, O), the next state, attention (B, S) if any."""

    @abstractmethod
    def forward(self, embedded: Tensor, memory: Memory) -> Tensor:
        """Raw embeddings of the target so far, BOS first, (B, T, E) -> hidden (B, T, O)."""

    @abstractmethod
    def attention(self, embedded: Tensor, memory: Memory) -> Tensor | None:
        """All weights (B, L, N, T, S) of reading a target under teacher forcing; None without attention."""

    @abstractmethod
    def alignment(self, weights: Tensor) -> Tensor:
        """What of `attention`'s (B, L, N, T, S) is read as word alignment: (B, T, S)."""
