"""How beam search remembers: prefixes as a tree of tokens, and the best finished hypotheses of each row.

Every step adds one node for each live hypothesis, with its token and the node before it. Nothing is copied when
hypotheses are reordered; the tokens are read off once, at the end, from the last node back to the root.

           the ── black ── cat            nodes   0 the  1 a  2 black  3 cat
    root <                                parent  -1     -1   0        2
           a
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from harken.data.tokenizers.tokens import PAD
from harken.errors import UserError
from harken.search.continuations import NEVER, ranked
from harken.search.hypothesis import Hypothesis

ROOT = -1


@dataclass
class Kept:
    """The best hypotheses of each row so far, best first; every field is (R, nbest)."""

    normalised: Tensor  # NEVER where a place is free
    scores: Tensor
    nodes: Tensor  # where the prefix ends
    finished: Tensor  # bool

    @classmethod
    def nothing(cls, rows: int, nbest: int, device: torch.device) -> Kept:
        """All places free."""
        free = torch.full((rows, nbest), NEVER, device=device)
        nodes = torch.full((rows, nbest), ROOT, device=device)
        return cls(free, free, nodes, torch.zeros(rows, nbest, dtype=torch.bool, device=device))

    @classmethod
    def unfinished(cls, scores: Tensor, nodes: Tensor, length: int, penalty: float, nbest: int) -> Kept:
        """The live hypotheses (R, K), best first, as they are at the maximum length."""
        nothing = cls.nothing(len(scores), nbest, scores.device)
        return nothing._with(scores, nodes, length, penalty, finished=False)

    def merge(self, scores: Tensor, nodes: Tensor, length: int, penalty: float) -> Kept:
        """Let hypotheses that finish now, (R, C), compete for the places; NEVER marks those that do not."""
        return self._with(scores, nodes, length, penalty, finished=True)

    def _with(self, scores: Tensor, nodes: Tensor, length: int, penalty: float, finished: bool) -> Kept:
        places = self.normalised.shape[1]
        new = Kept(scores / float(length) ** penalty, scores, nodes, torch.full_like(nodes, finished, dtype=torch.bool))
        _, order = ranked(torch.cat([self.normalised, new.normalised], 1))
        best = order[:, :places]
        pairs = zip(self._all(), new._all(), strict=True)
        return Kept(*(torch.cat([old, now], 1).gather(1, best) for old, now in pairs))

    def rows(self, chosen: Tensor) -> Kept:
        """Only some rows."""
        return Kept(*(field[chosen] for field in self._all()))

    def otherwise(self, other: Kept) -> Kept:
        """Rows without any hypothesis are taken from `other`."""
        has = self.normalised[:, :1] > NEVER
        return Kept(*(torch.where(has, mine, theirs) for mine, theirs in zip(self._all(), other._all(), strict=True)))

    def _all(self) -> list[Tensor]:
        return [getattr(self, field.name) for field in fields(self)]


class Prefixes:
    """The tree of all prefixes that were ever alive."""

    def __init__(self) -> None:
        self._tokens: list[Tensor] = []
        self._parents: list[Tensor] = []
        self._size = 0

    def extend(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """Add one node for each of `tokens` (R, K) after the nodes `parents` (R, K); returns the new nodes (R, K)."""
        nodes = torch.arange(self._size, self._size + tokens.numel(), device=tokens.device).view(tokens.shape)
        self._tokens.append(tokens.flatten())
        self._parents.append(parents.flatten())
        self._size += tokens.numel()
        return nodes

    def trace(self, ends: np.ndarray) -> list[list[int]]:
        """The tokens of the prefixes that end at `ends` (H,), first token first."""
        tokens = torch.cat(self._tokens).cpu().numpy()
        parents = torch.cat(self._parents).cpu().numpy()
        columns = []
        while (ends != ROOT).any():
            columns.append(np.where(ends == ROOT, PAD, tokens[ends]))  # PAD is never written, so it marks no token
            ends = np.where(ends == ROOT, ROOT, parents[ends])
        if not columns:
            return [[] for _ in ends]
        backwards = np.stack(columns, 1)  # (H, longest)
        return [row[row != PAD][::-1].tolist() for row in backwards]

    def hypotheses(self, results: list[tuple[Tensor, Kept]], rows: int) -> list[list[Hypothesis]]:
        """Turn what was kept for each row into hypotheses, in the order of the rows."""
        row_of = torch.cat([numbers for numbers, _ in results]).cpu().numpy()  # (R,)
        normalised, scores, nodes, finished = (
            torch.cat(parts).cpu().numpy() for parts in zip(*(kept._all() for _, kept in results), strict=True)
        )
        places = normalised > NEVER  # (R, nbest), False for NaN
        empty = ~places.any(1)
        if empty.any():
            row = int(row_of[empty][0])
            raise UserError(f"The model's logits for row {row} are not finite numbers; its training has diverged.")
        texts = iter(self.trace(nodes[places]))
        found: list[list[Hypothesis]] = [[] for _ in range(rows)]
        for index, place in np.argwhere(places):  # row by row, best first: the order in which `texts` comes
            score, rank = float(scores[index, place]), float(normalised[index, place])
            found[row_of[index]].append(Hypothesis(next(texts), score, rank, bool(finished[index, place])))
        return found
