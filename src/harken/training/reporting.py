"""Reports of a run: lines of metrics.jsonl, the display, callbacks, and event files for TensorBoard.

TensorBoard: `train.tensorboard = true`, then `tensorboard --logdir RUNS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from harken.errors import require_extra
from harken.training.checkpoints import Progress
from harken.training.display import Display, Throughput
from harken.training.log import SIGNATURE, TEXTS, MetricsLog
from harken.training.task import Work

Callback = Callable[[dict[str, Any]], Any]  # called with each line of metrics.jsonl; True ends the run
SLOW_DATA = 0.05  # share of the time spent on batches that the user is told of
MIN_SECONDS = 1.0  # of updates from which on that share says something
FIRST, TIMED = 3, 10  # updates in which kernels are compiled, loaded and captured; updates whose times are compared
SLOW_START = 1.0  # seconds by which they take longer that the user is told of
FOLDER = "tensorboard"  # in the run folder
LEFT_OUT = ("kind", "step", "best", "spent")


class Reporter:
    """Tells what happens in a run.

    Args:
        log: None on ranks other than 0, which report nothing.
        peak: FLOP/s of the device, where they are known.
        unit: what the loss sums over, in the plural.
    """

    def __init__(
        self,
        progress: Progress,
        display: Display,
        callbacks: Sequence[Callback],
        log: MetricsLog | None,
        peak: float | None,
        unit: str = "tokens",
    ) -> None:
        self.unit = unit
        self.progress, self.display, self.callbacks, self.log, self.peak = progress, display, callbacks, log, peak
        self.work = Work(0, 0.0)  # since the last line of metrics.jsonl
        self.data_wait = 0.0  # of the last line of metrics.jsonl
        self.signature = ""  # of BLEU, as shown last
        self.said_slow = False  # that batches take too long
        self.times: list[float] = []  # of the first updates of this process
        self.start_seconds = 0.0  # by which they took longer; of the line that is to be written next

    @property
    def speed(self) -> Throughput:
        """Since the last line of metrics.jsonl."""
        seconds = self._seconds
        share = self.work.flops / seconds / self.peak if self.peak and self.work.flops else None
        return Throughput(self.progress.window_tokens / seconds, share, self.data_wait, self.unit)

    @property
    def _seconds(self) -> float:
        """Of the updates since the last line, without the compilation of kernels."""
        return max(self.progress.window_seconds - self.start_seconds, 1e-9)

    def add_time(self, seconds: float) -> None:
        """Add the time of an update; after a few, say how long the first ones took to compile."""
        self.progress.window_seconds += seconds
        if len(self.times) == TIMED:
            return
        self.times.append(seconds)
        if len(self.times) == TIMED and (longer := longer_start(self.times)) >= SLOW_START:
            self.start_seconds = min(longer, self.progress.window_seconds)
            self.display.log(f"the first updates took {longer:.1f} s longer: kernels were compiled or loaded")

    def event(self, text: str) -> None:
        """A line for the user and in metrics.jsonl."""
        if self.log is not None:
            self.log.write({"kind": "event", "step": self.progress.step, "event": text})
            self.display.log(f"step {self.progress.step:>6}  {text}")

    def show_step(self, spent: float, rate: float) -> None:
        """Update the display after an update; a GPU may still compute the only one since the last line."""
        state = self.progress
        if state.window_tokens:
            self.display.step(state.step, spent, state.window_loss / state.window_tokens, rate, self.speed)

    def record_training(self, rate: float, data_wait: float) -> bool:
        """The line of the updates since the last one, whose counts start anew.

        Args:
            data_wait: the share of the time that was spent waiting for batches.

        Returns:
            Whether a callback ends the run.
        """
        state, speed = self.progress, self.speed
        entry = {
            "kind": "train",
            "step": state.step,
            "epoch": state.epoch,
            "loss": state.window_loss / max(state.window_tokens, 1),
            "learning_rate": rate,
            "tokens": state.window_tokens,
            "tokens_per_second": speed.tokens,
            "unit": self.unit,
            "data_wait": data_wait,
            "seconds": state.seconds,
        }
        if not state.window_tokens:  # all updates were skipped: a loss of 0 would look like a good one
            del entry["loss"]
        if self.work.tokens:  # source and target
            entry["all_tokens_per_second"] = self.work.tokens / self._seconds
        if speed.utilisation is not None:
            entry["utilisation"] = speed.utilisation
        if self.start_seconds:
            entry["start_seconds"] = round(self.start_seconds, 2)
        ends, self.data_wait, self.start_seconds = self._record(entry), data_wait, 0.0
        if data_wait > SLOW_DATA and state.window_seconds >= MIN_SECONDS and not self.said_slow:
            self.said_slow = True
            self.display.log(f"note: {data_wait:.0%} of the time of the last updates was spent waiting for batches")
        self.work = Work(0, 0.0)
        state.window_loss, state.window_tokens, state.window_seconds = 0.0, 0, 0.0
        return ends

    def record_validation(self, metrics: dict[str, Any], is_best: bool, rule: dict[str, Any]) -> bool:
        """The line of a validation; metrics with a dot are not displayed.

        Args:
            rule: by what the best is chosen, `monitor` and `mode`, and the share of the budget that is `spent`.

        Returns:
            Whether a callback ends the run.
        """
        state = self.progress
        entry = {"kind": "valid", "step": state.step, **metrics, "best": is_best, **rule, "seconds": state.seconds}
        ends = self._record(entry)
        numbers = {name: value for name, value in metrics.items() if name not in TEXTS and "." not in name}
        shown = "  ".join(f"{name} {value:.3f}" for name, value in numbers.items())
        if (signature := metrics.get(SIGNATURE, "")) != self.signature:
            self.display.log(f"BLEU of the validations: {signature}")
            self.signature = signature
        self.display.log(f"step {state.step:>6}  validation: {shown}{'  (best)' if is_best else ''}")
        return ends

    def _record(self, entry: dict[str, Any]) -> bool:
        if self.log is None:
            return False
        self.log.write(entry)
        answers = [callback(dict(entry)) for callback in self.callbacks]
        return any(answer is True for answer in answers)


def longer_start(times: Sequence[float]) -> float:
    """Seconds by which the first updates took longer than the others.

    >>> longer_start([4.0, 0.2, 1.1, *[0.1] * 7])
    5.0
    """
    return max(0.0, round(sum(times[:FIRST]) - FIRST * median(times[FIRST:]), 3))


class TensorBoard:
    """A callback of the trainer that writes each entry of metrics.jsonl as scalars: train/loss, valid/bleu ...

    Args:
        folder: of the run.

    Raises:
        UserError: the package tensorboard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        require_extra("tensorboard", "tensorboard", "train.tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        self.folder, self.open = folder / FOLDER, SummaryWriter
        self.writer: Any = None

    def __call__(self, entry: dict[str, Any]) -> None:
        """Write one entry."""
        step = int(entry["step"])
        if self.writer is None:
            # what a killed run wrote after its last checkpoint is hidden when the run is resumed
            self.writer = self.open(str(self.folder), purge_step=step)
        for name, value in entry.items():
            if name not in LEFT_OUT and isinstance(value, int | float):
                self.writer.add_scalar(f"{entry['kind']}/{name}", value, step)
        self.writer.flush()
