"""Threads that take pieces of a text one after the other, epoch by epoch, and what is told meanwhile.

A piece knows its random numbers and its learning rate from its place alone, so what is drawn does not depend on the
number of threads; what is learnt does, where two of them write a row at the same time. Ctrl-C lets every thread finish
its piece and keeps what was learnt.

>>> seen = []
>>> progress = run_spans(lambda epoch, span, done: (1.0, 1), [10, 10], epochs=2, threads=1, tell=seen.append)
>>> progress.losses, progress.words, progress.stopped
([1.0, 1.0], 40, False)
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from harken.errors import UserError

EVERY = 0.5  # seconds between two words to the user


@dataclass
class Progress:
    """How far a training is."""

    epochs: int
    total: int  # words in all epochs
    words: int = 0  # so far
    seconds: float = 0.0
    sums: list[float] = field(default_factory=list)  # loss of each epoch, not yet divided
    terms: list[int] = field(default_factory=list)
    stopped: bool = False

    @property
    def done(self) -> float:
        """From 0 to 1."""
        return self.words / self.total if self.total else 1.0

    @property
    def words_per_second(self) -> float:
        """So far."""
        return self.words / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """None while nothing is known."""
        return self.seconds * (1 - self.done) / self.done if self.done else None

    @property
    def losses(self) -> list[float]:
        """The exact mean loss of each epoch that has begun."""
        return [total / terms for total, terms in zip(self.sums, self.terms, strict=True) if terms]


def run_spans(
    train: Callable[[int, int, float], tuple[float, int]],
    sizes: Sequence[int],
    *,
    epochs: int,
    threads: int,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> Progress:
    """Call `train(epoch, span, done)` for every span of every epoch; it gives a summed loss and its terms.

    Raises:
        UserError: the loss is no number any more.
    """
    progress = Progress(epochs, sum(sizes) * epochs, sums=[0.0] * epochs, terms=[0] * epochs)
    turns = itertools.count()
    stop, lock = threading.Event(), threading.Lock()

    def work() -> None:
        while not stop.is_set():
            with lock:
                turn = next(turns)
            epoch, span = divmod(turn, len(sizes))
            if epoch >= epochs:
                return
            loss, terms = train(epoch, span, turn / (len(sizes) * epochs))
            if loss != loss:
                stop.set()
                raise UserError(f"The loss is no number any more (epoch {epoch + 1}): lower the learning rate.")
            with lock:
                progress.sums[epoch] += loss
                progress.terms[epoch] += terms
                progress.words += sizes[span]

    began = time.perf_counter()
    with ThreadPoolExecutor(threads, "harken-words") as pool:
        running: set[Future[None]] = {pool.submit(work) for _ in range(threads)}
        try:
            while running:
                finished, running = wait(running, timeout=EVERY)
                progress.seconds = time.perf_counter() - began
                tell(progress)
                for one in finished:
                    one.result()
        except KeyboardInterrupt:
            progress.stopped = True
        finally:
            stop.set()
    progress.seconds = time.perf_counter() - began
    return progress
