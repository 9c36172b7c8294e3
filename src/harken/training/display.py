"""Progress of a run: a live bar in a terminal, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Any, NamedTuple, Protocol


class Throughput(NamedTuple):
    """How fast training goes."""

    tokens: float  # or other terms of the loss, per second
    utilisation: float | None = None  # share of the GPU's peak FLOP/s, where both are known
    data_wait: float = 0.0  # share of the time that was spent waiting for batches
    unit: str = "tokens"  # that the loss sums over, as the task counts them

    def __str__(self) -> str:
        share = "" if self.utilisation is None else f" ({self.utilisation:.0%} of peak FLOP/s)"
        waiting = f", {self.data_wait:.0%} waiting for data" if self.data_wait >= 0.01 else ""
        return f"{self.tokens:,.0f} {self.unit}/s{share}{waiting}"


class Display(Protocol):
    """Called by the trainer; all methods are cheap."""

    def start(self, description: str, progress: float) -> None: ...
    def step(self, step: int, progress: float, loss: float, rate: float, speed: Throughput) -> None: ...
    def log(self, text: str) -> None: ...
    def stop(self) -> None: ...


class NullDisplay:
    """Shows nothing."""

    def start(self, description: str, progress: float) -> None:
        """Nothing."""

    def step(self, step: int, progress: float, loss: float, rate: float, speed: Throughput) -> None:
        """Nothing."""

    def log(self, text: str) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""


class Lines(NullDisplay):
    """A line every few seconds, for files and pipes."""

    def __init__(self, every: float = 15.0) -> None:
        self.every, self.last = every, 0.0

    def start(self, description: str, progress: float) -> None:
        """Print the description."""
        self.log(description)
        self.began, self.first = time.monotonic(), progress

    def step(self, step: int, progress: float, loss: float, rate: float, speed: Throughput) -> None:
        """Print a line if the last one is old enough."""
        now = time.monotonic()
        if now - self.last < self.every:
            return
        self.last = now
        left = remaining(now - self.began, self.first, progress)
        self.log(f"step {step:>6}  {progress:4.0%}  loss {loss:.3f}  rate {rate:.2e}  {speed}  {left} left")

    def log(self, text: str) -> None:
        """Print a line at once; a reader that left (`| head`) or a lost terminal does not end the run."""
        with suppress(OSError, ValueError):
            print(text, flush=True)


class Bar(NullDisplay):
    """A live progress bar (rich)."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self.bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[numbers]}"),
            TimeElapsedColumn(),
            refresh_per_second=4,
        )
        self.task: Any = None

    def start(self, description: str, progress: float) -> None:
        """Open the bar."""
        self.began, self.first = time.monotonic(), progress
        self.bar.start()
        self.task = self.bar.add_task(description, total=1.0, numbers="")
        self.bar.update(self.task, completed=progress)

    def step(self, step: int, progress: float, loss: float, rate: float, speed: Throughput) -> None:
        """Update the bar."""
        left = remaining(time.monotonic() - self.began, self.first, progress)
        numbers = f"step {step}  loss {loss:.3f}  {speed}  {left} left"
        with suppress(OSError, ValueError):
            self.bar.update(self.task, completed=progress, numbers=numbers)

    def log(self, text: str) -> None:
        """A line above the bar."""
        with suppress(OSError, ValueError):
            self.bar.console.print(text, highlight=False, markup=False)

    def stop(self) -> None:
        """Close it."""
        with suppress(OSError, ValueError):
            self.bar.stop()


def remaining(seconds: float, first: float, now: float) -> str:
    """The estimated time left, from the time since progress `first`.

    >>> remaining(60, 0.0, 0.25)
    '3:00'
    """
    if now <= first:
        return "?"
    left = round(seconds * (1 - now) / (now - first))
    hours, rest = divmod(max(left, 0), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def choose_display(shown: bool) -> Display:
    """A bar for a terminal, lines for a file or pipe."""
    if not shown:
        return NullDisplay()
    return Bar() if sys.stdout is not None and sys.stdout.isatty() else Lines()
