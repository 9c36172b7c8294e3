"""CPU threads for translating: how many one batch uses, and workers that translate several batches at once.

ThreadTuner      as many threads for one batch as are fastest, which for small models is a single one
WorkerThreads    one thread per core, each with a batch of its own; all use the same weights
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from harken.data.tokenizers.tokens import EOS
from harken.lazy_torch import is_loaded, limited_threads, no_grad, torch
from harken.machine import available_cores
from harken.search.stored import StoredModel

if TYPE_CHECKING:
    from harken.models.encoder_decoder import TranslationModel

T = TypeVar("T")
CLOSING = 2.0  # seconds that running calls get to end when workers are closed


class ThreadTuner:
    """Keeps the number of threads that was fastest for one model.

    It is measured once, when there is enough to do for the measurement to be worth its time.
    """

    def __init__(self, model: TranslationModel | StoredModel) -> None:
        self.model = model
        self.count: int | None = None  # not known before it is measured

    @contextmanager
    def used(self, measure: bool) -> Iterator[None]:
        """Search with them; `measure` says whether to find out how many there should be, if that is not known."""
        if isinstance(self.model, StoredModel):  # each thread decodes sentences of its own: many are faster with all
            given = os.environ.get("OMP_NUM_THREADS", "")
            most = min(available_cores(), max(1, int(given))) if given.isdecimal() else available_cores()
            with limited_threads(most if measure else 1):
                yield
            return
        if next(self.model.parameters()).device.type != "cpu":
            yield
            return
        before = torch.get_num_threads()
        if self.count is None and measure:
            most = min(available_cores(), before)  # OMP_NUM_THREADS, or the share of a worker process
            self.count = min(sorted({1, most}), key=self._seconds)
            torch.set_num_threads(before)
        with limited_threads(self.count or 1):
            yield

    @no_grad
    def _seconds(self, threads: int) -> float:
        """The seconds that a small batch takes with so many threads."""
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


class WorkerThreads(Generic[T]):
    """Threads that run calls from a queue, each with a single thread of torch; results come as they are ready.

    With a count of 0 the calls run where they are submitted.

    >>> with WorkerThreads(2) as workers:
    ...     for number in range(3):
    ...         workers.submit(lambda number=number: number**2)
    ...     sorted(workers.result() for _ in range(3))
    [0, 1, 4]
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._calls: SimpleQueue[Callable[[], T] | None] = SimpleQueue()
        self._results: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(count)]
        self._closed = False

    def __enter__(self) -> Self:
        self._torch_threads = torch.get_num_threads() if is_loaded() else None
        if self.count and is_loaded():
            torch.set_num_threads(1)  # also for the threads to come, and for those that they start
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closed = True
        for _ in self._threads:
            self._calls.put(None)
        deadline = time.monotonic() + CLOSING
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._torch_threads is not None:
            torch.set_num_threads(self._torch_threads)

    def submit(self, call: Callable[[], T]) -> None:
        """Run a call as soon as a thread is free."""
        if self.count:
            self._calls.put(call)
        else:
            self._results.put((call(), None))

    def result(self) -> T:
        """The result of a call that has ended, after waiting for one; raises its error if it failed."""
        value, error = self._results.get()
        if error is not None:
            raise error
        return value  # type: ignore[return-value]

    def _work(self) -> None:
        if is_loaded():
            torch.set_num_threads(1)
        while (call := self._calls.get()) is not None:
            if self._closed:
                continue
            try:
                self._results.put((call(), None))
            except BaseException as error:  # it is raised again where the result is read
                self._results.put((None, error))
