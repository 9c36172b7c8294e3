"""The results of updates as they come in: losses are counted, and what goes wrong is told as an event.

An update with a NaN or infinite loss or gradient was skipped by its strategy: here the layer where it began is named
and the batch is kept, and many in a row end the run. Losses that jump and stay up, weights that no gradient reaches and
batches that were computed in parts are told, once each.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from harken.errors import UserError
from harken.training.average import local_part
from harken.training.checkpoints import Progress
from harken.training.diagnosis import write_batch
from harken.training.strategies import StepResult, Strategy
from harken.training.task import Indices

DIAGNOSED = 3  # NaN or infinite losses whose origin is searched in a run
NAN_PATIENCE = 20  # updates in a row with a NaN or infinite gradient before the run is given up
JUMP_DEVIATIONS, JUMP_FACTOR = 8.0, 1.5  # a jump is above the running mean by both
JUMP_WARM_UP = 50  # updates before which every loss may jump
BACK_DEVIATIONS = 4.0  # a loss that is no further above the running mean is back
STAYS_UP = 25  # updates without such a loss after which a jump is told
MEMORY = 0.98  # of the running mean and deviation, a step
DEAD_CHECKS = 3  # validations in a row at which a parameter had no gradient


class UpdateMonitor:
    """Reads the results of one run's updates.

    Args:
        progress: the losses are added to its window.
        event: tells the user what happened.

    Attributes:
        skipped: updates in a row.
    """

    def __init__(self, strategy: Strategy, folder: Path, progress: Progress, event: Callable[[str], None]) -> None:
        self.strategy, self.folder, self.progress, self.event = strategy, folder, progress, event
        self.unread: deque[tuple[int, list[Indices], int, StepResult]] = deque()
        self.skipped = 0
        self.diagnosed = 0
        self.was_split = False

    def add(self, step: int, batches: list[Indices], num_tokens: int, result: StepResult) -> None:
        """Note an update; its result is read now, or after the next one where reading would wait for a GPU."""
        if self.strategy.pieces > 1 and not self.was_split:
            self.was_split = True
            self.event(
                f"memory ran out, so the batch was computed in {self.strategy.pieces} parts; if this happens often, a "
                f"lower train.batch_tokens than {self.strategy.config.batch_tokens} is faster"
            )
        self.unread.append((step, batches, num_tokens, result))
        self.read(keep=1 if isinstance(result.loss, Tensor) else 0)

    def read(self, keep: int = 0) -> None:
        """Count the results of all updates but the last `keep`.

        Raises:
            UserError: the last `NAN_PATIENCE` of them were skipped.
        """
        state = self.progress
        while len(self.unread) > keep:
            step, batches, num_tokens, result = self.unread.popleft()
            if result.ready is not None:
                result.ready.synchronize()
            if not bool(result.skipped):
                state.window_loss += float(result.loss)
                state.window_tokens += num_tokens
                self.skipped = 0
                if warning := loss_jump(state, float(result.loss) / max(num_tokens, 1)):
                    self.event(warning)
                continue
            self.skipped += 1
            if self.skipped == 1 and self.diagnosed < DIAGNOSED:
                self._diagnose(step, batches)
            if self.skipped >= NAN_PATIENCE:
                rate = self.strategy.config.learning_rate
                raise UserError(
                    f"the loss or its gradient is NaN or infinite since step {step - self.skipped + 1}; lower "
                    f"train.learning_rate ({rate}) or train.clip_norm and train into a new folder"
                )

    def check_gradients(self) -> None:
        """Name weights that no gradient reaches; called at validations."""
        if dead := dead_gradients(self.progress, self.strategy.task.model, self.strategy.maximum):
            self.event(dead)

    def _diagnose(self, step: int, batches: list[Indices]) -> None:
        """Say in which layer NaN or infinite values began, and keep the batch."""
        self.diagnosed += 1
        diagnoses = self.strategy.diagnose(step, batches)
        if not diagnoses:
            self.event(f"update {step} was skipped: its loss or gradient is NaN or infinite")
            return
        place, indices = diagnoses[0]
        where = ""
        if self.strategy.is_main:
            batch = self.strategy.task.collate(np.array(indices))
            path = write_batch(self.folder, step, place, np.array(indices), batch)
            where = f"; the batch is kept in {path.name}"
        self.event(f"update {step} was skipped: {place}{where}")


def loss_jump(state: Progress, loss: float) -> str:
    """Add the mean loss of an update to the running statistics; a warning where the loss jumped and stays up, else "".

    A jump lies above the running mean by many of its deviations. Most are a batch of outliers, and the next losses are
    as before: nothing is said of them. Until it is known, the statistics stay as they were before the jump.

    >>> state = Progress()
    >>> [loss_jump(state, 2.0 + 0.1 * (step % 2)) for step in range(80)][-1]
    ''
    >>> loss_jump(state, 9.0), loss_jump(state, 2.1), state.jump_updates
    ('', '', 0)
    >>> [loss_jump(state, 9.0) for update in range(STAYS_UP)][-1]
    'the loss jumped to 9 from a running mean of 2.05 and stayed up for 25 updates; lower train.learning_rate'
    """
    if not math.isfinite(loss):
        return ""
    mean, deviation = state.loss_mean, state.loss_deviation
    if state.jump_updates and loss > mean + BACK_DEVIATIONS * deviation:
        state.jump_updates += 1
        if state.jump_updates < STAYS_UP:
            return ""
        warning = (
            f"the loss jumped to {state.jump_loss:.3g} from a running mean of {mean:.3g} and stayed up for {STAYS_UP} "
            "updates; lower train.learning_rate"
        )
        state.jump_updates = state.loss_counted = 0  # from here on this is the usual loss
        return warning
    state.jump_updates = 0
    is_known = state.loss_counted >= JUMP_WARM_UP
    if is_known and loss > mean + JUMP_DEVIATIONS * deviation and loss > JUMP_FACTOR * mean:
        state.jump_loss, state.jump_updates = loss, 1
        return ""
    state.loss_counted += 1
    weight = max(1 - MEMORY, 1 / state.loss_counted)
    state.loss_mean += weight * (loss - mean)
    state.loss_deviation += weight * (abs(loss - mean) - deviation)
    return ""


def dead_gradients(state: Progress, model: nn.Module, maximum: Callable[[list[float]], list[float]]) -> str:
    """Return a warning about parameters without a gradient at the last `DEAD_CHECKS` calls, once; else "".

    Args:
        maximum: over all ranks, each of which may have a part of the gradients.
    """
    if not maximum([float(any(parameter.grad is not None for parameter in model.parameters()))])[0]:
        return ""  # resumed after the last update
    trained = {name: value.grad for name, value in model.named_parameters() if value.requires_grad}
    learns = maximum([float(grad is not None and bool(local_part(grad).any())) for grad in trained.values()])
    state.dead = {name: state.dead.get(name, 0) + 1 for name, does in zip(trained, learns, strict=True) if not does}
    dead = [name for name, count in state.dead.items() if count == DEAD_CHECKS]
    more = f" and {len(dead) - 3} more" if len(dead) > 3 else ""
    return f"no gradient reaches {', '.join(map(repr, dead[:3]))}{more}: these weights do not learn" if dead else ""
