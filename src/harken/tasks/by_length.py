"""Batches of rows that have a length each, for any task: bucketed by length, cut at the token budget, shared evenly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harken.data.batching import token_batches
from harken.training.config import TrainConfig
from harken.training.task import Indices


class ByLength:
    """`epoch` and `share` of `harken.training.task.Task`; a task sets `lengths` and `settings`."""

    lengths: np.ndarray  # (rows,) tokens or frames of every training example
    settings: TrainConfig

    def epoch(self, number: int) -> Sequence[Indices]:
        """Rows of like length together, in an order drawn for this epoch."""
        budget, seed = self.settings.batch_tokens, self.settings.seed
        return token_batches(self.lengths, self.lengths, budget, seed=seed, epoch=number, noise=1)

    def share(self, examples: Indices, parts: int) -> list[Indices]:
        """Deal the rows out by length, so that every part has as much to do."""
        ordered = examples[np.argsort(self.lengths[examples], kind="stable")]
        return [ordered[part::parts] for part in range(parts)]


def rows_of_part(lengths: np.ndarray, part: int, parts: int, budget: int) -> list[Indices]:
    """The validation rows of one worker, short ones first, in batches of at most `budget` tokens."""
    order = np.argsort(lengths, kind="stable")
    mine = order[part::parts]
    batches = token_batches(lengths[mine], lengths[mine], budget, seed=0, epoch=0, shuffle=False)
    return [mine[batch] for batch in batches]
