"""How one global batch is computed: `single`, `forked` (CPU worker processes), `distributed` (torchrun)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.training.config import TrainConfig
from harken.training.prefetch import Prefetcher
from harken.training.strategies.base import StepResult, Strategy
from harken.training.task import Task

if TYPE_CHECKING:
    from harken.training.strategies.group import Group

__all__ = ["StepResult", "Strategy", "choose_strategy"]


def choose_strategy(
    task: Task, config: TrainConfig, group: Group | None = None, prefetcher: Prefetcher | None = None
) -> Strategy:
    """The strategy for a resolved `[train]`.

    Args:
        group: the ranks of a torchrun job. Without it: forked workers on a CPU with several of them, else one process.
        prefetcher: collates the batches; by default each one when it is needed.
    """
    if group is not None:
        if config.sharding == "full":
            from harken.training.strategies.sharded import Sharded

            return Sharded(task, config, group, prefetcher)
        from harken.training.strategies.captured import CapturedReplicas, is_supported
        from harken.training.strategies.distributed import Replicated

        return (CapturedReplicas if is_supported(task, config) else Replicated)(task, config, group, prefetcher)
    if config.device.startswith("cpu") and (config.workers or 1) > 1:
        from harken.training.strategies.forked import Forked

        return Forked(task, config, prefetcher=prefetcher)
    from harken.training.strategies.base import Single
    from harken.training.strategies.captured import Captured, is_supported

    return (Captured if is_supported(task, config) else Single)(task, config, prefetcher=prefetcher)
