"""One process computes the whole batch: on a GPU, or on one CPU core."""

from __future__ import annotations

from harken.training.strategies.base import Strategy
from harken.training.task import Indices


class Single(Strategy):
    """See `harken.training.strategies.base.Strategy`."""

    def backward(self, step: int, batches: list[Indices], num_tokens: int) -> float:
        """The batches as `Task.share` orders them for one process."""
        return self.share_gradients(0, step, [self.task.share(indices, 1)[0] for indices in batches], num_tokens)

    def validate(self) -> dict[str, float]:
        """All of the validation data."""
        return self.task.score([self.validate_share(0)])
