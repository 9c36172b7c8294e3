"""Hops of a memory network: look the query up among the facts, add what was found, look again.

    p_i = softmax_i(score(w * u, m_i)),  o = sum_i p_i c_i,  u' = u + o
    with a gate: T = sigmoid(W_T u + b_T),  u' = (1 - T) * u + T * o

m_i and c_i are the fact as it is compared and as it is read; to both a vector is added that says how long ago the fact
was, counted from the question backwards. Tied "adjacent", c of one hop is m of the next; "layerwise", all hops share
them and u goes through one matrix. Sukhbaatar et al. (2015); the gate: Liu and Perez (2017).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harken.models.answering.sentence_reader import SentenceReader
from harken.nn.attention.functional import masked_softmax
from harken.nn.attention.scores import SCORES


class MemoryHops(nn.Module):
    """Facts (B, F, W) and a question (B, Q) -> what was found (B, D), attention (B, H, F)."""

    def __init__(
        self,
        vocabulary: int,
        width: int,
        hops: int,
        reader: str,
        score: str,
        tied: str,
        gate: bool,
        max_facts: int,
        noise: float,
        dropout: nn.Module,
    ) -> None:
        super().__init__()
        self.hops, self.tied, self.max_facts, self.noise = hops, tied, max_facts, noise
        tables = hops + 1 if tied == "adjacent" else 2
        self.readers = nn.ModuleList(SentenceReader(vocabulary, width, reader) for _ in range(tables))
        self.times = nn.ParameterList(nn.Parameter(0.1 * torch.randn(max_facts, width)) for _ in range(tables))
        self.scores = nn.ModuleList(SCORES[score](width, width) for _ in range(hops if tied == "adjacent" else 1))
        self.weights = nn.Parameter(torch.ones(len(self.scores), width))
        self.gates = nn.ModuleList(nn.Linear(width, width) for _ in range(hops)) if gate else None
        self.map = nn.Linear(width, width, bias=False) if tied == "layerwise" else None
        self.dropout = dropout

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
            found = masked_softmax(score(query * self.weights[own], score.keys(compared)), real)  # type: ignore[operator]
            weights.append(found)
            out = torch.bmm(found[:, None], brought)[:, 0]  # (B, D)
            kept = query if self.map is None else self.map(query)
            if self.gates is None:
                query = kept + out
            else:
                share = torch.sigmoid(self.gates[hop](query))
                query = (1 - share) * kept + share * out
        return query, torch.stack(weights, 1)

    def _ago(self, real: Tensor) -> Tensor:
        """How many facts ago each was (B, F), 0 for the newest; in training with gaps, so that no distance is sure."""
        steps = real.long()
        if self.training and self.noise:
            steps = steps + (torch.rand(real.shape, device=real.device) < self.noise) * steps
        later = steps.flip(1).cumsum(1).flip(1) - steps  # steps of the facts after this one
        return later.clamp(0, self.max_facts - 1)
