"""Sentences as vectors, and hops of attention over them: memory networks and query reduction.

Sentences (B, W) -> (B, D):

    bag         m = sum_j E x_j
    positions   m = sum_j l_j * E x_j, with l_kj = (1 - j/J) - (k/D) (1 - 2 j/J) for word j of J and entry k of D
    gru, lstm   the last states of a bidirectional layer, half of the width each

Memory network (Sukhbaatar et al., 2015; the gate: Liu and Perez, 2017):

    p_i = softmax_i(score(w * u, m_i)),  o = sum_i p_i c_i,  u' = u + o
    with a gate: T = sigmoid(W_T u + b_T),  u' = (1 - T) * u + T * o

m_i and c_i are the input and output embeddings of a fact, each with a vector for its age, counted from the question
backwards. Tied "adjacent", c of one hop is m of the next; "layerwise", all hops share them and u goes through a matrix.

Query reduction (Seo et al., 2017):

    z_t = sigmoid(score(w * q_t, x_t) + b)       how far fact t answers the query
    c_t = tanh(W [x_t; q_t]), times a gate       the reduced query
    h_t = z_t c_t + (1 - z_t) h_{t-1}            = sum_{i <= t} a_ti c_i,  a_ti = z_i prod_{i < j <= t} (1 - z_j)

The next hop's query at fact t is h_t forwards plus h_t backwards; the output layer reads the last hop's h at the newest
fact. "Where is the ball?" becomes "where is Mary?" at "Mary took the ball". The weights a of the newest fact are the
attention that is shown; they sum to at most 1.

>>> reader = SentenceReader(10, 4, "positions")
>>> reader(torch.tensor([[5, 6, 0], [6, 5, 0]])).shape
torch.Size([2, 4])
>>> place_weights(torch.tensor([2]), 2, 4)[0, :, 0].tolist(), place_weights(torch.tensor([2]), 2, 4)[0, :, 3].tolist()
([0.5, 0.25], [0.5, 1.0])
>>> [round(weight, 3) for weight in newest_first(torch.tensor([[0.9, 0.5, 0.0]]))[0, 2].tolist()]
[0.45, 0.5, 0.0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from harken.data.tokenizers.tokens import PAD
from harken.nn import GRU, LSTM
from harken.nn.attention.functional import masked_softmax
from harken.nn.attention.scores import SCORES
from harken.nn.dropout import Dropout

if TYPE_CHECKING:
    from harken.models.answering.config import AnswererConfig

EMBEDDING_STD = 0.1
EPSILON = 1e-6  # gates are kept this far from 1, so that log(1 - z) is finite


def place_weights(lengths: Tensor, words: int, width: int) -> Tensor:
    """(B,) lengths -> (B, W, D): l_kj of every word j and entry k."""
    position = torch.arange(1, words + 1, device=lengths.device) / lengths.clamp(min=1)[:, None]  # (B, W), j / J
    entry = torch.arange(1, width + 1, device=lengths.device) / width  # (D,), k / D
    return (1 - position)[:, :, None] - entry * (1 - 2 * position)[:, :, None]


class SentenceReader(nn.Module):
    """Rows of word ids, padded, as one vector each; a row of padding alone is 0."""

    def __init__(self, vocabulary: int, width: int, kind: str) -> None:
        super().__init__()
        self.kind, self.width = kind, width
        self.words = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.words.weight, std=EMBEDDING_STD)
        self.layer: nn.Module | None = None
        if kind in ("gru", "lstm"):
            if width % 2:
                raise ValueError(f"width {width} is odd; a reader in both directions gives each half of it")
            self.layer = (GRU if kind == "gru" else LSTM)(
                width, width // 2, bidirectional=True, batch_first=True, orthogonal=True
            )

    def forward(self, ids: Tensor) -> Tensor:
        """(B, W) -> (B, D)."""
        real = ids != PAD
        lengths = real.sum(1)  # (B,)
        values = self.words(ids) * real[:, :, None]  # (B, W, D)
        if self.layer is None:
            if self.kind == "positions":
                values = values * place_weights(lengths, ids.shape[1], self.width)
            return values.sum(1)
        _, last = self.layer(values, lengths=lengths.clamp(min=1))
        state = last[0] if isinstance(last, tuple) else last  # (2, B, D / 2)
        return state.transpose(0, 1).flatten(1) * (lengths > 0)[:, None]


class MemoryHops(nn.Module):
    """Facts (B, F, W) and a question (B, Q) -> u after the last hop (B, D), attention (B, H, F)."""

    def __init__(self, config: AnswererConfig, vocabulary: int) -> None:
        super().__init__()
        width, self.hops, self.tied = config.width, config.hops, config.tied
        self.max_facts, self.noise = config.max_facts, config.noise
        tables = self.hops + 1 if self.tied == "adjacent" else 2
        self.readers = nn.ModuleList(SentenceReader(vocabulary, width, config.reader) for _ in range(tables))
        self.times = nn.ParameterList(nn.Parameter(0.1 * torch.randn(self.max_facts, width)) for _ in range(tables))
        scores = self.hops if self.tied == "adjacent" else 1
        self.scores = nn.ModuleList(SCORES[config.score](width, width) for _ in range(scores))
        self.weights = nn.Parameter(torch.ones(scores, width))
        self.gates = nn.ModuleList(nn.Linear(width, width) for _ in range(self.hops)) if config.gate else None
        self.map = nn.Linear(width, width, bias=False) if self.tied == "layerwise" else None
        self.dropout = Dropout(config.dropout)

    @property
    def words(self) -> nn.Embedding:
        """The vectors that the last hop reads."""
        table: nn.Embedding = self.readers[-1].words  # type: ignore[assignment]
        return table

    @property
    def tables(self) -> list[Tensor]:
        """The vectors of the words, as every hop reads them."""
        return [reader.words.weight for reader in self.readers]  # type: ignore[union-attr,misc]

    def forward(self, facts: Tensor, real: Tensor, question: Tensor) -> tuple[Tensor, Tensor]:
        """`real` (B, F) is True where there is a fact."""
        rows, count, _ = facts.shape
        ago = self._ago(real)  # (B, F)
        flat = facts.flatten(0, 1)  # (B F, W)
        read = [
            self.dropout(reader(flat).view(rows, count, -1) + times[ago])
            for reader, times in zip(self.readers, self.times, strict=True)
        ]
        query, weights = self.dropout(self.readers[0](question)), []  # (B, D)
        for hop in range(self.hops):
            compared, brought = (read[hop], read[hop + 1]) if self.tied == "adjacent" else (read[0], read[1])
            own = hop if self.tied == "adjacent" else 0
            score = self.scores[own]
            shares = masked_softmax(score(query * self.weights[own], score.keys(compared)), real)  # type: ignore[operator]
            weights.append(shares)
            out = torch.bmm(shares[:, None], brought)[:, 0]  # (B, D)
            carried = query if self.map is None else self.map(query)
            if self.gates is None:
                query = carried + out
            else:
                share = torch.sigmoid(self.gates[hop](query))
                query = (1 - share) * carried + share * out
        return query, torch.stack(weights, 1)

    def _ago(self, real: Tensor) -> Tensor:
        """The age of each fact (B, F), 0 for the newest; in training with random gaps (Sukhbaatar et al., 2015)."""
        steps = real.long()
        if self.training and self.noise:
            steps = steps + (torch.rand(real.shape, device=real.device) < self.noise) * steps
        later = steps.flip(1).cumsum(1).flip(1) - steps  # steps of the facts after this one
        return later.clamp(0, self.max_facts - 1)


def newest_first(share: Tensor) -> Tensor:
    """z (B, F) -> a (B, F, F): the weight of fact i at fact t."""
    log_hidden = torch.log1p(-share.float().clamp(max=1 - EPSILON)).cumsum(1)  # (B, F); 1 - EPSILON is 1 in bfloat16
    hidden = log_hidden[:, :, None] - log_hidden[:, None, :]  # (B, t, i): log of prod_{i < j <= t} (1 - z_j)
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
    """Facts (B, F, W) and a question (B, Q) -> the reduced query (B, D), attention (B, H, F)."""

    def __init__(self, config: AnswererConfig, vocabulary: int) -> None:
        super().__init__()
        self.reader = SentenceReader(vocabulary, config.width, config.reader)
        self.hops = nn.ModuleList(Reduction(config.width, config.score, config.gate) for _ in range(config.hops))
        self.dropout = Dropout(config.dropout)

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
        row, weights, reduced = torch.arange(rows, device=facts.device), [], query
        for hop in self.hops:
            reduced, backwards, shares = hop(read, real, query)
            weights.append(shares[row, newest])
            query = reduced + backwards
        return reduced[row, newest], torch.stack(weights, 1)
