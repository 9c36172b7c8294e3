"""Batches collated ahead are those collated when they are needed."""

import os
import threading
from concurrent.futures import wait
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from harken.errors import UserError
from harken.training import prefetch
from harken.training.prefetch import MOST_PENDING, Prefetcher


class Batch(NamedTuple):
    values: Tensor


class SlowTask:
    """Collating and drawing take 0.4 seconds of the thread that does them; the clock is that of the main thread."""

    def __init__(self) -> None:
        self.clock, self.threads = 0.0, list[str]()

    def work(self) -> None:
        self.threads.append(threading.current_thread().name)
        if threading.current_thread() is threading.main_thread():
            self.clock += 0.4

    def epoch(self, number: int) -> list[np.ndarray]:
        self.work()
        return [np.array([number])]

    def share(self, indices: np.ndarray, parts: int) -> list[np.ndarray]:
        return [indices[::-1][part::parts] for part in range(parts)]

    def collate(self, indices: np.ndarray) -> Batch:
        self.work()
        return Batch(torch.from_numpy(indices * 10))


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> SlowTask:
    task = SlowTask()
    monkeypatch.setattr(prefetch, "time", SimpleNamespace(perf_counter=lambda: task.clock))
    return task


def test_an_expected_batch_is_collated_in_the_thread_and_not_waited_for(slow: SlowTask) -> None:
    task = slow
    ahead = Prefetcher(task, threaded=True)
    ahead.expect([np.arange(4)])
    wait(ahead.pending.values())  # during the step before
    assert ahead.take(np.array([3, 2, 1, 0])).values.tolist() == [30, 20, 10, 0]
    assert task.threads[0].startswith("prefetch") and ahead.waited == 0
    assert ahead.take(np.arange(2)).values.tolist() == [0, 10]  # not announced: collated now, and counted
    assert task.threads[1] == "MainThread" and ahead.waited == 0.4
    assert ahead.share_of(0.8) == 0.5 and ahead.share_of(0.8) == 0
    ahead.close()


def test_each_rank_collates_its_own_share() -> None:
    task = SlowTask()
    ranks = [Prefetcher(task, rank, 2, threaded=True) for rank in range(2)]
    for rank in ranks:
        rank.expect([np.arange(4)])
    assert [rank.take(task.share(np.arange(4), 2)[rank.rank]).values.tolist() for rank in ranks] == [[30, 10], [20, 0]]
    assert not any(rank.pending for rank in ranks)
    for rank in ranks:
        rank.close()


def test_batches_that_nobody_takes_do_not_pile_up() -> None:
    ahead = Prefetcher(SlowTask(), threaded=True)
    ahead.expect(np.arange(start, start + 2) for start in range(100))
    assert len(ahead.pending) == MOST_PENDING
    ahead.close()


def test_without_a_thread_following_batches_are_collated_with_the_one_that_is_needed() -> None:
    task = MadeTask()
    ahead = Prefetcher(task, rank=1, world_size=2)
    batches, collated = ahead.epoch(0), list[list[int]]()
    ahead._collate = lambda share: collated.append(share.tolist()) or task.collate(share)  # type: ignore[method-assign, func-returns-value]
    shares = [task.share(indices, 2)[1].tolist() for indices in batches]
    for place in range(3, 9):  # resumed at the fourth batch
        ahead.expect(batches[place + 1 : place + 2])
        assert ahead.take(np.array(shares[place])).indices.tolist() == shares[place]
        assert collated == shares[3:]  # at the first of them
    assert [part[0].tolist() for part in ahead.ahead] == []  # announced once
    assert ahead.take(np.array([7])).indices.tolist() == [7] and collated[-1] == [7]  # not announced: collated now


def test_processes_go_on_to_the_next_epoch() -> None:
    task = MadeTask()
    ahead = Prefetcher(task, processes=1)
    batches = ahead.epoch(0)
    ahead.drawn[1].result()
    ahead.expect([])  # the last batch of the epoch is computed
    assert [part[0].tolist() for part in ahead.ahead] == [task.share(indices, 1)[0].tolist() for indices in batches[:2]]
    batches = ahead.epoch(1)
    assert ahead.take(task.share(batches[0], 1)[0]).process != os.getpid()
    ahead.expect(batches[1:2])
    assert [part[0].tolist() for part in ahead.ahead] == [[8, 7, 6]]  # the second was announced before
    ahead.close()


def test_a_batch_that_does_not_fit_shared_memory_comes_through_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "SLOT_BYTES", 16)
    task = MadeTask()
    ahead = Prefetcher(task, processes=1)
    batches = ahead.epoch(0)
    for place in range(8):  # more than there are slots
        ahead.expect(batches[place : place + 1])
        share = task.share(batches[place], 1)[0]
        assert ahead.take(share).values.tolist() == (share * 0.5).tolist()
    ahead.close()


def test_the_next_epoch_is_drawn_ahead(slow: SlowTask) -> None:
    task = slow
    ahead = Prefetcher(task, threaded=True)
    assert ahead.epoch(0)[0].tolist() == [0] and ahead.share_of(0.8) == 0.5
    wait(ahead.drawn.values())  # during the first epoch
    assert ahead.epoch(1)[0].tolist() == [1] and ahead.waited == 0
    assert task.threads[0] == "MainThread" and task.threads[1].startswith("epoch")
    assert ahead.epoch(5)[0].tolist() == [5]  # as when a run is resumed
    ahead.close()


class Made(NamedTuple):
    values: Tensor
    process: int
    indices: np.ndarray


class MadeTask:
    """Its batches say which process made them."""

    def epoch(self, number: int) -> list[np.ndarray]:
        return [np.arange(start, start + 3) for start in range(0, 30, 3)]

    def share(self, indices: np.ndarray, parts: int) -> list[np.ndarray]:
        return [indices[::-1][part::parts] for part in range(parts)]

    def collate(self, indices: np.ndarray) -> Made:
        if 29 in indices:
            raise UserError("the last recording is damaged")
        return Made(torch.from_numpy(indices * 0.5), os.getpid(), indices)


@pytest.mark.parametrize("processes", [1, 3])
def test_processes_collate_what_is_expected_and_what_follows(processes: int) -> None:
    task, makers = MadeTask(), set()
    ahead = Prefetcher(task, processes=processes)
    batches = ahead.epoch(0)
    for place in range(2, 9):  # resumed at the third batch
        ahead.expect(batches[place : place + 1])
        share = task.share(batches[place], 1)[0]
        found = ahead.take(share)
        assert found.values.tolist() == (share * 0.5).tolist() and found.indices.tolist() == share.tolist()
        makers.add(found.process)
    assert os.getpid() not in makers and len(makers) == processes
    ahead.expect(batches[9:])
    with pytest.raises(UserError, match="the last recording is damaged"):
        ahead.take(task.share(batches[9], 1)[0])
    ahead.close()
