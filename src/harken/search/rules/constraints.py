"""Lexical constraints: phrases that the output must contain.

A constraint is a set of alternative token sequences, such as a phrase in lower case and with a capital; one of them has
to appear. A hypothesis may not end before all constraints of its source are met. The tokens that begin or continue an
unmet constraint are candidates at every step, however improbable, and the beam is shared by the banks of hypotheses
that have met equally many constraint tokens: the best of each bank first, then the second best of each, and so on, so
that progress on constraints is not crowded out by more probable hypotheses without it (Hokamp and Liu, 2017; Post and
Vilar, 2018). With a beam that keeps everything this is exhaustive search over the outputs that meet all constraints.

A phrase counts where it stands as words: `joins` marks the tokens that continue a word, and neither the token after
the phrase nor, where the phrase itself begins with such a token, the one before it may be among them.

>>> rule = Constraints([[[[5, 6]]]])  # one source, one constraint, one alternative
>>> so_far = SoFar(torch.tensor([[4, 5], [5, 6]]), torch.tensor([0, 0]), torch.tensor([9, 9]))
>>> rule(torch.zeros(2, 8), so_far)[:, 3].tolist()  # EOS
[-inf, 0.0]
>>> rule.required(so_far).tolist(), rule.progress(so_far.tokens, so_far.source)[1].tolist()
([[6, 5], [0, 0]], [1, 2])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from harken.data.tokenizers.tokens import EOS, PAD
from harken.lazy_torch import torch
from harken.search.hypotheses import NEG_INF
from harken.search.rules.base import ScoreRule, SoFar

if TYPE_CHECKING:
    from torch import Tensor

Phrases = Sequence[Sequence[Sequence[Sequence[int]]]]  # for each source, its constraints; of each, alternatives


class Constraints(ScoreRule):
    """See the module's docstring.

    Args:
        phrases: for each source of the call its constraints, each a list of alternative token sequences.
        joins: (V,) True for tokens that continue a word; None: no token does.
    """

    needs_beam = True

    def __init__(self, phrases: Phrases, joins: Tensor | np.ndarray | None = None) -> None:
        flat = [
            [(number, list(tokens)) for number, constraint in enumerate(constraints) for tokens in constraint if tokens]
            for constraints in phrases
        ]
        most = max((len(row) for row in flat), default=1) or 1
        longest = max((len(tokens) for row in flat for _, tokens in row), default=1)
        self.size = max((len(constraints) for constraints in phrases), default=1) or 1  # C
        self.tokens = np.full((len(flat), most, longest), PAD, np.int64)  # (B, A, P)
        self.lengths = np.zeros((len(flat), most), np.int64)  # (B, A)
        self.constraint = np.full((len(flat), most), self.size, np.int64)  # (B, A) that an alternative is of
        self.exists = np.zeros((len(flat), self.size), bool)  # (B, C)
        for row, alternatives in enumerate(flat):
            for slot, (number, tokens) in enumerate(alternatives):
                self.tokens[row, slot, : len(tokens)] = tokens
                self.lengths[row, slot], self.constraint[row, slot] = len(tokens), number
                self.exists[row, number] = True
        self.joins = joins

    def __call__(self, scores: Tensor, so_far: SoFar) -> Tensor:
        met, _, _ = self._met(so_far.tokens, so_far.source)
        scores[:, EOS] = scores[:, EOS].masked_fill(~met.all(1), NEG_INF)
        return scores

    def required(self, so_far: SoFar) -> Tensor:
        """(R, 2 A): tokens that begin or continue a constraint which is not met yet; PAD where there are none."""
        met, partial, alternatives = self._met(so_far.tokens, so_far.source)
        tokens, constraint = alternatives
        padded = torch.cat((met, torch.ones_like(met[:, :1])), 1)  # the constraint of an empty slot counts as met
        done = padded.gather(1, constraint)  # (R, A)
        continued = tokens.gather(2, partial[..., None].clamp(max=tokens.shape[2] - 1))[..., 0]
        begun = partial > 0
        required = torch.cat((torch.where(begun, continued, PAD), tokens[:, :, 0]), 1)
        return torch.where(torch.cat((done, done), 1), PAD, required)

    def progress(self, tokens: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens (R, t), the source (R,) of each row -> whether all is met (R,), constraint tokens met so far (R,)."""
        met, partial, (words, constraint) = self._met(tokens, source)
        lengths = torch.as_tensor(self.lengths, device=source.device)[source]
        each = torch.zeros_like(met, dtype=torch.long)  # (R, C), the shortest alternative's length
        full = torch.full_like(each, words.shape[2] + 1)
        padded = torch.cat((full, full[:, :1]), 1).scatter_reduce(1, constraint, lengths, "amin")[:, :-1]
        each = torch.where(torch.as_tensor(self.exists, device=source.device)[source], padded, 0)
        unmet = torch.cat((~met, torch.zeros_like(met[:, :1])), 1).gather(1, constraint)
        begun = torch.where(unmet, partial, 0).amax(1)
        return met.all(1), (each * met).sum(1) + begun

    def _met(self, tokens: Tensor, source: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        """Which constraints are met (R, C), how many tokens of each alternative the prefix ends with (R, A)."""
        device, (rows, time) = source.device, tokens.shape
        words, lengths, constraint, exists = (  # (R, A, P), (R, A), (R, A), (R, C)
            torch.as_tensor(array, device=device)[source]
            for array in (self.tokens, self.lengths, self.constraint, self.exists)
        )
        fulfilled = torch.zeros(rows, self.size + 1, dtype=torch.uint8, device=device)  # CUDA does not reduce booleans
        partial = torch.zeros_like(lengths)
        joins = None if self.joins is None else torch.as_tensor(self.joins, device=device)
        padding = torch.full((rows, 1), PAD, device=device)
        for length in range(1, min(time, words.shape[2]) + 1):
            windows = tokens.unfold(1, length, 1)  # (R, W, length)
            same = (windows[:, :, None] == words[:, None, :, :length]).all(-1)  # (R, W, A)
            if joins is not None:
                before = torch.cat((padding, tokens[:, : time - length]), 1)  # (R, W) the token before a window
                inside = joins[before][..., None] & joins[words[:, :, 0]][:, None]
                same = same & ~inside
            partial = torch.where(same[:, -1] & (lengths > length), length, partial)
            if joins is not None:
                after = torch.cat((tokens[:, length:], padding), 1)  # (R, W) the token after it; PAD at the end
                same = same & ~joins[after][..., None]
            complete = same.any(1) & (lengths == length)  # (R, A)
            fulfilled = fulfilled.scatter_reduce(1, constraint, complete.byte(), "amax")
        met = fulfilled[:, :-1].bool() | ~exists
        return met, partial, (words, constraint)


def share_by_bank(scores: Tensor, banks: Tensor) -> Tensor:
    """Candidates (R, N) with their banks (R, N) -> their order (R, N): the best of each bank, the second best ...

    Within a round the bank with most constraint tokens comes first. Excluded candidates come last.

    >>> share_by_bank(torch.tensor([[-1.0, -2.0, -3.0, -4.0]]), torch.tensor([[0, 0, 1, 0]])).tolist()
    [[2, 0, 1, 3]]
    """
    _, order = torch.sort(scores, dim=1, descending=True, stable=True)
    banks, excluded = banks.gather(1, order), scores.gather(1, order) == NEG_INF
    earlier = (banks[:, :, None] == banks[:, None, :]).tril(-1).sum(2)  # (R, N) better ones of the same bank
    rounds = torch.where(excluded, scores.shape[1], earlier)
    key = rounds * (banks.amax() + 2) - banks
    return order.gather(1, torch.sort(key, dim=1, stable=True).indices)
