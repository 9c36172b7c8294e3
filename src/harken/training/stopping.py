"""When a run ends: its budget is spent, validation stops improving, or a signal comes."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from harken.errors import STOP_SIGNALS
from harken.training.checkpoints import Progress
from harken.training.config import TrainConfig

VALIDATION_SHARE = 0.2  # of the time that a run limited in minutes may spend on validation before its end
LEAST_SHARE = 0.1  # of a budget in minutes that is trained, however long everything else takes
MEASURING_SHARE = 0.1  # of a budget in minutes after which the time of a validation is measured again
OUTDATED = 1.1  # of the time at which a validation was measured, from which its end is not foreseen by it
FINISHING_SHARE = 0.2  # of the time before the first update that writing the card and loading the model take ...
LONGEST_FINISH = 0.05  # ... and at most this share of a budget in minutes


class Budget:
    """The limits of `[train]`.

    A budget in minutes is that of the whole command: what came before the first update, and what will come after the
    last one, is taken off the time for training. The latter is foreseen from what is measured as the run goes on.

    >>> budget = Budget(TrainConfig(max_steps=100, max_epochs=2), lambda: 20)
    >>> budget.spent(Progress(step=30, epoch=1, position=10)), budget.limit_reached(Progress(step=40, epoch=2))
    (0.75, 'max_epochs')

    Args:
        num_batches: called for the number of batches of the current epoch, where it matters.

    Attributes:
        before: seconds of this process before its first update.
        validation: seconds that the next validation is expected to take.
        checkpoint: seconds that the last checkpoint took.
        outside: seconds of a budget in minutes that are not for training, the same on all ranks.
    """

    def __init__(self, config: TrainConfig, num_batches: Callable[[], int]) -> None:
        self.config, self.num_batches = config, num_batches
        self.before = self.validation = self.checkpoint = self.outside = 0.0
        self.measured = -math.inf  # seconds of the run at which `validation` was measured

    def shares(self, state: Progress) -> dict[str, float]:
        """Which share of each limit is used up."""
        config, shares = self.config, dict[str, float]()
        if config.max_steps:
            shares["max_steps"] = state.step / config.max_steps
        if config.max_epochs:
            shares["max_epochs"] = (state.epoch + state.position / self.num_batches()) / config.max_epochs
        if config.max_minutes:
            whole = 60 * config.max_minutes
            is_spent = state.finished and state.spent_minutes >= config.max_minutes
            shares["max_minutes"] = 1.0 if is_spent else state.seconds / max(LEAST_SHARE * whole, whole - self.outside)
        return shares

    def expected_outside(self) -> float:
        """Seconds before the first update, of the last validation and checkpoint, and of all that follows."""
        finish = min(FINISHING_SHARE * self.before, LONGEST_FINISH * 60 * (self.config.max_minutes or 0.0))
        return self.before + self.validation + self.checkpoint + finish

    def shortfall(self) -> str:
        """A note where a budget in minutes leaves hardly any time for training; else empty."""
        least = self.expected_outside() / (1 - LEAST_SHARE) / 60
        if least <= (self.config.max_minutes or math.inf):
            return ""
        return (
            f"note: hardly any of train.max_minutes = {self.config.max_minutes:g} is left for training: "
            f"{self.before:.0f} s passed before it, and the last validation will take about {self.validation:.0f} s. "
            f"At the current speed of this machine the least is train.max_minutes = {math.ceil(10 * least) / 10:g}"
        )

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

    def expect_validation(self, state: Progress, seconds: float) -> None:
        """Note how long a validation takes now."""
        self.validation, self.measured = seconds, state.seconds

    def is_validation_unknown(self, state: Progress) -> bool:
        """Whether a budget in minutes needs a new measurement: a model that learns to end its sentences is faster."""
        if self.config.max_minutes is None:
            return False
        again = max(2 * self.measured, 60 * self.config.max_minutes * MEASURING_SHARE)
        return self.measured < 0 or state.seconds >= again

    def is_validation_outdated(self, state: Progress) -> bool:
        """Whether a budget in minutes is about to end by a time of a validation that was measured long before."""
        return self.limit_reached(state) == "max_minutes" and state.seconds > OUTDATED * max(0.0, self.measured)

    def can_afford_validation(self, state: Progress) -> bool:
        """With a budget in minutes, validation may take `VALIDATION_SHARE` of the time; else it is always due."""
        if self.config.max_minutes is None:
            return True
        return state.validation_seconds + self.validation <= VALIDATION_SHARE * state.seconds


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
            self.before = {number: signal.signal(number, self._receive) for number in STOP_SIGNALS}
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
