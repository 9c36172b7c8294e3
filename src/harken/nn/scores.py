"""How well a query fits a key (E9).

dot             s . h
multiplicative  s^T W h
additive        v^T tanh(W1 h + W2 s)

Each score prepares the memory once (`keys`) and then compares one query a row with all of it.
Luong et al. (2015), Bahdanau et al. (2015).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class DotScore(nn.Module):
    """s . h: no parameters; query and memory have the same width."""

    def __init__(self, query_width: int, memory_width: int) -> None:
        super().__init__()
        if query_width != memory_width:
            raise ValueError(f"a dot score needs equal widths, not {query_width} and {memory_width}")

    def keys(self, memory: Tensor) -> Tensor:
        """(B, S, M) -> (B, S, M)."""
        return memory

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """(B, H), (B, S, H) -> (B, S)."""
        return torch.bmm(keys, query[:, :, None])[:, :, 0]


class MultiplicativeScore(nn.Module):
    """s^T W h, the product W h made once for the whole memory."""

    def __init__(self, query_width: int, memory_width: int) -> None:
        super().__init__()
        self.weight = nn.Linear(memory_width, query_width, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        """(B, S, M) -> (B, S, H)."""
        return self.weight(memory)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """(B, H), (B, S, H) -> (B, S)."""
        return torch.bmm(keys, query[:, :, None])[:, :, 0]


class AdditiveScore(nn.Module):
    """v^T tanh(W1 h + W2 s), with W1 h made once for the whole memory."""

    def __init__(self, query_width: int, memory_width: int, width: int | None = None) -> None:
        super().__init__()
        width = width or query_width
        self.memory = nn.Linear(memory_width, width, bias=True)
        self.query = nn.Linear(query_width, width, bias=False)
        self.energy = nn.Linear(width, 1, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        """(B, S, M) -> (B, S, A)."""
        return self.memory(memory)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """(B, H), (B, S, A) -> (B, S)."""
        return self.energy(torch.tanh(keys + self.query(query)[:, None]))[:, :, 0]


SCORES: dict[str, type[nn.Module]] = {
    "dot": DotScore,
    "multiplicative": MultiplicativeScore,
    "additive": AdditiveScore,
}
