"""The queue: work of many clients, put together into batches by a token budget, fairly between clients.

A request is split into units, one for each text. A unit belongs to a group (model, operation, options); units of one
group can run in one batch. `next()` takes the unit of the client that has been served least, and fills the batch with
units of its group, always from the client served least so far (weighted fair queuing: every client has a virtual time
that grows with the tokens it got; a new client starts at the smallest of those who wait). Work that has used up half of
its time goes first, the earliest deadline before the others, so that no number of new clients can delay it for ever.

Work is refused where the queue, at the measured speed, would take more than a share of the time that the work has. So
what is accepted is answered before its deadline even where the workers become several times slower. An idle server
takes all that fits into the queue, whatever was measured before.

>>> batcher = Batcher(batch_tokens=8, batch_texts=8, queue_tokens=100)
>>> for client, count in (("a", 4), ("b", 2)):
...     batcher.add(Work("m", "translate", {}, [f"{client}{n}" for n in range(count)], client, [2] * count))
>>> batcher.next().items, batcher.next().items
(['a0', 'b0', 'a1', 'b1'], ['a2', 'a3'])
"""

from __future__ import annotations

import heapq
import itertools
import json
import math
import time
from collections import deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Any

from harken.serving.errors import QueueFull, TooLarge

FIRST_RATE, FIRST_SECONDS = 200.0, 0.1  # tokens a second that are assumed at first, and how long that counts
HORIZONS = (2.0, 20.0)  # seconds over which the speed of a worker is averaged
_numbers = itertools.count()


@dataclass(eq=False)
class Work:
    """One request to the engine: items of one operation of one model.

    Args:
        costs: the estimated tokens of every item.
        whole: run all items together and with no others, as random numbers depend on the place in a batch.
        is_continued: an earlier work of the same request was accepted, so this one is not refused.
        deadline: `time.monotonic()` after which it is given up.
        urgent_at: when it goes before work that is not urgent.
    """

    model: str
    operation: str
    options: dict[str, Any]
    items: list[Any]
    client: str
    costs: Sequence[int]
    whole: bool = False
    is_continued: bool = False
    deadline: float = float("inf")
    urgent_at: float = float("inf")
    results: list[Any] = field(default_factory=list)
    on_done: Callable[[Work], None] | None = None
    on_error: Callable[[Work, Exception], None] | None = None
    attempts: int = 0  # workers that died over it
    is_suspect: bool = False  # a batch with it failed, so it runs in batches of its own
    over: bool = False  # answered, failed or cancelled
    number: int = field(default_factory=lambda: next(_numbers))
    left: int = 0

    def __post_init__(self) -> None:
        self.results, self.left = [None] * len(self.items), len(self.items)

    @property
    def group(self) -> tuple[Any, ...]:
        """The key that works of one batch share."""
        alone = self.number if self.whole or self.is_suspect else None
        return (self.model, self.operation, json.dumps(self.options, sort_keys=True), alone)

    def finish(self, index: int, result: Any) -> None:
        """Take the result of one item; the last one ends the work."""
        self.results[index] = result
        self.left -= 1
        if not self.left and not self.over:
            self.over = True
            if self.on_done:
                self.on_done(self)

    def fail(self, error: Exception) -> None:
        """End the work."""
        if not self.over:
            self.over = True
            if self.on_error:
                self.on_error(self, error)


@dataclass(frozen=True)
class Unit:
    """Items of a work that run together: one, or all."""

    work: Work
    indices: tuple[int, ...]
    cost: int
    group: tuple[Any, ...]


