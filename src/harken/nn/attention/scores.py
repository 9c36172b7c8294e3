"""Scores of one query a row against a memory, for recurrent decoders and pooling.

dot             s . h
scaled          s . h / sqrt(n)
multiplicative  s^T W h
additive        v^T tanh(W1 h + W2 s), with coverage v^T tanh(W1 h + W2 s + w c)
cosine          s . h / (|s| |h| temperature), the temperature learned

s is the query, h an entry of the memory. Each score projects the memory once (`keys`) and then compares one query a row
with all of it. Dot, multiplicative: Luong et al. (2015); additive: Bahdanau et al. (2015); scaled: Vaswani et al.
(2017); cosine: Graves et al. (2014), whose key strength is 1 / temperature; coverage c, the sum of the weights so far:
Tu et al. (2016), See et al. (2017).

>>> score = CosineScore(2, 2, temperature=0.5)
>>> memory = torch.tensor([[[3.0, 0.0], [0.0, 7.0], [-1.0, 0.0]]])
>>> [round(value, 4) + 0.0 for value in score(torch.tensor([[10.0, 0.0]]), score.keys(memory))[0].tolist()]
[2.0, 0.0, -2.0]
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FIRST_TEMPERATURE = 0.1  # cosines lie between -1 and 1: at temperature 1 the softmax would be almost uniform


class DotScore(nn.Module):
    """s . h: no parameters; query and memory have the same width.

    >>> DotScore(2, 2)(torch.tensor([[1.0, 2.0]]), torch.tensor([[[3.0, 4.0], [0.0, 1.0]]])).tolist()
    [[11.0, 2.0]]
    """

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

    def beams(self, query: Tensor, keys: Tensor) -> Tensor:
        """(B, K, H), (B, S, H) -> (B, K, S): K queries of each memory."""
        return torch.bmm(query, keys.transpose(1, 2))


class ScaledDotScore(DotScore):
    """s . h / sqrt(n): the variance of the scores does not grow with the width.

    >>> ScaledDotScore(4, 4)(torch.ones(1, 4), torch.ones(1, 3, 4)).tolist()  # 4 / sqrt(4)
    [[2.0, 2.0, 2.0]]
    """

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """(B, H), (B, S, H) -> (B, S)."""
        return super().forward(query / math.sqrt(query.shape[-1]), keys)

    def beams(self, query: Tensor, keys: Tensor) -> Tensor:
        """(B, K, H), (B, S, H) -> (B, K, S)."""
        return super().beams(query / math.sqrt(query.shape[-1]), keys)


class CosineScore(DotScore):
    """s . h / (|s| |h| temperature): only directions count."""

    def __init__(self, query_width: int, memory_width: int, temperature: float = FIRST_TEMPERATURE) -> None:
        super().__init__(query_width, memory_width)
        self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature)))

    def keys(self, memory: Tensor) -> Tensor:
        """(B, S, M) -> (B, S, M), each of length 1."""
        return F.normalize(memory, dim=-1)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """(B, H), (B, S, H) -> (B, S)."""
        return super().forward(F.normalize(query, dim=-1), keys) * torch.exp(-self.log_temperature)

    def beams(self, query: Tensor, keys: Tensor) -> Tensor:
        """(B, K, H), (B, S, H) -> (B, K, S)."""
        return super().beams(F.normalize(query, dim=-1), keys) * torch.exp(-self.log_temperature)


class MultiplicativeScore(nn.Module):
    """s^T W h, with W h computed once for the whole memory.

    >>> score, memory = MultiplicativeScore(query_width=4, memory_width=6), torch.randn(2, 3, 6)
    >>> score(torch.randn(2, 4), score.keys(memory)).shape
    torch.Size([2, 3])
    """

    def __init__(self, query_width: int, memory_width: int) -> None:
        super().__init__()
        self.weight = nn.Linear(memory_width, query_width, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        """(B, S, M) -> (B, S, H)."""
        keys: Tensor = self.weight(memory)
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """(B, H), (B, S, H) -> (B, S)."""
        return torch.bmm(keys, query[:, :, None])[:, :, 0]

    def beams(self, query: Tensor, keys: Tensor) -> Tensor:
        """(B, K, H), (B, S, H) -> (B, K, S)."""
        return torch.bmm(query, keys.transpose(1, 2))


class AdditiveScore(nn.Module):
    """v^T tanh(W1 h + W2 s), with W1 h computed once for the memory; `coverage` adds a term for earlier weights.

    >>> score, memory = AdditiveScore(query_width=4, memory_width=6), torch.randn(2, 3, 6)
    >>> score(torch.randn(2, 4), score.keys(memory)).shape
    torch.Size([2, 3])
    """

    def __init__(self, query_width: int, memory_width: int, width: int | None = None, coverage: bool = False) -> None:
        super().__init__()
        width = width or query_width
        self.memory = nn.Linear(memory_width, width, bias=True)
        self.query = nn.Linear(query_width, width, bias=False)
        self.energy = nn.Linear(width, 1, bias=False)
        self.coverage = nn.Linear(1, width, bias=False) if coverage else None

    def keys(self, memory: Tensor) -> Tensor:
        """(B, S, M) -> (B, S, A)."""
        keys: Tensor = self.memory(memory)
        return keys

    def forward(self, query: Tensor, keys: Tensor, coverage: Tensor | None = None) -> Tensor:
        """(B, H), (B, S, A), the sum of earlier weights (B, S) -> (B, S)."""
        if self.coverage is not None and coverage is not None:
            keys = keys + self.coverage(coverage[:, :, None])
        scores: Tensor = self.energy(torch.tanh(keys + self.query(query)[:, None]))
        return scores[:, :, 0]

    def beams(self, query: Tensor, keys: Tensor, coverage: Tensor | None = None) -> Tensor:
        """(B, K, H), (B, S, A), the sums of earlier weights (B, K, S) -> (B, K, S)."""
        energy = keys[:, None] + self.query(query)[:, :, None]  # (B, K, S, A)
        if self.coverage is not None and coverage is not None:
            energy = energy + self.coverage(coverage[..., None])
        scores: Tensor = self.energy(torch.tanh(energy))
        return scores[..., 0]


SCORES: dict[str, type[nn.Module]] = {
    "dot": DotScore,
    "scaled": ScaledDotScore,
    "multiplicative": MultiplicativeScore,
    "additive": AdditiveScore,
    "cosine": CosineScore,
}
