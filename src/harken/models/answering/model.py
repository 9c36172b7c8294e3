"""Question answering over facts: sentences as vectors, hops of attention over the facts, an answer.

    classes   P(answer) = softmax(W u + b)                    one of the answers seen in training
    set       P(answer in the list) = sigmoid(W u + b)        each for itself
    pointer   P(word) = sum over its places of softmax(P u . E word + log of the attention to its fact)

u is the query after the last hop (`harken.models.answering.hops`). The pointer sum is that of Kadlec et al. (2016).

>>> from harken.models.answering.config import AnswererConfig
>>> model = Answerer(AnswererConfig(width=8, hops=2), vocabulary=20, answers=5)
>>> answers = model(torch.randint(4, 20, (3, 6, 4)), torch.tensor([6, 2, 1]), torch.randint(4, 20, (3, 5)))
>>> answers.scores.shape, answers.attention.shape
(torch.Size([3, 5]), torch.Size([3, 2, 6]))
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.data.tokenizers.tokens import PAD
from harken.models.answering.config import AnswererConfig
from harken.models.answering.hops import MemoryHops, ReductionHops
from harken.nn.attention.functional import masked_softmax
from harken.nn.masks import length_mask

TINY = 1e-9


class AnswerScores(NamedTuple):
    """The result for a batch of questions."""

    scores: Tensor  # (B, A) logits of the answers, or (B, V) log-probabilities of words where one is pointed at
    attention: Tensor  # (B, H, F)


class Answerer(nn.Module):
    """Word ids of facts (B, F, W), how many there are (B,), and word ids of a question (B, Q) -> `AnswerScores`."""

    def __init__(self, config: AnswererConfig, vocabulary: int, answers: int) -> None:
        super().__init__()
        self.output, width = config.output, config.width
        hops = MemoryHops if config.attention == "softmax" else ReductionHops
        self.hops: MemoryHops | ReductionHops = hops(config, vocabulary)
        self.answer = nn.Linear(width, width if config.output == "pointer" else answers)

    def forward(self, facts: Tensor, counts: Tensor, question: Tensor) -> AnswerScores:
        """A row without facts is answered from its question alone."""
        query, attention = self.hops(facts, length_mask(counts, facts.shape[1]), question)  # (B, D), (B, H, F)
        if self.output != "pointer":
            return AnswerScores(self.answer(query), attention)
        return AnswerScores(self._point(facts, self.answer(query), attention), attention)

    def _point(self, facts: Tensor, query: Tensor, attention: Tensor) -> Tensor:
        """Log-probabilities of all words of the vocabulary, summed over their positions in the facts."""
        rows = facts.shape[0]
        words = self.hops.words(facts)  # (B, F, W, D)
        real = (facts != PAD).flatten(1)  # (B, F W)
        looked = torch.log(attention.amax(1) + TINY)[:, :, None].expand(
            facts.shape[:3]
        )  # where a hop looked, (B, F, W)
        scores = (words @ query[:, None, :, None])[..., 0] + looked  # (B, F, W)
        shares = masked_softmax(scores.flatten(1), real)  # (B, F W)
        summed = shares.new_zeros(rows, self.hops.words.num_embeddings)
        return torch.log(summed.scatter_add(1, facts.flatten(1), shares) + TINY)

    def loss(self, answers: AnswerScores, labels: Tensor, smoothing: float = 0.0) -> Tensor:
        """Summed over the questions; labels are ids (B,), or 0 and 1 (B, A) where a set is asked for."""
        if self.output == "set":
            return F.binary_cross_entropy_with_logits(answers.scores, labels, reduction="sum")
        if self.output == "pointer":
            return F.nll_loss(answers.scores, labels, reduction="sum")
        return F.cross_entropy(answers.scores, labels, reduction="sum", label_smoothing=smoothing)

    def probabilities(self, answers: AnswerScores, labels: Tensor) -> Tensor:
        """(B,) the probability of each right answer."""
        if self.output == "set":
            each = torch.sigmoid(answers.scores.float())
            return torch.where(labels > 0, each, 1 - each).prod(1)
        return torch.softmax(answers.scores.float(), -1).gather(1, labels[:, None])[:, 0]

    def dry_run(self, facts: int, words: int = 6) -> Tensor:
        """Scores (1, A) of a question about so many facts of `words` words (`harken.models.sizing`)."""
        device = self.answer.weight.device
        ids = torch.ones(1, facts, words, dtype=torch.long, device=device)
        scores: Tensor = self(ids, torch.tensor([facts], device=device), ids[:, 0]).scores
        return scores
