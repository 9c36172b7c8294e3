"""Facts and a question to an answer: sentences as vectors, hops of attention over the facts, one answer.

    classes   P(answer) = softmax(W u + b)                    one of the answers seen in training
    set       P(answer in the list) = sigmoid(W u + b)        each for itself
    pointer   P(word) = sum over its places of softmax(P u . E word + log of the attention to its fact)

u is what the hops found (`harken.models.answering.memory_hops`, `harken.models.answering.reduction_hops`). The pointer
sum is that of Kadlec et al. (2016).

>>> from harken.models.answering.config import AnswererConfig
>>> model = Answerer(AnswererConfig(width=8, hops=2), vocabulary=20, answers=5)
>>> found = model(torch.randint(4, 20, (3, 6, 4)), torch.tensor([6, 2, 1]), torch.randint(4, 20, (3, 5)))
>>> found.scores.shape, found.attention.shape
(torch.Size([3, 5]), torch.Size([3, 2, 6]))
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.models.answering.config import AnswererConfig
from harken.models.answering.memory_hops import MemoryHops
from harken.models.answering.reduction_hops import ReductionHops
from harken.models.answering.sentence_reader import PAD
from harken.nn.attention.functional import masked_softmax
from harken.nn.dropout import Dropout
from harken.nn.masks import length_mask

TINY = 1e-9  # a chance of 0 has no logarithm


class Found(NamedTuple):
    """What a batch of questions comes to."""

    scores: Tensor  # (B, A) logits of the answers, or (B, V) log chances of words where one is pointed at
    attention: Tensor  # (B, H, F)


class Answerer(nn.Module):
    """Word ids of facts (B, F, W), how many there are (B,), and word ids of a question (B, Q) -> `Found`."""

    def __init__(self, config: AnswererConfig, vocabulary: int, answers: int) -> None:
        super().__init__()
        self.output, width = config.output, config.width
        dropout = Dropout(config.dropout)
        if config.attention == "softmax":
            self.hops: MemoryHops | ReductionHops = MemoryHops(
                vocabulary,
                width,
                config.hops,
                config.reader,
                config.score,
                config.tied,
                config.gate,
                config.max_facts,
                config.noise,
                dropout,
            )
        else:
            self.hops = ReductionHops(vocabulary, width, config.hops, config.reader, config.score, config.gate, dropout)
        self.answer = nn.Linear(width, width if config.output == "pointer" else answers)

    def forward(self, facts: Tensor, counts: Tensor, question: Tensor) -> Found:
        """A row without facts is answered from its question alone."""
        found, attention = self.hops(facts, length_mask(counts, facts.shape[1]), question)  # (B, D), (B, H, F)
        if self.output != "pointer":
            return Found(self.answer(found), attention)
        return Found(self._point(facts, self.answer(found), attention), attention)

    def _point(self, facts: Tensor, query: Tensor, attention: Tensor) -> Tensor:
        """Log chances of all words of the vocabulary: those of their places in the facts, summed."""
        rows = facts.shape[0]
        words = self.hops.words(facts)  # (B, F, W, D)
        real = (facts != PAD).flatten(1)  # (B, F W)
        looked = torch.log(attention.amax(1) + TINY)[:, :, None].expand(
            facts.shape[:3]
        )  # where a hop looked, (B, F, W)
        scores = (words @ query[:, None, :, None])[..., 0] + looked  # (B, F, W)
        chances = masked_softmax(scores.flatten(1), real)  # (B, F W)
        summed = chances.new_zeros(rows, self.hops.words.num_embeddings)
        return torch.log(summed.scatter_add(1, facts.flatten(1), chances) + TINY)

    def loss(self, found: Found, wanted: Tensor, smoothing: float = 0.0) -> Tensor:
        """Summed over the questions; wanted are ids (B,), or 0 and 1 (B, A) where a set is asked for."""
        if self.output == "set":
            return F.binary_cross_entropy_with_logits(found.scores, wanted, reduction="sum")
        if self.output == "pointer":
            return F.nll_loss(found.scores, wanted, reduction="sum")
        return F.cross_entropy(found.scores, wanted, reduction="sum", label_smoothing=smoothing)

    def chances(self, found: Found, wanted: Tensor) -> Tensor:
        """(B,) how likely the model holds each wanted answer."""
        if self.output == "set":
            each = torch.sigmoid(found.scores.float())
            return torch.where(wanted > 0, each, 1 - each).prod(1)
        return torch.softmax(found.scores.float(), -1).gather(1, wanted[:, None])[:, 0]
