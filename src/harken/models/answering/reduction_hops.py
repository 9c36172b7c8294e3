"""Hops of query reduction: fact by fact, the query becomes an easier one, and newer facts hide older ones.

    z_t = sigmoid(score(w * q_t, x_t) + b)       how far fact t answers the query
    c_t = tanh(W [x_t; q_t]), times a gate       the query that is left if it does
    h_t = z_t c_t + (1 - z_t) h_{t-1}            = sum_{i <= t} a_ti c_i,  a_ti = z_i prod_{i < j <= t} (1 - z_j)

The next hop's query at fact t is h_t read forwards plus h_t read backwards; the last hop's h at the newest fact is the
answer's. "Where is the ball?" becomes "where is Mary?" at "Mary took the ball". The weights a of the newest fact are
the attention that is shown; they sum to at most 1. All a are one product. Seo et al. (2017).

>>> [round(weight, 3) for weight in newest_first(torch.tensor([[0.9, 0.5, 0.0]]))[0, 2].tolist()]
[0.45, 0.5, 0.0]
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harken.models.answering.sentence_reader import SentenceReader
from harken.nn.attention.scores import SCORES

SURE = 1e-6  # a gate keeps this far from 1, so that its logarithm is a number


def newest_first(share: Tensor) -> Tensor:
    """z (B, F) -> a (B, F, F): what fact i still counts for at fact t."""
    kept = torch.log1p(-share.float().clamp(max=1 - SURE)).cumsum(1)  # (B, F); in bfloat16 1 - SURE would round to 1
    hidden = kept[:, :, None] - kept[:, None, :]  # (B, t, i): log of prod_{i < j <= t} (1 - z_j)
    return (torch.exp(hidden.clamp(max=0.0)).to(share.dtype) * share[:, None, :]).tril()


class Reduction(nn.Module):
    """One hop."""

    def __init__(self, width: int, score: str, gate: bool) -> None:
        super().__init__()
        self.score = SCORES[score](width, width)
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(()))
        self.candidate = nn.Linear(2 * width, width)
        self.gate = nn.Linear(width, 1) if gate else None

    def forward(self, facts: Tensor, real: Tensor, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Facts (B, F, D), queries (B, F, D) -> h forwards and backwards (B, F, D), a (B, F, F)."""
        rows, count, width = facts.shape
        keys = self.score.keys(facts.reshape(-1, 1, width))  # type: ignore[operator]
        scores = self.score((query * self.weight).reshape(-1, width), keys).view(rows, count)
        share = torch.sigmoid(scores + self.bias) * real  # (B, F)
        left = torch.tanh(self.candidate(torch.cat([facts, query], -1)))  # (B, F, D)
        if self.gate is not None:
            left = left * torch.sigmoid(self.gate(facts * query))
        forwards = newest_first(share)
        backwards = newest_first(share.flip(1)).flip(1, 2)
        return forwards @ left, backwards @ left, forwards


class ReductionHops(nn.Module):
    """Facts (B, F, W) and a question (B, Q) -> what was found (B, D), attention (B, H, F)."""

    def __init__(
        self, vocabulary: int, width: int, hops: int, reader: str, score: str, gate: bool, dropout: nn.Module
    ) -> None:
        super().__init__()
        self.reader = SentenceReader(vocabulary, width, reader)
        self.hops = nn.ModuleList(Reduction(width, score, gate) for _ in range(hops))
        self.dropout = dropout

    @property
    def words(self) -> nn.Embedding:
        """The vectors of the words."""
        return self.reader.words

    @property
    def tables(self) -> list[Tensor]:
        """The same, as the only matrix."""
        return [self.reader.words.weight]

    def forward(self, facts: Tensor, real: Tensor, question: Tensor) -> tuple[Tensor, Tensor]:
        """`real` (B, F) is True where there is a fact; padding stands after the newest."""
        rows, count, _ = facts.shape
        read = self.dropout(self.reader(facts.flatten(0, 1)).view(rows, count, -1))  # (B, F, D)
        query = self.dropout(self.reader(question))[:, None].expand(-1, count, -1)  # (B, F, D)
        newest = (real.sum(1) - 1).clamp(min=0)  # (B,)
        row, weights, found = torch.arange(rows, device=facts.device), [], query
        for hop in self.hops:
            found, back, seen = hop(read, real, query)
            weights.append(seen[row, newest])
            query = found + back
        return found[row, newest], torch.stack(weights, 1)
