"""As many CPU threads as are fastest for a model, which for small ones is a single one.

That is measured once, when there is enough to do for the measurement to be worth its time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from harken.data.tokenizers.tokens import EOS
from harken.models.encoder_decoder import TranslationModel
from harken.training.machine import cores


class ThreadTuner:
    """Keeps the number of threads that was fastest for one model."""

    def __init__(self, model: TranslationModel) -> None:
        self.model = model
        self.count: int | None = None  # not known before it is measured

    @contextmanager
    def used(self, measure: bool) -> Iterator[None]:
        """Search with them; `measure` says whether to find out how many there should be, if that is not known."""
        if next(self.model.parameters()).device.type != "cpu":
            yield
            return
        before = torch.get_num_threads()
        if self.count is None and measure:
            self.count = min(sorted({1, cores()}), key=self._seconds)
        torch.set_num_threads(self.count or 1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    @torch.no_grad()
    def _seconds(self, threads: int) -> float:
        """How long a small batch takes with so many threads."""
        torch.set_num_threads(threads)
        tokens = torch.full((32, 16), EOS)
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            state = self.model.start(tokens, None)
            for _ in range(3):
                self.model.step(tokens[:, 0], state)
            best = min(best, time.perf_counter() - start)
        return best
