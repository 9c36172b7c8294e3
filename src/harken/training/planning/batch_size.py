"""`train.batch_tokens = "auto"`: the largest token budget whose batches fit into memory, on every rank.

Before the first step, batches of a large budget are computed forward and backward, beginning with the largest budget;
it is halved until they fit, and then raised by a half if that fits too. Tried are the batch with the most targets and
the one with the longest examples. A GPU keeps a margin, because memory becomes fragmented in a long run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from harken.errors import MachineError, UserError
from harken.training.config import TrainConfig
from harken.training.planning.measuring import epoch_with, largest_batches, unchanged
from harken.training.strategies import Strategy, choose_strategy
from harken.training.task import Indices

if TYPE_CHECKING:
    from harken.training.strategies.group import Group

LARGEST = {"cpu": 16_384, "cuda": 262_144}  # tokens; more gives no more tokens a second
SMALLEST = 64
BATCHES_PER_EPOCH = 20  # at least, where the data is small
MARGIN = 0.9  # of a GPU's memory


def choose_batch_tokens(task: Any, config: TrainConfig, group: Group | None = None) -> int:
    """Set `config.batch_tokens` to the largest budget that fits, and return it. Called on all ranks of a group.

    Raises:
        UserError: the job fixes its batches when it is prepared, or the model is divided over ranks.
        MachineError: not even the smallest budget fits.
    """
    if not hasattr(task, "smallest_batch"):
        raise UserError(
            'train.batch_tokens = "auto" does not work for this job, whose batches are fixed; give a number'
        )
    if group is not None and config.sharding == "full":
        raise UserError('train.batch_tokens = "auto" does not work with train.sharding = "full"; give a number')
    strategy = choose_strategy(task, config, group)
    try:
        with unchanged(task):
            budget = _search(strategy, LARGEST[strategy.device.type])
    finally:
        strategy.close()
    config.batch_tokens = budget
    return budget


def _search(strategy: Strategy, budget: int) -> int:
    task, config = strategy.task, strategy.config
    smallest: int = task.smallest_batch  # type: ignore[attr-defined]
    while budget > smallest and len(epoch_with(task, config, budget)) < BATCHES_PER_EPOCH:
        budget //= 2
    first = epoch_with(task, config, SMALLEST)[0]
    strategy.update(1, [first], task.size(first), 0.0)  # the optimizer allocates its state
    largest = budget
    while not _fits(strategy, epoch_with(task, config, budget)):
        if budget <= SMALLEST:
            raise MachineError(f"not even a batch of {budget} tokens fits into memory; make the model smaller")
        budget //= 2
    if budget < largest and _fits(strategy, epoch_with(task, config, budget + budget // 2)):
        budget += budget // 2
    return budget


def _fits(strategy: Strategy, epoch: list[Indices]) -> bool:
    """Whether the largest batches of an epoch can be computed on all ranks."""
    fits = all(strategy.fits(indices) for indices in largest_batches(strategy.task, epoch))
    if fits and strategy.device.type == "cuda":
        fits = torch.cuda.max_memory_reserved(strategy.device) <= MARGIN * torch.cuda.mem_get_info(strategy.device)[1]
    if strategy.device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(strategy.device)
    return not strategy.maximum([float(not fits)])[0]
