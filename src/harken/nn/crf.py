"""A linear-chain conditional random field over the labels of a sequence.

    score(y) = a_{y_1} + sum_t e_t[y_t] + sum_{t>1} A[y_{t-1}, y_t] + z_{y_T}
    log p(y) = score(y) - log sum_{y'} exp score(y')

The sum over all K^T labellings is computed by the forward algorithm, the best labelling by the Viterbi algorithm, the
probability of each label at each step by the forward-backward algorithm. Lafferty, McCallum and Pereira (2001).

Transitions may be forbidden, as from O to I-person: the best labelling then has none of them. The likelihood does not
change, so that training accepts data that break the rule.

>>> crf = CRF(2)
>>> emissions = torch.zeros(1, 3, 2)
>>> crf.log_likelihood(emissions, torch.tensor([[0, 1, 1]])).exp()  # all 8 labellings are equally likely
tensor([0.1250], grad_fn=<ExpBackward0>)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harken.nn.masks import length_mask

FORBIDDEN = -1e6  # added to a score; finite, so that no difference of two is undefined


class CRF(nn.Module):
    """Learned transition scores on given emissions (B, T, K). Padding changes nothing."""

    forbidden: Tensor  # (K, K) added to the score of a transition from row to column: 0 or FORBIDDEN
    forbidden_first: Tensor  # (K,) the same for the first label

    def __init__(self, labels: int, forbidden: Tensor | None = None, forbidden_first: Tensor | None = None) -> None:
        super().__init__()
        nothing = torch.zeros(labels + 1, labels, dtype=torch.bool)
        transitions = nothing[1:] if forbidden is None else forbidden
        firsts = nothing[0] if forbidden_first is None else forbidden_first
        self.register_buffer("forbidden", transitions * FORBIDDEN, persistent=False)
        self.register_buffer("forbidden_first", firsts * FORBIDDEN, persistent=False)
        self.first = nn.Parameter(torch.zeros(labels))  # a
        self.transitions = nn.Parameter(torch.zeros(labels, labels))  # A, from row to column
        self.last = nn.Parameter(torch.zeros(labels))  # z

    def log_likelihood(self, emissions: Tensor, labels: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Log-probability (B,) of labels (B, T); labels in the padding are ignored."""
        emissions, real = self._checked(emissions, lengths)
        return self.score(emissions, labels, lengths) - self.log_partition(emissions, real)

    def score(self, emissions: Tensor, labels: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The score (B,) of one labelling a row."""
        emissions, real = self._checked(emissions, lengths)
        labels = labels.masked_fill(~real, 0)
        at_steps = emissions.gather(2, labels[:, :, None])[:, :, 0]  # (B, T)
        between = self.transitions[labels[:, :-1], labels[:, 1:]]  # (B, T - 1)
        final = labels.gather(1, real.sum(1, keepdim=True) - 1)[:, 0]  # (B,)
        inside = torch.where(real, at_steps, 0.0).sum(1) + torch.where(real[:, 1:], between, 0.0).sum(1)
        return self.first[labels[:, 0]] + inside + self.last[final]

    def log_partition(self, emissions: Tensor, real: Tensor) -> Tensor:
        """log sum_{y} exp score(y), (B,)."""
        return torch.logsumexp(self._forward(emissions, real)[-1] + self.last, -1)

    def marginals(self, emissions: Tensor, lengths: Tensor | None = None) -> Tensor:
        """p(y_t = k | x), (B, T, K); zero in the padding."""
        emissions, real = self._checked(emissions, lengths)
        before = torch.stack(self._forward(emissions, real), 1)  # (B, T, K)
        after = torch.stack(self._backward(emissions, real), 1)  # (B, T, K)
        return torch.where(real[:, :, None], torch.softmax(before + after, -1), 0.0)

    @torch.no_grad()
    def viterbi_decode(self, emissions: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The most likely labels (B, T), 0 in the padding, and their scores (B,)."""
        emissions, real = self._checked(emissions, lengths)
        rows, steps, count = emissions.shape
        reached = self.first + self.forbidden_first + emissions[:, 0]  # (B, K)
        transitions = self.transitions + self.forbidden
        stay = torch.arange(count, device=emissions.device).expand(rows, count)
        came_from = []
        for step in range(1, steps):
            highest, previous = (reached[:, :, None] + transitions).max(1)  # (B, K)
            here = real[:, step, None]
            reached = torch.where(here, highest + emissions[:, step], reached)
            came_from.append(torch.where(here, previous, stay))
        scores, label = (reached + self.last).max(1)  # (B,)
        path = [label]
        for previous in reversed(came_from):
            label = previous.gather(1, label[:, None])[:, 0]
            path.append(label)
        return torch.stack(path[::-1], 1).masked_fill(~real, 0), scores

    def _forward(self, emissions: Tensor, real: Tensor) -> list[Tensor]:
        """The scores (B, K) of every step: log of the sum over all labellings up to it that end in k."""
        scores = [self.first + emissions[:, 0]]
        for step in range(1, emissions.shape[1]):
            onward = torch.logsumexp(scores[-1][:, :, None] + self.transitions, 1) + emissions[:, step]
            scores.append(torch.where(real[:, step, None], onward, scores[-1]))
        return scores

    def _backward(self, emissions: Tensor, real: Tensor) -> list[Tensor]:
        """The scores (B, K) of every step: log of the sum over all labellings after it that follow k."""
        scores = [self.last.expand(emissions.shape[0], -1)]
        for step in range(emissions.shape[1] - 1, 0, -1):
            onward = torch.logsumexp(self.transitions + (emissions[:, step] + scores[-1])[:, None, :], 2)
            scores.append(torch.where(real[:, step, None], onward, scores[-1]))
        return scores[::-1]

    def _checked(self, emissions: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """At least float32, and which steps are real (B, T)."""
        rows, steps, count = emissions.shape
        if count != len(self.first):
            raise ValueError(f"emissions have {count} labels, but the field has {len(self.first)}")
        emissions = emissions.to(torch.promote_types(emissions.dtype, torch.float32))
        if lengths is None:
            return emissions, torch.ones(rows, steps, dtype=torch.bool, device=emissions.device)
        return emissions, length_mask(lengths, steps)
