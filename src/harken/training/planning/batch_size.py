"""`train.batch_tokens = "auto"`: the largest token budget whose batches fit into memory, on every rank.

Before the first step, batches of a large budget are computed forward and backward, beginning with the largest budget;
it is halved until they fit, and then raised by a half if that fits too. Tried are the batch with the most targets and
the one with the longest examples. A GPU keeps a margin, because memory becomes fragmented in a long run. On a CPU an
operating system gives memory that it does not have and kills the process later, so there the search begins with the
largest budget whose memory, extrapolated from an eighth and a quarter of it, is at hand.

With `train.sharding = "full"` a rank that runs out of memory would leave the others waiting. There the budget begins
small and is doubled as long as the memory of the next one, extrapolated from the last two, fits on every rank.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from harken.errors import MachineError, UserError
from harken.machine import available_memory
from harken.training.config import TrainConfig
from harken.training.planning.measuring import epoch_with, largest_batches, peak_memory, unchanged
from harken.training.strategies import Strategy, choose_strategy
from harken.training.task import Indices

if TYPE_CHECKING:
    from harken.training.strategies.group import Group

LARGEST = {"cpu": 16_384, "cuda": 262_144}  # tokens; more gives no more tokens a second
SMALLEST = 64
BATCHES_PER_EPOCH = 20  # at least, where the data is small
MARGIN = 0.9  # of the memory


def choose_batch_tokens(task: Any, config: TrainConfig, group: Group | None = None) -> int:
    """The largest token budget whose batches fit. Called on all ranks of a group.

    Raises:
        UserError: the job fixes its batches when it is prepared.
        MachineError: not even the smallest budget fits.
    """
    if not hasattr(task, "smallest_batch"):
        raise UserError(
            'train.batch_tokens = "auto" does not work for this job, whose batches are fixed; give a number'
        )
    strategy = choose_strategy(task, config, group)
    try:
        with unchanged(task):
            search = _shrink if strategy.survives_out_of_memory else _grow
            return search(strategy, _largest(task, config, LARGEST[strategy.device.type]))
    finally:
        strategy.close()


def _largest(task: Any, config: TrainConfig, budget: int) -> int:
    """The largest budget that leaves enough batches an epoch."""
    while budget > task.smallest_batch and len(epoch_with(task, config, budget)) < BATCHES_PER_EPOCH:
        budget //= 2
    return budget


def _shrink(strategy: Strategy, budget: int) -> int:
    """The largest budget that fits, from above."""
    task, config = strategy.task, strategy.config
    first = epoch_with(task, config, SMALLEST)[0]
    strategy.update(1, [first], task.size(first), 0.0)  # the optimizer allocates its state
    if strategy.device.type == "cpu":
        budget = _affordable(strategy, budget)
    largest = budget
    while not _fits(strategy, epoch_with(task, config, budget)):
        if budget <= SMALLEST:
            raise MachineError(f"not even a batch of {budget} tokens fits into memory; make the model smaller")
        budget //= 2
    if budget < largest and _fits(strategy, epoch_with(task, config, budget + budget // 2)):
        budget += budget // 2
    return budget


def _affordable(strategy: Strategy, budget: int) -> int:
    """The budget, halved until the memory that it is expected to need is there on every rank."""
    small = budget // 8
    if small < SMALLEST:
        return budget
    used = _memory_of(strategy, small)
    slope = (_memory_of(strategy, 2 * small) - used) / small  # of one token
    while budget > SMALLEST and used + slope * (budget - small) > MARGIN:
        budget //= 2
    return budget


def _grow(strategy: Strategy, largest: int) -> int:
    """The largest budget that is expected to fit, from below: no rank runs out of memory on the way."""
    budget, slope = min(SMALLEST, largest), 0.0
    used = _memory_of(strategy, budget)
    while 2 * budget <= largest and used + 2 * slope <= MARGIN:
        more = _memory_of(strategy, 2 * budget)
        budget, used, slope = 2 * budget, more, more - used  # slope: of half the budget
    return budget + budget // 2 if budget < largest and used + slope <= MARGIN else budget


def _memory_of(strategy: Strategy, budget: int) -> float:
    """The share of its memory that a rank uses for updates with the largest batches of a budget, at most."""
    for indices in largest_batches(strategy.task, epoch_with(strategy.task, strategy.config, budget)):
        strategy.update(1, [indices], strategy.task.size(indices), 0.0)
    workers = [process.pid for process in getattr(strategy, "processes", [])]
    return strategy.maximum([memory_share(strategy.device, workers)])[0]


def memory_share(device: torch.device, workers: Sequence[int] = ()) -> float:
    """The share of a GPU's memory that was reserved at the peak; on a CPU, that of this rank's part of the memory.

    Args:
        workers: pids of its forked workers.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device) / torch.cuda.mem_get_info(device)[1]
    own_part = available_memory() / int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return peak_memory(list(workers), device) / own_part


def _fits(strategy: Strategy, epoch: list[Indices]) -> bool:
    """Whether the largest batches of an epoch can be computed on all ranks."""
    fits = all(strategy.fits(indices) for indices in largest_batches(strategy.task, epoch))
    if fits and strategy.device.type == "cuda":
        fits = memory_share(strategy.device) <= MARGIN
    if strategy.device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(strategy.device)
    return not strategy.maximum([float(not fits)])[0]
