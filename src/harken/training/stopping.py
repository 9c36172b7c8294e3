"""When a run ends: its budget is spent, validation stops improving, or a signal comes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from harken.training.checkpoints import Progress
from harken.training.config import TrainConfig

VALIDATION_SHARE = 0.2  # of the time that a run limited in minutes may spend on validation before its end
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Budget:
    """The limits of `[train]`.

    >>> budget = Budget(TrainConfig(max_steps=100, max_epochs=2), lambda: 20)
    >>> budget.spent(Progress(step=30, epoch=1, position=10)), budget.limit_reached(Progress(step=40, epoch=2))
    (0.75, 'max_epochs')

    Args:
        num_batches: called for the number of batches of the current epoch, where it matters.
    """

    def __init__(self, config: TrainConfig, num_batches: Callable[[], int]) -> None:
        self.config, self.num_batches = config, num_batches

    def shares(self, state: Progress) -> dict[str, float]:
        """Which share of each limit is used up."""
        config, shares = self.config, dict[str, float]()
        if config.max_steps:
            shares["max_steps"] = state.step / config.max_steps
        if config.max_epochs:
            shares["max_epochs"] = (state.epoch + state.position / self.num_batches()) / config.max_epochs
        if config.max_minutes:
            shares["max_minutes"] = state.seconds / (60 * config.max_minutes)
        return shares

    def spent(self, state: Progress) -> float:
        """The share of the budget that is used up, by whichever limit is nearest."""
        return min(1.0, max(self.shares(state).values(), default=0.0))

    def limit_reached(self, state: Progress) -> str:
        """The limit that ends the run."""
        shares = self.shares(state)
        nearest = max(shares, key=lambda name: shares[name], default="")
        return nearest if shares and shares[nearest] >= 1 else "patience"

    def is_patience_exhausted(self, state: Progress) -> bool:
        """Whether early stopping ends the run."""
        return self.config.patience is not None and state.stale >= self.config.patience

    def is_done(self, state: Progress) -> bool:
        """Whether the run has finished and its budget was not raised since."""
        return state.finished and (self.spent(state) >= 1 or self.is_patience_exhausted(state))

    def can_afford_validation(self, state: Progress) -> bool:
        """With a budget in minutes, validation may take `VALIDATION_SHARE` of the time; else it is always due."""
        if self.config.max_minutes is None or not state.validations:
            return True
        mean = state.validation_seconds / state.validations
        return state.validation_seconds + mean <= VALIDATION_SHARE * state.seconds


class StopSignals:
    """Inside the block, SIGINT (Ctrl-C), SIGTERM and SIGHUP are noted in `received`; a second one stops at once.

    Args:
        log: shows a line to the user.
        once: ignore a second signal: torchrun sends its own after that of the terminal.
    """

    def __init__(self, log: Callable[[str], None], once: bool) -> None:
        self.log, self.once = log, once
        self.received: int | None = None
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self.before = {number: signal.signal(number, self._receive) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: Any) -> None:
        if self.received is not None and not self.once:
            raise KeyboardInterrupt
        self.received = number
        with suppress(RuntimeError, OSError):  # no print inside an interrupted print, nor to a lost terminal
            self.log("stopping: saving a checkpoint first ...")
