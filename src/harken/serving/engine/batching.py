"""The queue: work of many clients, put together into batches by a token budget, fairly between clients.

A request is split into units, one for each text. A unit belongs to a group (model, operation, options); units of one
group can run in one batch. `next()` takes the unit of the client that has been served least, and fills the batch with
units of its group, always from the client served least so far (weighted fair queuing: every client has a virtual time
that grows with the tokens it got; a new client starts at the smallest of those who wait).

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
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harken.serving.errors import QueueFull

_numbers = itertools.count()


@dataclass(eq=False)
class Work:
    """One request to the engine: items of one operation of one model.

    Args:
        costs: the estimated tokens of every item.
        whole: run all items together and with no others, as random numbers depend on the place in a batch.
        deadline: `time.monotonic()` after which it is given up.
    """

    model: str
    operation: str
    options: dict[str, Any]
    items: list[Any]
    client: str
    costs: Sequence[int]
    whole: bool = False
    deadline: float = float("inf")
    results: list[Any] = field(default_factory=list)
    on_done: Callable[[Work], None] | None = None
    on_error: Callable[[Work, Exception], None] | None = None
    attempts: int = 0  # workers that died over it
    over: bool = False  # answered, failed or cancelled: units that still wait are dropped
    number: int = field(default_factory=lambda: next(_numbers))
    left: int = 0

    def __post_init__(self) -> None:
        self.results, self.left = [None] * len(self.items), len(self.items)

    @property
    def group(self) -> tuple[Any, ...]:
        """What runs in one batch."""
        alone = self.number if self.whole or self.attempts else None
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
    """What a worker gets."""

    model: str
    operation: str
    options: dict[str, Any]
    units: list[Unit]
    started: float = 0.0

    @property
    def items(self) -> list[Any]:
        """Of all units, in order."""
        return [unit.work.items[index] for unit in self.units for index in unit.indices]

    @property
    def cost(self) -> int:
        """Estimated tokens."""
        return sum(unit.cost for unit in self.units)

    def finish(self, results: Sequence[Any]) -> None:
        """Give every item its result; an exception among the results fails the work of that item alone."""
        found = iter(results)
        for unit in self.units:
            for index in unit.indices:
                result = next(found)
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


class Batcher:
    """The bounded queue of the engine; not thread-safe, it lives in the event loop.

    Args:
        batch_tokens, batch_texts: the most of a batch.
        queue_tokens: the most that may wait.
        queue_seconds: how long the queue may take at the rate that was measured, so that what is accepted is answered
            before its deadline, however slow the model is.
    """

    def __init__(
        self, batch_tokens: int, batch_texts: int, queue_tokens: int, queue_seconds: float = float("inf")
    ) -> None:
        self.batch_tokens, self.batch_texts = batch_tokens, batch_texts
        self.queue_tokens, self.queue_seconds = queue_tokens, queue_seconds
        self.waiting, self.running = 0, 0  # tokens in the queue, and at workers
        self.rate = 1000.0  # tokens a second of all workers, as measured
        self._last_done = 0.0
        self._queues: dict[str, deque[Unit]] = {}  # of clients that wait
        self._times: dict[str, float] = {}  # virtual time of clients that wait
        self._now = 0.0  # virtual time of the client that was served last

    def add(self, work: Work) -> None:
        """Queue a work.

        Raises:
            QueueFull: there is no room; a work larger than the queue has room in an empty one.
        """
        cost = sum(work.costs)
        ahead = self.waiting + self.running
        if self.waiting and (self.waiting + cost > self.queue_tokens or ahead + cost > self.queue_seconds * self.rate):
            raise QueueFull(ahead / self.rate)
        group = work.group
        if work.whole:
            units = [Unit(work, tuple(range(len(work.items))), cost, group)]
        else:
            units = [Unit(work, (index,), each, group) for index, each in enumerate(work.costs)]
        self._queue(work.client).extend(units)
        self.waiting += cost

    def put_back(self, batch: Batch) -> None:
        """Queue a batch again, before all else: its worker died. Each work now runs in batches of its own."""
        self.running -= batch.cost
        for work in batch.works():
            units = [Unit(work, unit.indices, unit.cost, work.group) for unit in batch.units if unit.work is work]
            self._queue(work.client).extendleft(reversed(units))
            self.waiting += sum(unit.cost for unit in units)

    def next(self) -> Batch | None:
        """The next batch; None where nothing waits."""
        order = [(time_, client) for client, time_ in self._times.items()]
        heapq.heapify(order)
        chosen: list[Unit] = []
        group: tuple[Any, ...] | None = None
        cost = count = 0
        while order:
            virtual, client = heapq.heappop(order)
            queue = self._queues[client]
            while queue and queue[0].work.over:
                self.waiting -= queue.popleft().cost
            if not queue:
                del self._queues[client], self._times[client]
                continue
            unit = queue[0]
            if group is None:
                group = unit.group
            size = len(unit.indices)
            if unit.group != group:
                continue  # it is that client's turn in a later batch
            if chosen and (cost + unit.cost > self.batch_tokens or count + size > self.batch_texts):
                break
            queue.popleft()
            chosen.append(unit)
            cost, count, self._now = cost + unit.cost, count + size, virtual
            self.waiting -= unit.cost
            self.running += unit.cost
            self._times[client] = virtual + unit.cost
            heapq.heappush(order, (virtual + unit.cost, client))
        if not chosen:
            return None
        work = chosen[0].work
        return Batch(work.model, work.operation, work.options, chosen, time.monotonic())

    def drop_late(self, now: float, error: Callable[[Work], Exception]) -> None:
        """Fail what has waited past its deadline."""
        for queue in self._queues.values():
            for work in {unit.work for unit in queue if unit.work.deadline < now}:
                work.fail(error(work))

    def is_full_batch(self) -> bool:
        """Whether a whole batch waits."""
        return self.waiting >= self.batch_tokens

    def done(self, batch: Batch, now: float) -> None:
        """Measure the rate by a batch that is done: its tokens over the time since the last one, or since it started.

        A small batch says little about the rate under load, so it counts by its size.
        """
        self.running -= batch.cost
        seconds = now - max(batch.started, self._last_done)
        self._last_done = now
        if seconds > 0:
            weight = 0.3 * min(1.0, 4 * batch.cost / self.batch_tokens)
            self.rate += weight * (batch.cost / seconds - self.rate)

    def _queue(self, client: str) -> deque[Unit]:
        if client not in self._queues:
            self._queues[client] = deque()
            self._times[client] = min(self._times.values(), default=self._now)
        return self._queues[client]


def estimate_tokens(text: str) -> int:
    """Tokens of a text, without its tokenizer: words, or a quarter of its characters, and one for the end.

    >>> estimate_tokens("the black cat"), estimate_tokens("国破山河在" * 4), estimate_tokens("")
    (4, 21, 1)
    """
    wide = sum(character > "\u2e7f" for character in text) if not text.isascii() else 0
    return 1 + max(text.count(" ") + bool(text), (len(text) - wide) // 4 + wide)
