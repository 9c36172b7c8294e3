"""A slot: one worker at a time, what it was given, and whether it can be given more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from harken.serving.engine.batching import Batch, Work
from harken.serving.engine.worker import ProcessWorker, ThreadWorker

CANCEL_SECONDS = 5.0  # that a worker has to end what was cancelled, or as long as it took to load, if that is longer


@dataclass(eq=False)
class Stream:
    """One stream, from the messages of its worker to its reader."""

    work: Work
    events: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    cancelled_at: float | None = None  # when the worker was told that nobody reads it any more


class Slot:
    """One worker at a time, which is replaced where it ends.

    Args:
        silence: seconds without a sign of life after which a worker is taken for one that hangs.
    """

    def __init__(self, number: int, silence: float) -> None:
        self.number, self.silence = number, silence
        self.worker: ProcessWorker | ThreadWorker | None = None
        self.batches: dict[int, Batch] = {}  # in the order in which the worker runs them
        self.streams: dict[int, Stream] = {}
        self.loaded: set[str] = set()
        self.refused: dict[str, str] = {}  # models that could not be loaded, and why
        self.deaths = 0  # since it last did something
        self.is_failing = False  # workers died again and again; another is tried, but nothing waits for it
        self.is_given_up = False  # its worker is killed over what was cancelled, which is no fault of the worker
        self.is_stopped = False  # its worker is killed as somebody stopped it, which is no fault of its work
        self.generation = 0
        self.started_at = self.loading_seconds = 0.0
        self.next_at = 0.0  # when it may get a second batch

    @property
    def load(self) -> int:
        """How much it was given."""
        return len(self.streams) + len(self.batches)

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for something that it was given."""
        jobs: list[Batch | Stream] = [*self.batches.values(), *self.streams.values()]
        return any(job.cancelled_at is None for job in jobs)

    def has_settled(self, models: Iterable[str]) -> bool:
        """Whether its worker has loaded all models, but those that cannot be."""
        return self.worker is not None and self.loaded | self.refused.keys() >= set(models)

    def problem(self, models: Iterable[str]) -> str | None:
        """Why it will not have one of the models soon; None: it has them, or they are being loaded."""
        if self.is_failing:
            return f"the worker process died {self.deaths} times in a row"
        return next((self.refused[name] for name in models if name in self.refused), None)

    def is_responsive(self) -> bool:
        """Whether its worker gave a sign of life of late and ends what is cancelled."""
        return self.worker is not None and self.worker.silent_seconds < self.silence / 2 and not self.is_stuck()

    def is_silent(self, models: Iterable[str]) -> bool:
        """Whether its worker hangs: it gives no sign of life.

        While it loads libraries and models it has longer, unless a signal has stopped it: then it loads nothing.
        """
        if self.worker is None or self.worker.silent_seconds <= self.silence:
            return False
        has_stalled = self.has_settled(models) or self.worker.is_stopped()
        return has_stalled or self.worker.silent_seconds > 10 * self.silence

    def is_stuck(self) -> bool:
        """Whether its worker goes on with something that was cancelled a while ago: the first batch, or a stream."""
        running = next(iter(self.batches.values()), None)
        jobs: list[Batch | Stream] = [*self.streams.values()] if running is None else [running]
        latest = time.monotonic() - max(CANCEL_SECONDS, self.loading_seconds)
        return any(job.cancelled_at is not None and job.cancelled_at < latest for job in jobs)