@dataclass
class Batch:
    """Units of work that a worker runs together."""

    model: str
    operation: str
    options: dict[str, Any]
    units: list[Unit]
    started: float = 0.0
    worker: int = 0  # that it was given to
    cancelled_at: float | None = None  # when the worker was told that nobody waits for it any more

    @property
    def items(self) -> list[Any]:
        """The items of all units, in order."""
        return [unit.work.items[index] for unit in self.units for index in unit.indices]

    @property
    def cost(self) -> int:
        """Estimated tokens."""
        return sum(unit.cost for unit in self.units)

    def finish(self, results: Sequence[Any]) -> None:
        """Give every item its result; an exception among the results fails the work of that item alone."""
        remaining = iter(results)
        for unit in self.units:
            for index in unit.indices:
                result = next(remaining)
                if isinstance(result, Exception):
                    unit.work.fail(result)
                else:
                    unit.work.finish(index, result)

    def fail(self, error: Exception) -> None:
        """Fail the work of every item."""
        for work in self.works():
            work.fail(error)

    def works(self) -> list[Work]:
        """Whose items these are."""
        return list(dict.fromkeys(unit.work for unit in self.units))

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for any of its items."""
        return all(unit.work.over for unit in self.units)


class Speed:
    """Tokens a second that workers do, measured by the batches that they have done.

    Tokens and seconds of each worker are summed with weights that fall exponentially, over a short and a long time. The
    smaller quotient counts: a worker that becomes slower is noticed at once, one that becomes faster later. A batch
    weighs no more than such a time, however long it took, so that the estimate recovers from a single slow one.
    """

    def __init__(self, workers: int = 1) -> None:
        self._sums = [[[FIRST_RATE * FIRST_SECONDS, FIRST_SECONDS] for _ in HORIZONS] for _ in range(workers)]
        self._ended = [0.0] * workers
        self.is_measured = False

    def done(self, batch: Batch, now: float) -> None:
        """Count a batch, from when its worker had it and nothing else to do."""
        seconds = max(now - max(batch.started, self._ended[batch.worker]), 1e-4)
        self._ended[batch.worker], self.is_measured = now, True
        for sums, horizon in zip(self._sums[batch.worker], HORIZONS, strict=True):
            decay, weight = math.exp(-seconds / horizon), min(1.0, horizon / seconds)
            sums[0], sums[1] = decay * sums[0] + weight * batch.cost, decay * sums[1] + weight * seconds

    def skip(self, batch: Batch, now: float) -> None:
        """A batch has ended that says nothing about the speed, as it was cancelled or failed."""
        self._ended[batch.worker] = now

    def of(self, worker: int) -> float:
        """The speed of one worker."""
        return min(tokens / seconds for tokens, seconds in self._sums[worker])

    def total(self) -> float:
        """The speed of all workers together."""
        return sum(map(self.of, range(len(self._sums))))


class Batcher:
    """The bounded queue of the engine; not thread-safe, it lives in the event loop.

    Args:
        batch_tokens, batch_texts: the most of a batch.
        queue_tokens: the most that may wait, and that one work may cost.
        queue_share: of the time of a work that the queue before it and itself may take at the measured speed.
        workers: how many take batches.
    """

    def __init__(
        self, batch_tokens: int, batch_texts: int, queue_tokens: int, queue_share: float = 1.0, workers: int = 1
    ) -> None:
        self.batch_tokens, self.batch_texts = batch_tokens, batch_texts
        self.queue_tokens, self.queue_share = queue_tokens, queue_share
        self.waiting, self.running = 0, 0  # tokens in the queue, and at workers
        self.speed = Speed(workers)
        self._queues: dict[str, deque[Unit]] = {}  # of clients that wait
        self._times: dict[str, float] = {}  # virtual time of clients that wait
        self._now = 0.0  # virtual time of the client that was served last

    def add(self, work: Work) -> None:
        """Queue a work.

        Raises:
            TooLarge: it would not fit into an empty queue.
            QueueFull: there is no room, or no time.
        """
        cost = sum(work.costs)
        if not work.is_continued:
            self.check_size(cost)
            self._check_room(work, cost)
        group = work.group
        if work.whole:
            units = [Unit(work, tuple(range(len(work.items))), cost, group)]
        else:
            units = [Unit(work, (index,), each, group) for index, each in enumerate(work.costs)]
        self._queue(work.client).extend(units)
        self.waiting += cost

    def check_size(self, cost: int) -> None:
        """Refuse what can never be accepted.

        Raises:
            TooLarge: it would not fit into an empty queue.
        """
        if cost > self.queue_tokens:
            raise TooLarge(
                f"the request costs {cost:,} tokens, with its beam, n-best list and output length, and the limit is "
                f"{self.queue_tokens:,}; send less text at a time, or ask for less of each"
            )

    def _check_room(self, work: Work, cost: int) -> None:
        ahead = self.waiting + self.running
        if not ahead:
            return
        rate, left = self.speed.total(), work.deadline - time.monotonic()
        share = self.queue_share if self.waiting else 1.0
        if self.waiting and self.waiting + cost > self.queue_tokens:
            raise QueueFull(ahead / rate)
        if ahead + cost > share * left * rate and (self.waiting or self.speed.is_measured):
            raise QueueFull(ahead / rate)

    def remove(self, work: Work) -> None:
        """Drop the units of a work that still wait."""
        queue = self._queues.get(work.client)
        if queue is None:
            return
        self.waiting -= sum(unit.cost for unit in queue if unit.work is work)
        self._queues[work.client] = deque(unit for unit in queue if unit.work is not work)
        self._forget_if_empty(work.client)

    def fail_waiting(self, error: Exception, model: str | None = None) -> None:
        """Fail all works that wait, or those of one model."""
        units = [unit for queue in self._queues.values() for unit in queue if model in (None, unit.work.model)]
        for work in dict.fromkeys(unit.work for unit in units):
            work.fail(error)
            self.remove(work)

    def put_back(self, batch: Batch) -> None:
        """Queue a batch again, before all else, as its worker died or it failed."""
        self.running -= batch.cost
        for work in batch.works():
            units = [Unit(work, unit.indices, unit.cost, work.group) for unit in batch.units if unit.work is work]
            self._queue(work.client).extendleft(reversed(units))
            self.waiting += sum(unit.cost for unit in units)

    def next(self, models: Container[str] | None = None) -> Batch | None:
        """The next batch; None where nothing waits.

        Args:
            models: those that the worker has; work of others is left for another. Default: all.
        """
        now = time.monotonic()
        order = [(*self._turn(client, now), client) for client in self._times]
        heapq.heapify(order)
        chosen: list[Unit] = []
        group: tuple[Any, ...] | None = None
        cost = count = 0
        while order:
            _, virtual, client = heapq.heappop(order)
            queue = self._queues[client]
            index = 0 if models is None else _index_of(queue, models)
            if index is None:
                continue
            unit = queue[index]
            if group is None:
                group = unit.group
            size = len(unit.indices)
            if unit.group != group:
                continue  # it is that client's turn in a later batch
            if chosen and (cost + unit.cost > self.batch_tokens or count + size > self.batch_texts):
                break
            del queue[index]
            chosen.append(unit)
            cost, count, self._now = cost + unit.cost, count + size, virtual
            self.waiting -= unit.cost
            self.running += unit.cost
            self._times[client] = virtual + unit.cost
            if not self._forget_if_empty(client):
                heapq.heappush(order, (*self._turn(client, now), client))
        if not chosen:
            return None
        work = chosen[0].work
        return Batch(work.model, work.operation, work.options, chosen, time.monotonic())

    def _turn(self, client: str, now: float) -> tuple[float, float]:
        """The key of the order: the deadline of urgent work, then the virtual time; the smallest is first."""
        first = self._queues[client][0].work
        return first.deadline if first.urgent_at < now else math.inf, self._times[client]

    def is_full_batch(self) -> bool:
        """Whether a whole batch waits."""
        return self.waiting >= self.batch_tokens

    def done(self, batch: Batch, now: float) -> None:
        """A batch is done; the speed is measured by it, unless it was cancelled."""
        if batch.cancelled_at is None:
            self.running -= batch.cost
            self.speed.done(batch, now)
        else:
            self.speed.skip(batch, now)

    def cancel(self, batch: Batch, now: float) -> None:
        """Nobody waits for a batch any more, so it delays nothing: its worker ends it soon, or is ended."""
        batch.cancelled_at = now
        self.running -= batch.cost

    def _queue(self, client: str) -> deque[Unit]:
        if client not in self._queues:
            self._queues[client] = deque()
            self._times[client] = min(self._times.values(), default=self._now)
        return self._queues[client]

    def _forget_if_empty(self, client: str) -> bool:
        if self._queues[client]:
            return False
        del self._queues[client], self._times[client]
        return True


def _index_of(queue: Sequence[Unit], models: Container[str]) -> int | None:
    """The index of the first unit of one of the models."""
    return next((index for index, unit in enumerate(queue) if unit.work.model in models), None)
